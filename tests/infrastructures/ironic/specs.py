"""Specs of clusters on an Ironic, as a person writes them."""

from __future__ import annotations

from typing import Any

from tidepool.cluster.spec import ClusterSpec


def mapping(offering: dict[str, Any] | None = None, /, **place: Any) -> dict[str, Any]:
    """A cluster with one fleet; ``controller``, ``fleet`` and ``image`` are the spec's, all other names are options of the place."""
    controller = {"login_machines": 0, "shape": {"cpus": 2, "memory": "4GiB"}, **place.pop("controller", {})}
    fleet, image = place.pop("fleet", {}), place.pop("image", "debian-12-metal")
    options = {
        "cloud": "site",
        "boot_service": "http://10.9.0.5:8081",
        "volumes": {"home": "10.9.0.1:/home", "slurmctld": "10.9.0.1:/slurmctld"},
        "machines": {"hosts": ["head"]},
        **place,
    }
    return {
        "name": "physics",
        "network": "10.77.0.0/16",
        "image": image,
        "controller": {**controller, "infrastructure": {"name": "ironic", "options": options}},
        "fleets": [
            {
                "name": "cpu",
                "subnet": "10.77.10.0/24",
                "max_nodes": 2,
                "shape": {"cpus": 8, "memory": "32GiB"},
                "infrastructures": [{"name": "ironic", "options": offering or {"resource_class": "cpu"}}],
                **fleet,
            }
        ],
        "partitions": [{"name": "main"}],
    }


def spec(offering: dict[str, Any] | None = None, /, **place: Any) -> ClusterSpec:
    return ClusterSpec.model_validate(mapping(offering, **place))
