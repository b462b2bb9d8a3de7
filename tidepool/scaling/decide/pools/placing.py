"""All pods that wait, onto nodes that are there, that are coming, and onto machines that could come. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidepool.clients.kubernetes.objects import Pod
from tidepool.scaling.decide.pools.machine_status import MachineStatus, Survey
from tidepool.scaling.decide.pools.pod_queue import (
    PodAsk,
    PodGroup,
    PodOffer,
    PodQueue,
    Vector,
    capacity_of,
    labels_of,
    may_be_called,
    minus,
    mismatch,
    need_of,
    taints_of,
    times_in,
    too_large,
)

#: There and with room; on their way to Kubernetes; those that could go there.
THERE: Final = 0
COMING: Final = 1
COULD_COME: Final = 2


class Row(NamedTuple):
    """Nodes with the same room. ``used``: somebody's pods are there. Names are taken from the front."""

    capacity: Vector
    used: bool
    names: list[str]


class PodBin:
    """Nodes of one offer and one rank, the fullest first."""

    def __init__(self, offer: PodOffer, rank: int) -> None:
        self.offer = offer
        self.rank = rank
        self._rows: list[Row] = []

    def add(self, names: Iterable[str], capacity: Vector, *, used: bool) -> None:
        """Nodes with such room; those of the same that are there already stay before them."""
        found = list(names)
        if not found:
            return
        index = bisect_left(self._rows, (capacity, used), key=_key)
        if index < len(self._rows) and _key(self._rows[index]) == (capacity, used):
            self._rows[index].names.extend(found)
        else:
            self._rows.insert(index, Row(capacity, used, found))

    def fill(self, ask: PodAsk, pods: int, *, alone: bool) -> list[tuple[str, int]]:
        """Place up to ``pods`` that ask for the same: node names, with how many each. ``alone``: one on an unused node."""
        placement: list[tuple[str, int]] = []
        if not self._rows or self._rows[-1].capacity[0] < ask.need[0]:
            return placement
        index = bisect_left(self._rows, ask.need[0], key=lambda row: row.capacity[0])
        while pods and index < len(self._rows):
            row = self._rows[index]
            times = times_in(ask.need, row.capacity) if not (alone and row.used) else 0
            each = min(1, times) if alone else min(times, pods)
            count = min(len(row.names), pods // each) if each else 0
            names = self._take(index, row, count, ask) if count else []
            if not names:
                index += 1
                continue
            placement += [(name, each) for name in names]
            pods -= each * len(names)
            self.add(names, minus(row.capacity, ask.need, each), used=True)
            # What was put back stands before, for it has less room; where a row went, the next took its place.
            index = bisect_left(self._rows, (row.capacity, row.used), key=_key)
        return placement

    def _take(self, index: int, row: Row, count: int, ask: PodAsk) -> list[str]:
        if not ask.by_name:
            names = row.names[:count]
            del row.names[:count]
        else:
            names = [name for name in row.names if may_be_called(ask, name, self.offer)][:count]
            for name in names:
                row.names.remove(name)
        if not row.names:
            del self._rows[index]
        return names


def _key(row: Row) -> tuple[Vector, bool]:
    return row.capacity, row.used


#: From here on, a `Vector` has extended resources.
_OTHERS: Final = 3


@dataclass(slots=True)
class PodPlacement:
    """The nodes that pods go to. ``used``: by machine in the order of choice, the first pods that it is for."""

    #: By a pod's key: the rank of its node, and the node; of those that go nowhere, nothing.
    nodes: dict[str, tuple[int, str]] = field(default_factory=dict)
    used: dict[str, list[Pod]] = field(default_factory=dict)
    #: Groups with pods that go nowhere.
    left: list[tuple[PodGroup, Sequence[Pod]]] = field(default_factory=list)

    def chosen(self, rank: int) -> list[str]:
        """The machines of a rank that pods go to."""
        return list(dict.fromkeys(node for r, node in self.nodes.values() if r == rank))


class PodNodes:
    """The nodes for pods whatever is decided: the offers of pools, and the nodes that serve Kubernetes or will."""

    def __init__(self, survey: Survey, offers: Mapping[str, PodOffer], extended: tuple[str, ...]) -> None:
        self.offers = offers
        self._there: list[tuple[str, PodOffer, Vector, bool]] = []
        self._coming: defaultdict[str, list[str]] = defaultdict(list)
        alike: dict[object, PodOffer] = {}
        for status in survey.statuses.values():
            if status.role == "kubernetes" and status.standing in ("idle", "busy"):
                self._add(status, survey, extended, alike)
            elif status.standing == "moving" and status.to == "kubernetes" and status.pool in offers:
                self._coming[status.pool].append(status.name)

    def _add(
        self, status: MachineStatus, survey: Survey, extended: tuple[str, ...], alike: dict[object, PodOffer]
    ) -> None:
        node = survey.nodes[status.name]
        capacity = capacity_of(node.allocatable, extended)
        for pod in survey.pods.get(status.name, ()):
            capacity = minus(capacity, need_of(pod.requests, extended))
        labels, taints = labels_of(node), taints_of(node)
        key = (status.pool, frozenset(labels.items()), taints)
        offer = alike.get(key)
        if offer is None:
            offer = alike[key] = PodOffer(
                status.pool, labels, taints, capacity_of(node.allocatable, extended)
            )
        self._there.append((status.name, offer, capacity, status.standing == "busy"))

    def pod_bins(self, gone: Collection[str], could_come: Mapping[str, Sequence[str]]) -> list[PodBin]:
        """In the order in which pods go to them. ``gone`` serve Slurm instead; ``could_come``: by pool, the first first."""
        there: dict[int, PodBin] = {}
        for name, offer, capacity, used in self._there:
            if name not in gone:
                bin = there.setdefault(id(offer), PodBin(offer, THERE))
                bin.add([name], capacity, used=used)
        found = list(there.values())
        for rank, of in ((COMING, self._coming), (COULD_COME, could_come)):
            for pool in self.offers:
                if names := of.get(pool):
                    bin = PodBin(self.offers[pool], rank)
                    bin.add(names, self.offers[pool].capacity, used=False)
                    found.append(bin)
        return found


def assign_pods(queue: PodQueue, pod_bins: Sequence[PodBin]) -> PodPlacement:
    """Place all that waits, group by group."""
    found = PodPlacement()
    # Of the same rank, nodes with extended resources come last for pods that ask for none of them.
    plain = sorted(pod_bins, key=lambda each: (each.rank, any(each.offer.capacity[_OTHERS:])))
    takes: dict[tuple[object, ...], list[bool]] = {}
    for group in queue.groups:
        left = list(group.pods)
        # What comes was sent for somebody, who would be given another machine for one that the scheduler has not looked at.
        highest = COULD_COME if group.moves else THERE
        asks_more = any(group.ask.need[_OTHERS:])
        in_order = pod_bins if asks_more else plain
        # Pods differ in what they take more than in where they may be.
        kind = (group.ask.selector, group.ask.affinity, group.ask.tolerations, asks_more)
        fits = takes.get(kind)
        if fits is None:
            fits = takes[kind] = [not mismatch(group.ask, bin.offer) for bin in in_order]
        for bin, may in zip(in_order, fits, strict=True):
            if not left:
                break
            if not may or bin.rank > highest:
                continue
            for name, count in bin.fill(group.ask, len(left), alone=group.alone):
                those, left = left[:count], left[count:]
                found.used.setdefault(name, []).extend(those)
                found.nodes.update({pod.key: (bin.rank, name) for pod in those})
        if left:
            found.left.append((group, left))
    return found


def never(group: PodGroup, offers: Iterable[PodOffer], extended: tuple[str, ...]) -> str:
    """Why no machine of any pool would do, in words; empty where one would."""
    reasons: dict[str, list[str]] = {}
    for offer in offers:
        why = mismatch(group.ask, offer) or too_large(group.ask, offer, extended)
        if not why:
            return ""
        reasons.setdefault(why, []).append(offer.pool)
    return "; ".join(f"nodes of {', '.join(pools)}: {why}" for why, pools in reasons.items())


def fitting(group: PodGroup, offers: Iterable[PodOffer], extended: tuple[str, ...]) -> list[str]:
    """The pools of which a machine would do."""
    return [
        offer.pool
        for offer in offers
        if not mismatch(group.ask, offer) and not too_large(group.ask, offer, extended)
    ]
