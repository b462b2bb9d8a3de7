"""Clusters of existing hosts, as YAML gives them."""

from __future__ import annotations

from typing import Any

from tidepool.cluster.spec import ClusterSpec

HOSTS: dict[str, Any] = {
    "head": "192.0.2.1",
    "head2": "192.0.2.2",
    "head3": "192.0.2.3",
    "head4": "192.0.2.4",
    "alpha": "192.0.2.11",
    "beta": {"address": "192.0.2.12", "port": 2222, "user": "admin"},
}


def mapping(
    offering: dict[str, Any] | None = None, *, controller: dict[str, Any] | None = None, **place: Any
) -> dict[str, Any]:
    """A cluster with one fleet of two hosts, its controller's other keys, and the place's options."""
    options = {
        "hosts": HOSTS,
        "volumes": {"home": "nas:/home", "slurmctld": "/srv/slurmctld"},
        "machines": {"hosts": ["head", "head2", "head3", "head4"]},
        "key": "/keys/id",
        "known_hosts": "/keys/known_hosts",
        "playbooks": "/playbooks",
        **place,
    }
    return {
        "name": "physics",
        "network": "10.77.0.0/16",
        "controller": {"infrastructure": {"name": "ssh", "options": options}, **(controller or {})},
        "fleets": [
            {
                "name": "cpu",
                "subnet": "10.77.10.0/24",
                "max_nodes": 2,
                "shape": {"cpus": 4, "memory": "4GiB"},
                "infrastructures": [{"name": "ssh", "options": offering or {"hosts": ["alpha", "beta"]}}],
            }
        ],
        "partitions": [{"name": "main"}],
    }


def spec(
    offering: dict[str, Any] | None = None, *, controller: dict[str, Any] | None = None, **place: Any
) -> ClusterSpec:
    """The same, read."""
    return ClusterSpec.model_validate(mapping(offering, controller=controller, **place))
