"""Selection: label selectors, and which nodes a pod can be on. Plain functions, as the scheduler has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidepool.clients.kubernetes.objects import Budget, Node, Pod, Requirement, Taint, Toleration


def guards(budget: Budget, pod: Pod) -> bool:
    """Return whether a pod counts for a disruption budget."""
    return budget.namespace == pod.namespace and selects(budget.selector, pod.labels)


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a label selector (``matchLabels``, ``matchExpressions``) holds for ``labels``; an empty one always does."""
    expressions = (
        Requirement(said["key"], said["operator"], tuple(said.get("values") or ()))
        for said in selector.get("matchExpressions") or ()
    )
    return all(
        labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items()
    ) and all(holds(expression, labels) for expression in expressions)


def wants(pod: Pod, node: str, labels: Mapping[str, str]) -> bool:
    """Return whether a pod's node selector and required node affinity let it be on a node of that name, with those labels."""
    known = {**labels, "metadata.name": node}
    if any(labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    return not pod.affinity or any(all(holds(part, known) for part in term) for term in pod.affinity)


def bears(pod: Pod, taints: Iterable[Taint]) -> bool:
    """Return whether a pod tolerates all taints that would keep it away."""
    return all(
        taint.effect == "PreferNoSchedule" or any(tolerates(said, taint) for said in pod.tolerations)
        for taint in taints
    )


def can_be_on(pod: Pod, node: Node) -> bool:
    """Return whether the scheduler would put a pod there if there is room: selectors, affinity, taints, and that it is ready."""
    return (
        not node.unschedulable
        and node.ready
        and wants(pod, node.name, node.labels)
        and bears(pod, node.taints)
    )


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether a toleration allows to be where a taint is."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Return whether a match expression holds for ``labels``."""
    there = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return there is not None and there in requirement.values
        case "NotIn":
            return there is None or there not in requirement.values
        case "Exists":
            return there is not None
        case "DoesNotExist":
            return there is None
        case "Gt" | "Lt":
            return _compares(requirement, there)


def _compares(requirement: Requirement, there: str | None) -> bool:
    try:
        mine, bound = int(there or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return mine > bound if requirement.operator == "Gt" else mine < bound
