"""Specs for tests, as YAML gives them."""

from __future__ import annotations

import copy
from typing import Any

from tidepool.cluster.slurm_conf import slurm_conf
from tidepool.cluster.spec import ClusterSpec

_SPEC: dict[str, Any] = {
    "name": "physics",
    "network": "10.77.0.0/16",
    "fleets": [
        {
            "name": "cpu",
            "subnet": "10.77.10.0/24",
            "max_nodes": 16,
            "shape": {"cpus": 4, "memory": "4GiB", "threads_per_core": 2},
            "features": ["std"],
        },
        {
            "name": "gpu",
            "subnet": "10.77.12.0/23",
            "max_nodes": 300,
            "shape": {
                "cpus": 8,
                "memory": 8000,
                "sockets": 2,
                "gres": [{"name": "gpu", "type": "a100", "count": 2, "files": "/dev/nvidia[0-1]"}, "lic:3"],
            },
            "infrastructures": ["local", {"name": "aws", "options": {"zones": ["a", "b"]}}],
        },
    ],
    "partitions": [
        {"name": "main", "default": True},
        {"name": "gpu", "fleets": ["gpu"], "max_time": "1-00:00:00", "options": {"prioritytier": 10}},
    ],
    "slurm_version": 22.05,
}


def spec_mapping(**changes: Any) -> dict[str, Any]:
    """A good spec of its own, with ``changes`` at its top."""
    return copy.deepcopy(_SPEC) | changes


def with_fleet(number: int, **changes: Any) -> dict[str, Any]:
    """A good spec with changes in a fleet."""
    mapping = spec_mapping()
    mapping["fleets"][number] |= changes
    return mapping


POOL: dict[str, Any] = {
    "name": "shared",
    "subnet": "10.77.20.0/24",
    "machines": 4,
    "shape": {"cpus": 2, "memory": "1GiB"},
}


def with_pool(**changes: Any) -> dict[str, Any]:
    """A good spec with a pool beside the fleets, and with changes in the pool."""
    return spec_mapping(pools=[copy.deepcopy(POOL) | changes], kubernetes={})


def of_release(spec: ClusterSpec, release: str, **changes: Any) -> ClusterSpec:
    """The spec as it would be, were ``release`` one that Tidepool was run with."""
    return spec.model_copy(update={"slurm_version": release, **changes})


def slots_line(spec: ClusterSpec, fleet: str) -> str:
    """Return the line of slurm.conf that has the slots of a fleet or pool."""
    (line,) = (each for each in slurm_conf(spec).splitlines() if each.startswith(f"NodeName={fleet}-"))
    return line
