"""The pods that wait, by what they ask for; and which nodes would do for them, and why others would not, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from tidepool.clients.kubernetes.objects import (
    POOL_LABEL,
    Node,
    Pod,
    Requirement,
    Resources,
    Taint,
    Toleration,
    holds,
    tolerates,
)
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.pool import ConvergedPool
from tidepool.scaling.decide.pools.machine_status import LIFECYCLE, Survey
from tidepool.scaling.decision import WaitingPod

#: What Kubernetes and the kubelet write on every node by themselves. Of a node that is not there yet it is not known.
_WELL_KNOWN: Final = ("kubernetes.io/", "beta.kubernetes.io/", "node.kubernetes.io/", "tidepool/stack")
_HOSTNAME: Final = "kubernetes.io/hostname"
_NAME: Final = "metadata.name"
#: How many pods a kubelet takes by itself.
_MOST_PODS: Final = 110
_MIB: Final = 1 << 20
_UNCOUNTED: Final = 1 << 62
#: The place of the pods in a `Vector`.
_PODS: Final = 2

Vector = tuple[int, ...]
"""Milli-CPUs, bytes, pods, and then each extended resource that any pod asks for, in one order."""


class PodAsk(NamedTuple):
    """The common part of pods that ask for the same. ``names``: whether it matters what the node is called."""

    need: Vector
    selector: tuple[tuple[str, str], ...]
    affinity: tuple[tuple[Requirement, ...], ...]
    tolerations: tuple[Toleration, ...]
    by_name: bool


class PodOffer(NamedTuple):
    """Nodes that are alike to pods: labels (but for their names), taints, and an empty one's room.

    ``guessed``: no such node was seen yet, so well-known labels are taken to be what is asked for.
    """

    pool: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    capacity: Vector
    guessed: bool = False


def extended_of(pods: Iterable[Pod]) -> tuple[str, ...]:
    """The extended resources that any of the pods asks for, in order."""
    return tuple(sorted({name for pod in pods for name, count in pod.requests.extended.items() if count}))


def need_of(resources: Resources, extended: tuple[str, ...]) -> Vector:
    """Return what one pod takes."""
    more = resources.extended
    return (resources.cpu_milli, resources.memory_bytes, 1, *(more.get(name, 0) for name in extended))


def capacity_of(resources: Resources, extended: tuple[str, ...]) -> Vector:
    """Return what a node has for pods."""
    more = resources.extended
    return (
        resources.cpu_milli,
        resources.memory_bytes,
        more.get("pods", _MOST_PODS),
        *(more.get(name, 0) for name in extended),
    )


def ask_of(pod: Pod, extended: tuple[str, ...]) -> PodAsk:
    """Return what one pod asks for."""
    selector = tuple(sorted(pod.node_selector.items()))
    keys = {key for key, _ in selector} | {part.key for term in pod.affinity for part in term}
    return PodAsk(
        need_of(pod.requests, extended),
        selector,
        pod.affinity,
        pod.tolerations,
        not keys.isdisjoint((_HOSTNAME, _NAME)),
    )


def offer_of(pool: ConvergedPool, survey: Survey, extended: tuple[str, ...]) -> PodOffer:
    """Return what the next machine of a pool is as a node: as one of them that serves Kubernetes, else as the spec says.

    What the pods take that are on every node is taken of it already.
    """
    for status in survey.of(pool.name):
        node = survey.nodes.get(status.name)
        if status.role == "kubernetes" and node is not None and node.ready:
            capacity = capacity_of(node.allocatable, extended)
            for pod in survey.pods.get(status.name, ()):
                if pod.is_daemon or pod.is_static:
                    capacity = minus(capacity, need_of(pod.requests, extended))
            return PodOffer(pool.name, labels_of(node), taints_of(node), capacity)
    gres = {each.name: each.count for each in reversed(pool.shape.gres)}
    capacity = (
        pool.shape.cpus * 1000,
        pool.shape.memory_mib * _MIB,
        _MOST_PODS,
        *(_of_gres(name, gres) for name in extended),
    )
    labels = FrozenDict({**pool.labels, POOL_LABEL: pool.name})
    return PodOffer(pool.name, labels, (), capacity, guessed=True)


def labels_of(node: Node) -> Mapping[str, str]:
    """Its labels but for its name."""
    return FrozenDict({key: value for key, value in node.labels.items() if key != _HOSTNAME})


def taints_of(node: Node) -> tuple[Taint, ...]:
    """Return those that somebody set, and not Kubernetes itself."""
    return tuple(taint for taint in node.taints if not taint.key.startswith(LIFECYCLE))


def minus(capacity: Vector, need: Vector, times: int = 1) -> Vector:
    """Return what is left of ``capacity``; below nothing, where there is not enough."""
    return tuple(have - take * times for have, take in zip(capacity, need, strict=True))


def times_in(need: Vector, capacity: Vector) -> int:
    """Return how many of ``need`` go into ``capacity``."""
    found = capacity[_PODS]
    for have, take in zip(capacity, need, strict=True):
        if take and (times := have // take) < found:
            found = times
    return max(0, found)


def mismatch(ask: PodAsk, offer: PodOffer) -> str:
    """Why pods cannot be on such a node, whatever its room; empty where they can. What it is called is left open."""
    for key, value in ask.selector:
        if not _is_open(key, offer) and offer.labels.get(key) != value:
            return f"it asks for nodes with {key}={value}"
    if ask.affinity and not any(_term(term, offer) for term in ask.affinity):
        return "its node affinity asks for others"
    for taint in offer.taints:
        if taint.effect != "PreferNoSchedule" and not any(tolerates(each, taint) for each in ask.tolerations):
            value = f"={taint.value}" if taint.value else ""
            return f"it does not tolerate their taint {taint.key}{value}:{taint.effect}"
    return ""


def too_large(ask: PodAsk, offer: PodOffer, extended: tuple[str, ...]) -> str:
    """Return what of it an empty such node has too little of, in words; empty where it has enough."""
    (cpus, memory, _, *others), (has_cpus, has_memory, _, *has_others) = ask.need, offer.capacity
    if cpus > has_cpus:
        return f"it asks for {cpus / 1000:g} CPUs, and they have {has_cpus / 1000:g}"
    if memory > has_memory:
        return f"it asks for {memory / _MIB:.0f} MiB of memory, and they have {has_memory / _MIB:.0f}"
    for name, asked, has in zip(extended, others, has_others, strict=True):
        if asked > has:
            return f"it asks for {asked} {name}, and they have {has or 'none'}"
    return ""


def may_be_called(ask: PodAsk, name: str, offer: PodOffer) -> bool:
    """Return whether it may be on the node of this name."""
    if not ask.by_name:
        return True
    known: dict[str, Any] = {**offer.labels, _HOSTNAME: name, _NAME: name}
    if any(key == _HOSTNAME and value != name for key, value in ask.selector):
        return False
    return not ask.affinity or any(
        all(_is_guess(part.key, offer) or holds(part, known) for part in term) for term in ask.affinity
    )


def _term(term: tuple[Requirement, ...], offer: PodOffer) -> bool:
    return all(_is_open(part.key, offer) or holds(part, offer.labels) for part in term)


def _is_open(key: str, offer: PodOffer) -> bool:
    return key in (_HOSTNAME, _NAME) or _is_guess(key, offer)


def _is_guess(key: str, offer: PodOffer) -> bool:
    return offer.guessed and key not in offer.labels and key != _HOSTNAME and key.startswith(_WELL_KNOWN)


def _of_gres(name: str, gres: Mapping[str, int]) -> int:
    """``nvidia.com/gpu`` is what Slurm calls the gres ``gpu``."""
    if name == "ephemeral-storage":
        return _UNCOUNTED
    return gres.get(name.rpartition("/")[2], 0)


#: For so long Kubernetes may leave a pod waiting for which there seems to be room; then it is given a machine of its own.
OWN_MACHINE_AFTER: Final = timedelta(seconds=10)
#: After so long none is given to it any more: whatever it waits for, it is not machines. Later it is tried again.
GIVEN_UP_AFTER: Final = timedelta(minutes=5)
TRIED_AGAIN_AFTER: Final = timedelta(hours=1)
#: Within this time the scheduler says what it thinks of a new pod.
_LOOKED_AT_AFTER: Final = timedelta(seconds=10)


class PodGroup(NamedTuple):
    """Pods that ask for the same, in their order.

    ``moves``: a machine may be moved for them, for the scheduler said that it finds none; else they only take of what is
    there. ``alone``: only a machine will do that nobody has anything of.
    """

    ask: PodAsk
    pods: tuple[Pod, ...]
    moves: bool
    alone: bool


@dataclass(frozen=True, slots=True)
class PodQueue:
    """All that waits: groups, the first of which is served first; and what is no machine's matter."""

    groups: tuple[PodGroup, ...]
    waiting: Mapping[str, WaitingPod]
    #: By uid, those that are given no machine any more.
    given_up: frozenset[str]
    extended: tuple[str, ...]


def pod_queue(pods: tuple[Pod, ...], room_since: Mapping[str, datetime], at: datetime) -> PodQueue:
    """Read the queue. ``room_since``: by a pod's uid, since when there seems to be room for it."""
    pending = [pod for pod in pods if _waits(pod)]
    extended = extended_of(pods)
    waiting: dict[str, WaitingPod] = {}
    given_up: set[str] = set()
    found: dict[tuple[int, bool, bool, PodAsk], list[Pod]] = {}
    for pod in sorted(pending, key=lambda each: (-each.priority, each.created, each.key)):
        since = room_since.get(pod.uid)
        waited = at - since if since is not None else timedelta(0)
        alone = bool(pod.unschedulable) and OWN_MACHINE_AFTER <= waited < TRIED_AGAIN_AFTER
        if pod.is_held:
            reason = "its scheduling gates, or a scheduler of its own, hold it back"
        elif not pod.unschedulable and at - pod.created >= _LOOKED_AT_AFTER:
            reason = "the scheduler has said nothing of it yet; is kube-scheduler at work?"
        elif since is not None and alone and waited >= GIVEN_UP_AFTER:
            given_up.add(pod.uid)
            reason = (
                f"there has been room for it since {since:%H:%M:%S} UTC, and the scheduler does not use it: "
                f"{pod.unschedulable}"
            )
        else:
            key = (pod.priority, bool(pod.unschedulable), alone, ask_of(pod, extended))
            found.setdefault(key, []).append(pod)
            continue
        waiting[pod.key] = WaitingPod(pod.key, "held", reason)
    groups = [PodGroup(ask, tuple(each), moves, alone) for (_, moves, alone, ask), each in found.items()]
    groups.sort(key=lambda group: (-group.pods[0].priority, group.moves, *(-part for part in group.ask.need)))
    return PodQueue(tuple(groups), waiting, frozenset(given_up), extended)


def _waits(pod: Pod) -> bool:
    """A pod of a DaemonSet is for one node; one that is being deleted for none."""
    return not pod.node and not pod.has_ended and pod.deleting_until is None and not pod.is_daemon
