"""Objects of a Kubernetes with played nodes: nodes, pods, and how to the API server is come. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidepool.lab.scale.cluster import NODE_CPUS

NAMESPACE: Final = "default"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
NODES: Final = "/api/v1/nodes"
LABEL: Final = "tidepool.scale"
"""Of nodes and of pods: which nodes they are, or want."""
FULL: Final = "full"
"""Value of the label: the one node that is full for ever."""
MANY: Final = "many"
"""Value of the label: all others."""
#: What the full node has of processors, and what each pod that waits for it asks: as little as can be said, because Volcano lets
#: only as many pods wait as ask for little more than there is (its plugin overcommit).
_LEAST_CPU: Final = "1m"

Object = Mapping[str, Any]


def node(number: int) -> Object:
    """Return a node that kwok plays; 0 is the full one."""
    name, value, cpus = (f"n{number}", MANY, str(NODE_CPUS)) if number else (FULL, FULL, _LEAST_CPU)
    has = {"cpu": cpus, "memory": "1Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {LABEL: value}, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"capacity": has, "allocatable": has},
    }


def pod(name: str, value: str, scheduler: str) -> Object:
    """Return a pod for nodes of that label, which asks for a processor of them; for all that the full one has."""
    cpus = "1" if value == MANY else _LEAST_CPU
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {LABEL: value}},
        "spec": {
            "schedulerName": scheduler,
            "restartPolicy": "Never",
            "nodeSelector": {LABEL: value},
            "containers": [{"name": "job", "image": "none", "resources": {"requests": {"cpu": cpus}}}],
        },
    }


def kubeconfig(server: str, authority: str, token: str) -> Object:
    """Return the kubeconfig of who has the token; ``authority`` is the path of a certificate."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "scale", "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": "scale", "user": {"token": token}}],
        "contexts": [{"name": "scale", "context": {"cluster": "scale", "user": "scale"}}],
        "current-context": "scale",
    }


def is_ready(thing: Object) -> bool:
    """Return whether a node is ready."""
    conditions = thing.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
