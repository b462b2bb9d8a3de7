"""A cluster on Kubernetes as a user's program registers it, run against mocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pulumi.runtime.mocks import MockResourceArgs

from tests.clients.kubernetes.applying import Applying
from tests.components import cluster_graph
from tests.components.cluster_graph import Outputs
from tidepool.cluster.spec import ClusterSpec
from tidepool.testing import Graph, Registered

pytest.importorskip(
    "pulumi_kubernetes", reason="pulumi-kubernetes is not installed: scripts/setup installs it"
)

POD, SECRET, NAMESPACE = (f"kubernetes:core/v1:{kind}" for kind in ("Pod", "Secret", "Namespace"))
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"
BUDGET = "kubernetes:policy/v1:PodDisruptionBudget"
MACHINE = "kubernetes:cluster.x-k8s.io/v1beta2:Machine"
METAL3 = "kubernetes:infrastructure.cluster.x-k8s.io/v1beta2:{}"
ROLE, BINDING = (f"kubernetes:rbac.authorization.k8s.io/v1:{kind}" for kind in ("Role", "RoleBinding"))
POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
PROVIDER = "pulumi:providers:kubernetes"
PLACE, ANSWERS = "tidepool:infrastructure:Preflight", "tidepool:kubernetes:Machine"
ACCESS, connection = cluster_graph.ACCESS, cluster_graph.connection


def registered(spec: ClusterSpec, nodes: Mapping[str, str] | None = None, **how: Any) -> Graph:
    """As `cluster_graph.registered`, on Kubernetes."""
    return cluster_graph.registered(spec, nodes, outputs=_outputs, **how)


def _outputs(args: MockResourceArgs) -> Outputs:
    found = {ANSWERS: {"connection": connection(args.inputs.get("address", ""))}}
    if args.typ.startswith("kubernetes:"):
        found[args.typ] = {"metadata": {**args.inputs["metadata"], "uid": f"uid-of-{args.name}"}}
    return found


def of_kubernetes(graph: Graph) -> dict[str, Registered]:
    """What Kubernetes' provider is told of, by type and name."""
    return {name: each for name, each in graph.resources.items() if each.type.startswith("kubernetes:")}


def applied(applying: Applying, graph: Graph) -> dict[str, Mapping[str, Any]]:
    """All of it in the order of what needs what, as the API server keeps it."""
    left, done = of_kubernetes(graph), {}
    while left:
        ready = [name for name, each in left.items() if not each.depends_on & left.keys()]
        assert ready
        for name in ready:
            done[name] = applying.apply(left.pop(name).inputs)
    return done
