"""Specs of clusters on Nomad, as a person writes them."""

from __future__ import annotations

from typing import Any

from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.nomad.resources import NomadMachineModel

VOLUMES = {"home": "/shared/physics/home", "slurmctld": "/shared/physics/slurmctld"}


def mapping(offering: dict[str, Any] | None = None, /, **place: Any) -> dict[str, Any]:
    """A cluster with one fleet; ``controller`` is the controller's, all other names are options of the place."""
    controller = {"login_machines": 1, **place.pop("controller", {})}
    options = {
        "interface": "eth0",
        "hosts": {"ctl": "alpha", "login-1": "beta"},
        "volumes": VOLUMES,
        **place,
    }
    return {
        "name": "physics",
        "network": "10.77.0.0/16",
        "controller": {**controller, "infrastructure": {"name": "nomad", "options": options}},
        "fleets": [
            {
                "name": "cpu",
                "subnet": "10.77.10.0/24",
                "max_nodes": 4,
                "shape": {"cpus": 4, "memory": "4GiB"},
                "infrastructures": [{"name": "nomad", "options": offering or {}}],
            }
        ],
        "partitions": [{"name": "main"}],
    }


def spec(offering: dict[str, Any] | None = None, /, **place: Any) -> ClusterSpec:
    return ClusterSpec.model_validate(mapping(offering, **place))


def desired(key: MachineKey, address: str) -> NomadMachineModel:
    """A machine of a fleet whose hosts are of the rack `r1`."""
    return NomadMachineModel(
        api={},
        namespace="default",
        stack=key.stack,
        machine=key.node,
        fleet=key.fleet,
        address=address,
        constraints=("${meta.rack} = r1",),
        drivers=("raw_exec",),
        datacenters=("*",),
        node_pool="all",
        jobs=(),
    )
