"""Packing all that waits in one step: the largest first where there is enough for all, else strictly by priority."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from tidepool.scaling.deciding.allowance import Grant
from tidepool.scaling.deciding.packing.group import Group, Placed
from tidepool.scaling.deciding.packing.place import Placer

#: Above so many changes from one group to another in the queue's order, priority is kept between tiers alone.
_MOST_TURNS: Final = 2000
_TIERS: Final = 64

#: A rank beside those of `bins`: on nodes where another job is before it.
FOLLOWS: Final = -1


Request = tuple[int, int]
"""The number of a group, and how many of its jobs (tasks of an array, else 1): a tuple, for there are many."""


class Served(NamedTuple):
    """What became of a request: how many of its copies are placed, on which nodes, and the latest of their ranks.

    Where not all are, why.
    """

    copies: int
    rank: int
    nodes: tuple[str, ...]
    refusal: Grant | None


@dataclass
class _Dealt:
    """What was placed of a group, dealt out to its requests: first what is there at once."""

    placed: list[Placed] = field(default_factory=list)
    refusal: Grant | None = None
    _cards: Iterator[tuple[Placed, tuple[str, ...], int]] | None = None
    _card: tuple[Placed, tuple[str, ...], int] | None = None
    #: All is dealt: what became of every request from then on.
    _none: Served | None = None

    def deal(self, copies: int) -> Served:
        if self._cards is None:
            self.placed.sort(key=lambda each: each.rank)
            self._cards = ((each, nodes, each.per_set) for each in self.placed for nodes in each.sets)
        if self._none is not None:
            return self._none
        nodes: dict[str, None] | tuple[str, ...] = ()
        rank = served = 0
        while served < copies:
            card = self._card or next(self._cards, None)
            if card is None:
                break
            placed, names, left = card
            part = min(left, copies - served)
            self._card = (placed, names, left - part) if left > part else None
            served += part
            rank = max(rank, placed.rank)
            nodes = names if not nodes else dict.fromkeys((*nodes, *names))
        if not served:
            self._none = Served(0, rank, (), self.refusal)
            return self._none
        return Served(served, rank, tuple(nodes), self.refusal if served < copies else None)


def pack(
    groups: Sequence[Group],
    requests: Sequence[Request],
    start: Callable[[], Placer],
    *,
    first: Collection[int] = (),
) -> tuple[Placer, list[Served]]:
    """Place ``requests``, the first of which has the highest priority; what became of each, in their order.

    ``start`` gives a placer onto the nodes as they are. Where there is not enough for all, those whose places are in
    ``first`` go before all others: nodes are being made for them. One that limits refused when that was decided would
    take them otherwise, and for those that they are made for others would be made, again and again.
    """
    placer = start()
    dealt = [_Dealt() for _ in groups]
    _place(placer, groups, requests, dealt)
    if any(each.refusal for each in dealt):
        placer = start()
        dealt = [_Dealt() for _ in groups]
        _place(placer, groups, [requests[place] for place in sorted(first)], dealt)
        for tier in _tiers([each for place, each in enumerate(requests) if place not in first]):
            _place(placer, groups, tier, dealt)
    return placer, [dealt[group].deal(copies) for group, copies in requests]


def _tiers(requests: Sequence[Request]) -> Iterable[Sequence[Request]]:
    turns = [list(those) for _, those in groupby(requests, key=itemgetter(0))]
    if len(turns) <= _MOST_TURNS:
        return turns
    size = -(-len(requests) // _TIERS)
    return [requests[first : first + size] for first in range(0, len(requests), size)]


def _place(
    placer: Placer, groups: Sequence[Group], requests: Sequence[Request], dealt: Sequence[_Dealt]
) -> None:
    copies: dict[int, int] = {}
    for group, count in requests:
        copies[group] = copies.get(group, 0) + count
    # Of equal size, who is first in the queue is first here: `copies` is in that order, and sorting is stable.
    for group in sorted(copies, key=lambda group: groups[group].size, reverse=True):
        if dealt[group].refusal is None:
            placed, dealt[group].refusal = placer.place(groups[group], copies[group])
            dealt[group].placed += placed
