"""Preflight of a Kubernetes: the demands of a stack, compared with what there is, in previews and by `tidepool doctor`."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, get_args

from tidepool.clients.kubernetes.contract import Forbidden, KubernetesError, KubernetesReader, NotFound
from tidepool.clients.kubernetes.objects import Namespace, Node, Right
from tidepool.cluster import hostlist
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.shape import Shape
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.finding import Finding, Preflight, findings, gathered
from tidepool.infrastructures.kubernetes import namespace
from tidepool.infrastructures.kubernetes.namespace import LIST_NODES, NODE_LABEL, STACK_LABEL, rights_summary
from tidepool.infrastructures.kubernetes.options import Offering
from tidepool.infrastructures.kubernetes.reading import NAME, Options, extended, read_options
from tidepool.infrastructures.kubernetes_access import connect_by
from tidepool.infrastructures.reading import has_own_machines

#: Kubernetes' words for the machines that images are built on, and for.
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Demand:
    """Machines of one offering. ``path`` is where a person wrote it, ``names`` are all that there can be, a hostlist."""

    path: str
    names: str
    kind: str
    cpu_milli: int = field(metadata={"least": 1})
    memory_mib: int = field(metadata={"least": 1})
    architecture: str
    node_selector: Mapping[str, str] = FrozenDict()
    extended: Mapping[str, int] = FrozenDict()
    #: Whether nodes come when they are asked for.
    autoscaled: bool = False


#: What a stack may make there.
Use = Literal["pods", "machines", "claims", "multus"]


@dataclass(frozen=True, slots=True)
class Demands:
    """All demands of a stack. ``path`` is where its options stand in the spec, ``kubeconfig`` the path of a file."""

    stack: str
    path: str
    namespace: str
    own_namespace: bool
    demands: tuple[Demand, ...]
    kubeconfig: str = ""
    uses: tuple[Use, ...] = ()


def architecture() -> str:
    """Return the architecture of images: they are built on this machine."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def uses_of(spec: ClusterSpec, options: Options) -> list[Use]:
    """Return the kinds of objects that a stack makes there."""
    place = options.place
    uses: dict[Use, bool] = {
        "pods": bool(options.fleets_of_pods) or has_own_machines(spec, NAME),
        "machines": options.has_machines,
        "claims": any(volume.storage_class for volume in place.volumes.values()),
        "multus": place.addresses == "multus",
    }
    return [name for name, is_used in uses.items() if is_used]


def demands(spec: ClusterSpec, options: Options, stack: str, built_for: str) -> Demands:
    """Return all demands of a stack, when every fleet is as large as it may be; images are ``built_for`` an architecture."""
    return Demands(
        stack,
        options.path,
        options.namespace,
        options.place.own_namespace,
        tuple(_demands(spec, options, built_for, tuple(spec.own_hosts))),
        options.place.kubeconfig,
        tuple(uses_of(spec, options)),
    )


def _demands(
    spec: ClusterSpec, options: Options, architecture: str, own: tuple[str, ...]
) -> Iterator[Demand]:
    if has_own_machines(spec, NAME):
        path = f"{options.path}.machines"
        yield _demand(path, own, spec.controller.shape, options.place.machines, architecture)
    for found in spec.entries(NAME):
        fleet = found.fleet
        # Which of them are here is decided later.
        names = tuple(slot.node_name for slot in fleet.slots())
        offering = options.offerings[fleet.name, found.entry.key]
        yield _demand(found.options_path, names, fleet.shape, offering, architecture)


def _demand(path: str, names: tuple[str, ...], shape: Shape, offering: Offering, architecture: str) -> Demand:
    return Demand(
        path,
        hostlist.fold(names),
        offering.kind,
        shape.cpus * 1000,
        shape.memory_mib + offering.overhead_mib,
        architecture,
        offering.node_selector,
        FrozenDict(extended(shape, offering)),
        offering.autoscaled,
    )


_ARCHITECTURE = "kubernetes.io/arch"


@dataclass(frozen=True, slots=True)
class Observation:
    """Observation of a Kubernetes. ``others`` are the names of pods and Machines in the namespace that are not this stack's."""

    missing: tuple[Right, ...] = ()
    namespace: Namespace | None = None
    others: frozenset[str] = frozenset()
    #: None where they may not be seen.
    nodes: tuple[Node, ...] | None = ()
    has_cluster_api: bool = True


@gathered
def lacks(demands: Demands, seen: Observation) -> Iterator[str]:
    """All that is wrong, each with its key and its remedy."""
    if seen.missing:
        yield (
            f"{demands.path}.kubeconfig: its user may not {rights_summary(seen.missing)}; an administrator has to allow it "
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


def look(
    kubernetes: KubernetesReader, demands: Demands, rights: Iterable[Right], scaling: Iterable[Right]
) -> Observation:
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
    return Observation(missing, namespace, frozenset(others), nodes, has_cluster_api)


def _is_mine(labels: Mapping[str, str], stack: str) -> bool:
    return labels.get(STACK_LABEL) == stack and NODE_LABEL in labels


def _may(resource: str, missing: tuple[Right, ...]) -> bool:
    return not any(right.verb == "list" and right.resource == resource for right in missing)


#: What reads a Kubernetes, by its kubeconfig and the data folder.
Connect = Callable[[Path, Path], AbstractContextManager[KubernetesReader]]


def lacks_of_site(demands: Demands, data: Path, connect: Connect = connect_by) -> tuple[str, ...]:
    """All that it lacks, each with its key and the remedy; that it cannot be asked."""
    by = {use: use in demands.uses for use in get_args(Use)}
    of_machines = {"pods": by["pods"], "machines": by["machines"]}
    all_of_it = namespace.needed(demands.namespace, **by, owner=demands.own_namespace)
    try:
        connected = connect(Path(demands.kubeconfig), data)
    except ValueError as error:
        return (f"{demands.path}.kubeconfig: {error}; an administrator of that Kubernetes gives you one",)
    try:
        with connected as kubernetes:
            seen = look(kubernetes, demands, all_of_it, namespace.scaling(demands.namespace, **of_machines))
    except KubernetesError as error:
        return (f"{demands.path}.kubeconfig: {error}",)
    return lacks(demands, seen)


def checks_of(spec: ClusterSpec, stack: str, data: Path, connect: Connect = connect_by) -> Iterator[Finding]:
    """Check the rights of the kubeconfig's user, and the nodes that pods would be on."""
    options = read_options(spec)
    found = lacks_of_site(demands(spec, options, stack, architecture()), data, connect)
    well = "it answers, and its user may do all that is asked of it"
    return findings(f"Kubernetes, namespace {options.namespace}", found, well)


PREFLIGHT = Preflight(Demands, lambda demands, home: lacks_of_site(demands, home.data))
