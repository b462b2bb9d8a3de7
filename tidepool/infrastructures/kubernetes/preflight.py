"""Lacks of a Kubernetes, compared with the demands of a stack: a comparison of two values, without asking anybody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tidepool.clients.kubernetes.objects import Namespace, Node, Right
from tidepool.cluster import hostlist
from tidepool.infrastructures.kubernetes.demand import Demand, Demands
from tidepool.infrastructures.kubernetes.labels import STACK_LABEL
from tidepool.infrastructures.kubernetes.rights import summary

_ARCHITECTURE = "kubernetes.io/arch"


@dataclass(frozen=True, slots=True)
class Seen:
    """Observation of a Kubernetes. ``others`` are the names of pods and Machines in the namespace that are not this stack's."""

    missing: tuple[Right, ...] = ()
    namespace: Namespace | None = None
    others: frozenset[str] = frozenset()
    #: None where they may not be seen.
    nodes: tuple[Node, ...] | None = ()
    has_cluster_api: bool = True


def lacks(demands: Demands, seen: Seen) -> tuple[str, ...]:
    """All that is wrong, each with its key and its remedy."""
    return tuple(_lacks(demands, seen))


def _lacks(demands: Demands, seen: Seen) -> Iterator[str]:
    if seen.missing:
        yield (
            f"{demands.path}.kubeconfig: its user may not {summary(seen.missing)}; an administrator has to allow it "
            "(docs/infrastructures/kubernetes.md)"
        )
    yield from _of_namespace(demands, seen.namespace)
    for demand in demands.demands:
        if taken := seen.others & {*hostlist.expand(demand.names)}:
            yield (
                f"{demand.path}: {hostlist.fold(taken)} in the namespace {demands.namespace} is there already, and not this "
                "stack's; take it away, or name another namespace"
            )
        if demand.kind == "machines":
            if not seen.has_cluster_api:
                yield (
                    f"{demand.path}.kind: the API server knows no Machines; install Cluster API and Metal3 "
                    "(clusterctl init --infrastructure metal3)"
                )
        elif not demand.autoscaled and seen.nodes is not None:
            yield from _of_nodes(demand, seen.nodes)


def _of_namespace(demands: Demands, there: Namespace | None) -> Iterator[str]:
    key = f"{demands.path}.namespace"
    if there is None:
        if not demands.own_namespace:
            yield f"{key}: there is no {demands.namespace}; an administrator makes it, or leave out own_namespace: false"
        return
    whose = there.labels.get(STACK_LABEL)
    if there.is_ending:
        yield f"{key}: {demands.namespace} is being deleted; wait for its end, or name another"
    elif whose is None:
        remedy = f"kubectl label namespace {demands.namespace} {STACK_LABEL}={demands.stack}"
        if demands.own_namespace:
            yield f"{key}: {demands.namespace} is there already, and no stack's; name another, or write own_namespace: false and {remedy}"
        else:
            yield f"{key}: {demands.namespace} is not said to be this stack's; {remedy}"
    elif whose != demands.stack:
        yield f"{key}: {demands.namespace} is of the stack {whose}; each department has its own, name another"


def _of_nodes(demand: Demand, nodes: tuple[Node, ...]) -> Iterator[str]:
    chosen = [node for node in nodes if demand.node_selector.items() <= dict(node.labels).items()]
    if not chosen:
        labels = ", ".join(f"{key}: {value}" for key, value in demand.node_selector.items())
        which = f"has the labels {labels}" if labels else "is there"
        yield f"{demand.path}.node_selector: no node {which}; label one, or write autoscaled: true where nodes come by themselves"
        return
    fit = [node for node in chosen if node.labels.get(_ARCHITECTURE) in (None, demand.architecture)]
    if not fit:
        have = _said(node.labels.get(_ARCHITECTURE, "") for node in chosen)
        yield (
            f"{demand.path}: the image is of {demand.architecture}, and the nodes that pods may be on are of {have}; select "
            "others, or build the image on a machine like them"
        )
        return
    for name, count in demand.extended.items():
        most = max(node.allocatable.extended.get(name, 0) for node in fit)
        if most < count:
            yield (
                f"{demand.path}.gres: a pod asks for {count} {name}, and no node that it may be on has more than {most}; see "
                "its device plugin, or name the resource that nodes have (kubectl describe node)"
            )
    roomy = any(
        node.allocatable.cpu_milli >= demand.cpu_milli
        and node.allocatable.memory_bytes >= demand.memory_mib * 2**20
        for node in fit
    )
    if not roomy:
        cpus, memory = demand.cpu_milli // 1000, demand.memory_mib
        largest = max(fit, key=lambda node: (node.allocatable.cpu_milli, node.allocatable.memory_bytes))
        has = largest.allocatable
        yield (
            f"{demand.path}: a pod asks for {cpus} processors and {memory} MiB, and no node that it may be on has both: "
            f"{largest.name} has {has.cpu_milli / 1000:g} and {has.memory_bytes // 2**20} MiB; make the shape smaller"
        )


def _said(words: Iterable[str]) -> str:
    return ", ".join(sorted({word for word in words if word})) or "another one"
