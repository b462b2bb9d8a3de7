"""Clusters on Kubernetes, as YAML gives them."""

from __future__ import annotations

from typing import Any

from tidepool.cluster.spec import ClusterSpec

VOLUMES = {"home": "nas:/export/home", "slurmctld": {"storage_class": "nfs", "size": "10Gi"}}
CLUSTER_API = {
    "image_url": "http://images.site/{name}-{digest}.qcow2",
    "checksum_url": "http://images.site/{name}-{digest}.qcow2.sha256sum",
    "interface": "eno1",
}
#: All that an offering of pods can say, for a shape with two GPUs.
TUNED: dict[str, Any] = {
    "node_selector": {"site/rack": "r7"},
    "tolerations": [{"key": "site/hpc", "effect": "NoSchedule"}, {"key": "site/owner", "value": "physics"}],
    "spread": [{"over": "topology.kubernetes.io/zone"}],
    "gres": {"gpu": "nvidia.com/gpu"},
    "resources": {"rdma/hca": 1},
    "priority_class": "hpc",
    "runtime_class": "nvidia",
    "overhead": "512MiB",
}
FIREWALL: dict[str, Any] = {
    "logins": {"ingress": [{"from": ["192.0.2.0/24"]}]},
    "nodes": {
        "egress": [
            {"to": ["198.51.100.7"], "ports": [443, "27000-27010"]},
            {"to": ["0.0.0.0/0"], "protocol": "udp"},
        ]
    },
}
GPUS = [{"name": "gpu", "count": 2, "files": "/dev/nvidia[0-1]"}]


def mapping(
    offering: dict[str, Any] | None = None,
    *,
    gres: list[Any] | None = None,
    controller: dict[str, Any] | None = None,
    firewall: dict[str, Any] | None = None,
    **place: Any,
) -> dict[str, Any]:
    """A cluster with one fleet of that offering, its controller's other keys, and the place's options."""
    return {
        "name": "physics",
        "network": "10.77.0.0/16",
        "controller": {
            "infrastructure": {"name": "kubernetes", "options": {"volumes": VOLUMES, **place}},
            **(controller or {}),
        },
        "fleets": [
            {
                "name": "cpu",
                "subnet": "10.77.10.0/24",
                "max_nodes": 4,
                "shape": {"cpus": 4, "memory": "4GiB", "gres": gres or []},
                "infrastructures": [{"name": "kubernetes", "options": offering or {}}],
            }
        ],
        "partitions": [{"name": "main"}],
        **({} if firewall is None else {"firewall": firewall}),
    }


def spec(offering: dict[str, Any] | None = None, **more: Any) -> ClusterSpec:
    """The same, read."""
    return ClusterSpec.model_validate(mapping(offering, **more))


def of_machines(offering: dict[str, Any] | None = None, **place: Any) -> ClusterSpec:
    """One with a fleet of pods, and a fleet of machines that Cluster API provisions."""
    said = mapping(**{"cluster_api": CLUSTER_API, **place})
    metal = {
        **said["fleets"][0],
        "name": "metal",
        "subnet": "10.77.20.0/24",
        "infrastructures": [{"name": "kubernetes", "options": {"kind": "machines", **(offering or {})}}],
    }
    return ClusterSpec.model_validate({**said, "fleets": [said["fleets"][0], metal]})
