"""A look at a Kubernetes, for a preflight: all that is asked of the API server, at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidepool.clients.kubernetes.contract import KubernetesReader
from tidepool.clients.kubernetes.errors import Forbidden, NotFound
from tidepool.clients.kubernetes.objects import Right
from tidepool.infrastructures.kubernetes.demand import Demands
from tidepool.infrastructures.kubernetes.labels import NODE_LABEL, STACK_LABEL
from tidepool.infrastructures.kubernetes.preflight import Seen
from tidepool.infrastructures.kubernetes.rights import LIST_NODES


def look(
    kubernetes: KubernetesReader, demands: Demands, rights: Iterable[Right], scaling: Iterable[Right]
) -> Seen:
    """Look for what a stack asks for.

    A namespace that a stack made was made with all ``rights``: from then on those for ``scaling`` are enough, for the scaler
    may have no more.

    Raises:
        KubernetesError: the API server does not answer.
    """
    try:
        namespace = kubernetes.namespace(demands.namespace)
    except Forbidden:
        namespace = None  # which right is missing is said below
    is_made = (
        demands.own_namespace and namespace is not None and namespace.labels.get(STACK_LABEL) == demands.stack
    )
    missing = kubernetes.missing_rights(scaling if is_made else rights)
    others: set[str] = set()
    has_cluster_api = True
    kinds = {demand.kind for demand in demands.demands}
    if namespace is not None and "pods" in kinds and _may("pods", missing):
        pods = kubernetes.pods_in(demands.namespace)
        others |= {pod.name for pod in pods if not _is_mine(pod.labels, demands.stack)}
    if "machines" in kinds and _may("machines", missing):
        try:
            machines = kubernetes.cluster_machines(demands.namespace)
            others |= {each.name for each in machines if not _is_mine(each.labels, demands.stack)}
        except NotFound:
            has_cluster_api = False
    sees_nodes = "pods" in kinds and not kubernetes.missing_rights((LIST_NODES,))
    nodes = kubernetes.nodes() if sees_nodes else None
    return Seen(missing, namespace, frozenset(others), nodes, has_cluster_api)


def _is_mine(labels: Mapping[str, str], stack: str) -> bool:
    return labels.get(STACK_LABEL) == stack and NODE_LABEL in labels


def _may(resource: str, missing: tuple[Right, ...]) -> bool:
    return not any(right.verb == "list" and right.resource == resource for right in missing)
