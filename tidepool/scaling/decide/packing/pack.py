"""Packing all that waits in one step: the largest first where there is enough for all, else strictly by priority."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Final, NamedTuple

from tidepool.scaling.decide.packing.launch_limits import Grant, Group, Placement
from tidepool.scaling.decide.packing.placement import Packer

#: Above so many changes from one group to another in the queue's order, priority is kept between tiers alone.
_MOST_TURNS: Final = 2000
_TIERS: Final = 64
#: How often at most it is looked again at what was decided.
_MOST_LOOKS: Final = 4

#: A rank beside those of `bins`: on nodes where another job is before it.
FOLLOWS: Final = -1


Request = tuple[int, int]
"""The number of a group, and how many of its jobs (tasks of an array, else 1): a tuple, for there are many."""

Opened = Mapping[str, Sequence[str]]
"""By fleet, the names of new nodes."""


class Served(NamedTuple):
    """Outcome of a request: how many of its copies are placed, on which nodes, and the latest of their ranks.

    Where not all are, why.
    """

    copies: int
    rank: int
    nodes: tuple[str, ...]
    refusal: Grant | None


@dataclass
class _Dealt:
    """The placements of a group, dealt out to its requests: first what is there at once."""

    placements: list[Placement] = field(default_factory=list)
    refusal: Grant | None = None
    _cards: Iterator[tuple[Placement, tuple[str, ...], int]] | None = None
    _card: tuple[Placement, tuple[str, ...], int] | None = None
    #: All is dealt: what became of every request from then on.
    _none: Served | None = None

    def deal(self, copies: int) -> Served:
        if self._cards is None:
            self.placements.sort(key=lambda each: each.rank)
            self._cards = ((each, nodes, each.per_set) for each in self.placements for nodes in each.sets)
        if self._none is not None:
            return self._none
        nodes: dict[str, None] | tuple[str, ...] = ()
        rank = served = 0
        while served < copies:
            card = self._card or next(self._cards, None)
            if card is None:
                break
            placements, names, left = card
            part = min(left, copies - served)
            self._card = (placements, names, left - part) if left > part else None
            served += part
            rank = max(rank, placements.rank)
            nodes = names if not nodes else dict.fromkeys((*nodes, *names))
        if not served:
            self._none = Served(0, rank, (), self.refusal)
            return self._none
        return Served(served, rank, tuple(nodes), self.refusal if served < copies else None)


def pack(
    groups: Sequence[Group],
    requests: Sequence[Request],
    start: Callable[[], Packer],
    *,
    first: Collection[int] = (),
) -> list[Served]:
    """Place ``requests``, the first of which has the highest priority; what became of each, in their order.

    ``start`` gives a placer onto the nodes as they are. Where there is not enough for all, those whose places are in
    ``first`` go before all others: nodes are being made for them. One that limits refused when that was decided would
    take them otherwise, and for those that they are made for others would be made, again and again.

    What is decided is looked at again as the next decision will see it, until that finds no more to do.
    """
    look = _Look(groups, requests, start, first)
    dealt, opened = look.at({})
    for _ in range(_MOST_LOOKS if look.is_short else 0):
        before = opened
        if not before:
            break
        dealt, opened = look.at(before)
        if opened == before:
            break
    return [dealt[group].deal(copies) for group, copies in requests]


class _Look:
    """Places all requests on what is there, and on what was decided on before."""

    def __init__(
        self,
        groups: Sequence[Group],
        requests: Sequence[Request],
        start: Callable[[], Packer],
        first: Collection[int],
    ) -> None:
        self._groups = groups
        self._requests = requests
        self._start = start
        self._first = first
        #: Groups with how many of their jobs, the largest first: of all, and tier by tier.
        self._all = self._sized(requests)
        self._by_priority: list[Sequence[Request]] = []

    def _sized(self, requests: Sequence[Request]) -> Sequence[Request]:
        """All of them, the largest first.

        Where there is a budget, a node that it allowed for one job may not be allowed for another: whoever nodes are
        being made for goes first.
        """
        if not self._first or all(group.purpose.time_limit_s is None for group in self._groups):
            return _by_size(self._groups, requests)
        awaited = [requests[pack] for pack in sorted(self._first)]
        others = [each for pack, each in enumerate(requests) if pack not in self._first]
        return _by_size(self._groups, awaited) + _by_size(self._groups, others)

    def at(self, opened: Opened) -> tuple[list[_Dealt], Opened]:
        """Return what is dealt when nodes were ``opened`` before; and which of those and of others are used."""
        packer = self._packer(opened)
        dealt = [_Dealt() for _ in self._groups]
        if not _all_packed(packer, self._groups, self._all, dealt):
            packer = self._packer(opened)
            dealt = [_Dealt() for _ in self._groups]
            for tier in self._tiers():
                _pack_tier(packer, self._groups, tier, dealt)
        if not opened:
            return dealt, packer.opened
        used = {
            name
            for each in dealt
            for placements in each.placements
            for nodes in placements.sets
            for name in nodes
        }
        left = {fleet: [name for name in names if name in used] for fleet, names in packer.opened.items()}
        return dealt, {fleet: names for fleet, names in left.items() if names}

    @property
    def is_short(self) -> bool:
        """Return whether there was not enough for all, so that who looks again may find it otherwise.

        A job of several nodes that was refused finds nodes that were opened for others after it, say. What a budget
        allows depends on the job, so what it allowed is not shared out anew.
        """
        return bool(self._by_priority) and all(group.purpose.time_limit_s is None for group in self._groups)

    def _packer(self, opened: Opened) -> Packer:
        packer = self._start()
        if opened:
            packer.decided(opened)
        return packer

    def _tiers(self) -> Sequence[Sequence[Request]]:
        if not self._by_priority:
            first = [self._requests[pack] for pack in sorted(self._first)]
            others = self._requests
            if first:
                others = [each for pack, each in enumerate(others) if pack not in self._first]
            self._by_priority = [_by_size(self._groups, tier) for tier in (first, *_tiers(others))]
        return self._by_priority


def _tiers(requests: Sequence[Request]) -> Iterable[Sequence[Request]]:
    turns = 1 + sum(one[0] != other[0] for one, other in pairwise(requests))
    if turns <= _MOST_TURNS:
        return [list(those) for _, those in groupby(requests, key=itemgetter(0))]
    size = -(-len(requests) // _TIERS)
    return [requests[first : first + size] for first in range(0, len(requests), size)]


def _all_packed(
    packer: Packer, groups: Sequence[Group], wanted: Sequence[Request], dealt: Sequence[_Dealt]
) -> bool:
    """Return whether there is enough for all; it goes no further when there is not."""
    for group, copies in wanted:
        placements, refusal = packer.pack(groups[group], copies)
        dealt[group].placements += placements
        if refusal is not None:
            return False
    return True


def _pack_tier(
    packer: Packer, groups: Sequence[Group], wanted: Sequence[Request], dealt: Sequence[_Dealt]
) -> None:
    for group, copies in wanted:
        if dealt[group].refusal is None:
            placements, dealt[group].refusal = packer.pack(groups[group], copies)
            dealt[group].placements += placements


def _by_size(groups: Sequence[Group], requests: Sequence[Request]) -> list[tuple[int, int]]:
    """Each group and how many of its jobs, the largest first."""
    copies: dict[int, int] = {}
    for group, count in requests:
        copies[group] = copies.get(group, 0) + count
    # Of equal size, who is first in the queue is first here: `copies` is in that order, and sorting is stable.
    return sorted(copies.items(), key=lambda each: groups[each[0]].size, reverse=True)
