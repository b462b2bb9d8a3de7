"""Clusters on libvirt, as YAML gives them."""

from __future__ import annotations

from typing import Any

from tidepool.cluster.spec import ClusterSpec

VOLUMES = {"home": "nas:/export/home", "slurmctld": "nas:/export/slurmctld"}
TWO_HOSTS = {"alpha": "qemu+ssh://root@alpha/system", "beta": "qemu+ssh://root@beta/system"}
#: All that an offering can say, for machines of 4 processors and 4 GiB.
TUNED: dict[str, Any] = {
    "cells": [{"node": 0, "cpus": "4-11"}, {"node": 1, "cpus": "16-23"}],
    "emulator_cpus": "0-1",
    "hugepages": "2MiB",
    "pci_devices": ["0000:3b:00.0", "3b:00.1", "0000:af:00.0", "0000:af:00.1"],
    "sriov_network": "vfs",
    "disk": "32GiB",
}
TO_LICENCES = {"nodes": {"egress": [{"to": ["198.51.100.7"], "ports": ["27000-27010"]}]}}


def mapping(
    offering: dict[str, Any] | None = None,
    *,
    controller: dict[str, Any] | None = None,
    firewall: dict[str, Any] | None = None,
    **place: Any,
) -> dict[str, Any]:
    """A cluster with one fleet of that offering, its controller's other keys, and the place's options."""
    options = {"volumes": VOLUMES, **place}
    return {
        "name": "physics",
        "network": "10.77.0.0/16",
        "image": "debian-12-cloud",
        "controller": {"infrastructure": {"name": "libvirt", "options": options}, **(controller or {})},
        "fleets": [
            {
                "name": "cpu",
                "subnet": "10.77.10.0/24",
                "max_nodes": 4,
                "shape": {"cpus": 4, "memory": "4GiB", "threads_per_core": 2},
                "infrastructures": [{"name": "libvirt", "options": offering or {}}],
            }
        ],
        "partitions": [{"name": "main"}],
        **({} if firewall is None else {"firewall": firewall}),
    }


def spec(offering: dict[str, Any] | None = None, **more: Any) -> ClusterSpec:
    """The same, read."""
    return ClusterSpec.model_validate(mapping(offering, **more))
