"""Clusters on AWS, as YAML gives them."""

from __future__ import annotations

from typing import Any

from tidepool.cluster.spec import ClusterSpec

REGION = "eu-central-1"
ZONE, OTHER_ZONE = "eu-central-1a", "eu-central-1b"
#: A VPC of somebody else's.
GIVEN: dict[str, Any] = {
    "vpc": "vpc-0123",
    "subnets": {ZONE: "subnet-0a", OTHER_ZONE: "subnet-0b"},
    "route_table": "rtb-0a",
}
#: A machine for MPI.
COUPLED: dict[str, Any] = {"instance_type": "hpc7a.96xlarge", "placement_group": "mpi", "efa": True}

#: Who logs in from the administrators' network and beyond it, and what nodes reach.
RULES: dict[str, Any] = {
    "nodes": {
        "egress": [
            {"to": ["198.51.100.7"], "ports": ["27000-27010"], "description": "licences"},
            {"to": ["0.0.0.0/0"], "ports": [443]},
        ]
    },
}


def mapping(
    offering: dict[str, Any] | None = None,
    *,
    controller: dict[str, Any] | None = None,
    firewall: dict[str, Any] | None = None,
    **place: Any,
) -> dict[str, Any]:
    """A cluster with one fleet of that offering, its controller's other keys, and the place's options."""
    options = {"region": REGION, **({} if "given" in place else {"zones": [ZONE, OTHER_ZONE]}), **place}
    return {
        "name": "physics",
        "network": "10.77.0.0/16",
        "image": "debian-12-cloud",
        "controller": {"infrastructure": {"name": "aws", "options": options}, **(controller or {})},
        "fleets": [
            {
                "name": "cpu",
                "subnet": "10.77.10.0/24",
                "max_nodes": 4,
                "shape": {"cpus": 8, "memory": "14GiB", "threads_per_core": 2},
                "infrastructures": [
                    {"name": "aws", "options": {"instance_type": "c7i.2xlarge", **(offering or {})}}
                ],
            }
        ],
        "partitions": [{"name": "main"}],
        **({} if firewall is None else {"firewall": firewall}),
    }


def spec(offering: dict[str, Any] | None = None, **more: Any) -> ClusterSpec:
    """The same, read."""
    return ClusterSpec.model_validate(mapping(offering, **more))
