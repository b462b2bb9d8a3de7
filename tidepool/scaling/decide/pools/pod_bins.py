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
        index = bisect_left(self._rows, ask.need[0], key=_cpus)
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


def _cpus(row: Row) -> int:
    return row.capacity[0]
