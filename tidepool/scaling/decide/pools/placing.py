"""All pods that wait, onto nodes that are there, that are coming, and onto machines that could come. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidepool.clients.kubernetes.objects import Pod
from tidepool.scaling.decide.pools.machine_status import Stand, Survey
from tidepool.scaling.decide.pools.pod_ask import (
    PodOffer,
    Vector,
    labels_of,
    minus,
    mismatch,
    need_of,
    room_of,
    taints_of,
    too_large,
)
from tidepool.scaling.decide.pools.pod_bins import COMING, COULD_COME, THERE, Shelf
from tidepool.scaling.decide.pools.pod_queue import PodGroup, PodQueue

#: From here on, a `Vector` has extended resources.
_OTHERS: Final = 3


@dataclass(slots=True)
class Placed:
    """Where pods go. ``used``: by machine, the first pods that it is for, in the order in which machines were chosen."""

    #: By a pod's key: the rank of its node, and the node; of those that go nowhere, nothing.
    nodes: dict[str, tuple[int, str]] = field(default_factory=dict)
    used: dict[str, list[Pod]] = field(default_factory=dict)
    #: Groups with pods that go nowhere.
    left: list[tuple[PodGroup, Sequence[Pod]]] = field(default_factory=list)

    def chosen(self, rank: int) -> list[str]:
        """The machines of a rank that pods go to."""
        return list(dict.fromkeys(node for r, node in self.nodes.values() if r == rank))


class Ground:
    """What is there for pods whatever is decided: the offers of pools, and the nodes that serve Kubernetes or will."""

    def __init__(self, survey: Survey, offers: Mapping[str, PodOffer], extended: tuple[str, ...]) -> None:
        self.offers = offers
        self._there: list[tuple[str, PodOffer, Vector, bool]] = []
        self._coming: defaultdict[str, list[str]] = defaultdict(list)
        alike: dict[object, PodOffer] = {}
        for stand in survey.stands.values():
            if stand.role == "kubernetes" and stand.standing in ("idle", "busy"):
                self._add(stand, survey, extended, alike)
            elif stand.standing == "moving" and stand.to == "kubernetes" and stand.pool in offers:
                self._coming[stand.pool].append(stand.name)

    def _add(
        self, stand: Stand, survey: Survey, extended: tuple[str, ...], alike: dict[object, PodOffer]
    ) -> None:
        node = survey.nodes[stand.name]
        room = room_of(node.allocatable, extended)
        for pod in survey.pods.get(stand.name, ()):
            room = minus(room, need_of(pod.requests, extended))
        labels, taints = labels_of(node), taints_of(node)
        key = (stand.pool, frozenset(labels.items()), taints)
        offer = alike.get(key)
        if offer is None:
            offer = alike[key] = PodOffer(stand.pool, labels, taints, room_of(node.allocatable, extended))
        self._there.append((stand.name, offer, room, stand.standing == "busy"))

    def shelves(self, gone: Collection[str], could_come: Mapping[str, Sequence[str]]) -> list[Shelf]:
        """In the order in which pods go to them. ``gone`` serve Slurm instead; ``could_come``: by pool, the first first."""
        there: dict[int, Shelf] = {}
        for name, offer, room, used in self._there:
            if name not in gone:
                shelf = there.setdefault(id(offer), Shelf(offer, THERE))
                shelf.add([name], room, used=used)
        found = list(there.values())
        for rank, of in ((COMING, self._coming), (COULD_COME, could_come)):
            for pool in self.offers:
                if names := of.get(pool):
                    shelf = Shelf(self.offers[pool], rank)
                    shelf.add(names, self.offers[pool].room, used=False)
                    found.append(shelf)
        return found


def place(queue: PodQueue, shelves: Sequence[Shelf], *, most: int = COULD_COME) -> Placed:
    """Place all that waits, group by group; nobody goes to a rank above ``most``."""
    found = Placed()
    # Of the same rank, nodes with extended resources come last for pods that ask for none of them.
    plain = sorted(shelves, key=lambda shelf: (shelf.rank, any(shelf.offer.room[_OTHERS:])))
    takes: dict[tuple[object, ...], list[bool]] = {}
    for group in queue.groups:
        left = list(group.pods)
        # What comes was sent for somebody, who would be given another machine for one that the scheduler has not looked at.
        highest = min(most, COULD_COME if group.moves else THERE)
        asks_more = any(group.ask.need[_OTHERS:])
        in_order = shelves if asks_more else plain
        # Pods differ in what they take more than in where they may be.
        kind = (group.ask.selector, group.ask.affinity, group.ask.tolerations, asks_more)
        fits = takes.get(kind)
        if fits is None:
            fits = takes[kind] = [not mismatch(group.ask, shelf.offer) for shelf in in_order]
        for shelf, may in zip(in_order, fits, strict=True):
            if not left:
                break
            if not may or shelf.rank > highest:
                continue
            for name, count in shelf.place(group.ask, len(left), alone=group.alone):
                those, left = left[:count], left[count:]
                found.used.setdefault(name, []).extend(those)
                found.nodes.update({pod.key: (shelf.rank, name) for pod in those})
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
