"""Nodes with room for pods: those that are alike, with the same room, are one row. Pods go where they fit best. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, NamedTuple

from tidepool.scaling.decide.pools.pod_ask import PodAsk, PodOffer, Vector, may_be_called, minus, times_in

#: There and with room; on their way to Kubernetes; those that could go there.
THERE: Final = 0
COMING: Final = 1
COULD_COME: Final = 2


class Row(NamedTuple):
    """Nodes with the same room. ``used``: somebody's pods are there. Names are taken from the front."""

    room: Vector
    used: bool
    names: list[str]


class Shelf:
    """Nodes of one offer and one rank, the fullest first."""

    def __init__(self, offer: PodOffer, rank: int) -> None:
        self.offer = offer
        self.rank = rank
        self._rows: list[Row] = []

    def add(self, names: Iterable[str], room: Vector, *, used: bool) -> None:
        """Nodes with such room; those of the same that are there already stay before them."""
        found = list(names)
        if not found:
            return
        place = bisect_left(self._rows, (room, used), key=_key)
        if place < len(self._rows) and _key(self._rows[place]) == (room, used):
            self._rows[place].names.extend(found)
        else:
            self._rows.insert(place, Row(room, used, found))

    def place(self, ask: PodAsk, pods: int, *, alone: bool) -> list[tuple[str, int]]:
        """Place up to ``pods`` that ask for the same: node names, with how many each. ``alone``: one on an unused node."""
        placed: list[tuple[str, int]] = []
        if not self._rows or self._rows[-1].room[0] < ask.need[0]:
            return placed
        place = bisect_left(self._rows, ask.need[0], key=_cpus)
        while pods and place < len(self._rows):
            row = self._rows[place]
            times = times_in(ask.need, row.room) if not (alone and row.used) else 0
            each = min(1, times) if alone else min(times, pods)
            count = min(len(row.names), pods // each) if each else 0
            names = self._take(place, row, count, ask) if count else []
            if not names:
                place += 1
                continue
            placed += [(name, each) for name in names]
            pods -= each * len(names)
            self.add(names, minus(row.room, ask.need, each), used=True)
            # What was put back stands before, for it has less room; where a row went, the next took its place.
            place = bisect_left(self._rows, (row.room, row.used), key=_key)
        return placed

    def _take(self, place: int, row: Row, count: int, ask: PodAsk) -> list[str]:
        if not ask.by_name:
            names = row.names[:count]
            del row.names[:count]
        else:
            names = [name for name in row.names if may_be_called(ask, name, self.offer)][:count]
            for name in names:
                row.names.remove(name)
        if not row.names:
            del self._rows[place]
        return names


def _key(row: Row) -> tuple[Vector, bool]:
    return row.room, row.used


def _cpus(row: Row) -> int:
    return row.room[0]
