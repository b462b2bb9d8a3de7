"""Jobs of several nodes that are alike: many at a time, and none without all of its nodes.

Nodes with room for c jobs each serve J jobs of k nodes where the sum of min(c, J) over them is J x k: a node's shares
go to c jobs in a row, and around again, so that no job has a node twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidepool.scaling.decide.demand.layout import Layout
from tidepool.scaling.decide.packing.bins import NEW, Bin, Bins, Option
from tidepool.scaling.decide.packing.launch_limits import Grant, Group, LaunchLimits, Placement, both, options


class _Source(NamedTuple):
    """``nodes`` nodes, each of which takes ``times`` jobs: of a bin, or new ones. ``usd`` is for each of those."""

    bin: Bin | None
    option: Option
    times: int
    nodes: int
    usd: float = 0

    def shares(self, jobs: int) -> int:
        """Return how many shares of so many jobs they have room for."""
        return min(self.times, jobs) * self.nodes


class Several:
    """Places jobs of a group whose nodes are alike."""

    def __init__(self, bins: Bins, launch_limits: LaunchLimits, group: Group) -> None:
        self._bins = bins
        self._launch_limits = launch_limits
        self._group = group

    def pack(self, jobs: int) -> tuple[list[Placement], Grant | None]:
        """Place up to ``jobs``; where fewer were placed, what is in the way."""
        placements: list[Placement] = []
        refusal: Grant | None = None
        # Whoever can begin on what is there earlier does not wait for what comes later. What this decision opened for
        # others comes together with what it opens here: the next decision sees both as one.
        for rank in self._ranks():
            for layout in self._group.alike:
                jobs -= self._pack(layout, self._there(layout, rank), jobs, placements)
        for layout in self._group.alike:
            if not jobs:
                break
            there = self._there(layout, NEW)
            new, grant = self._new(layout, there, jobs)
            jobs -= self._pack(layout, [*there, *new], jobs, placements)
            if grant is not None:
                refusal = both(refusal, grant)
        if jobs and refusal is None:
            refusal = Grant(0, "its account has as many nodes as the policy allows it")
        return placements, refusal if jobs else None

    def _ranks(self) -> Iterable[int]:
        every = [option for layout in self._group.alike for option in options(layout, layout.parts[0])]
        found = {bin.kind.rank for bin, _ in self._bins.fitting(every, whole_only=self._group.fresh)}
        return sorted(found - {NEW})

    def _there(self, layout: Layout, rank: int) -> list[_Source]:
        """Return what fits up to a rank, the best first."""
        fitting = self._bins.fitting(options(layout, layout.parts[0]), whole_only=self._group.fresh)
        return [
            _Source(bin, option, self._bins.times(bin, option, fresh=self._group.fresh), len(bin.names))
            for bin, option in fitting
            if bin.kind.rank <= rank
        ]

    def _new(self, layout: Layout, there: Sequence[_Source], jobs: int) -> tuple[list[_Source], Grant | None]:
        """The new nodes that are needed beside what is there; why they are not enough, where they are not."""
        (part,) = layout.parts
        missing = jobs * part.nodes - sum(source.shares(jobs) for source in there)
        found: list[_Source] = []
        refusal = None
        for option in options(layout, part):
            if missing <= 0:
                break
            times = self._bins.times(None, option, fresh=self._group.fresh)
            wanted = -(-missing // min(times, jobs))
            planned = {source.option.fleet: source.nodes for source in found}
            usd = sum(source.usd * source.nodes for source in found)
            grant = self._launch_limits.granted(
                option.fleet, wanted, self._group.purpose, self._bins, planned, usd
            )
            if grant.nodes:
                found.append(_Source(None, option, times, grant.nodes, grant.usd_per_node))
                missing -= found[-1].shares(jobs)
            if grant.nodes < wanted:
                refusal = both(refusal, grant)
        return found, refusal if missing > 0 else None

    def _pack(
        self, layout: Layout, sources: Sequence[_Source], jobs: int, placements: list[Placement]
    ) -> int:
        """Place as many of ``jobs`` as have all of their nodes; their number."""
        nodes = layout.parts[0].nodes

        def too_many(count: int) -> bool:
            if sum(source.shares(count) for source in sources) < count * nodes:
                return True
            used = sum(part for _, part, _ in _parts(sources, count, nodes))
            return self._launch_limits.nodes_for(self._group.purpose, used) < used

        jobs = bisect_left(range(1, jobs + 1), True, key=too_many)
        if not jobs:
            return 0
        rank = 0
        slots: list[str] = []
        taken: list[tuple[_Source, list[str], int]] = []
        # All are taken before any is put back, so that no node is taken twice.
        for source, count, times in _parts(sources, jobs, nodes):
            bin, fleet = source.bin, source.option.fleet
            names = self._bins.take(bin, count) if bin else self._bins.open(fleet, count)
            taken.append((source, names, times))
            rank = max(rank, bin.kind.rank if bin else NEW)
            slots += [name for name in names for _ in range(times)]
            self._launch_limits.used(self._group.purpose, names)
            self._launch_limits.launched(source.usd * count)
        for source, names, times in taken:
            was = source.bin.kind if source.bin else self._bins.new(source.option.fleet)
            self._bins.put(was, names, source.option.need, times, source.option.sole)
        placements.append(Placement(rank, 1, [tuple(slots[job::jobs]) for job in range(jobs)]))
        return jobs


def _parts(sources: Iterable[_Source], jobs: int, nodes: int) -> Iterable[tuple[_Source, int, int]]:
    """So many nodes of each source with so many shares each, for ``jobs`` jobs of ``nodes`` nodes."""
    missing = jobs * nodes
    for source in sources:
        times = min(source.times, jobs)
        count = min(source.nodes, missing // times)
        if count:
            yield source, count, times
            missing -= count * times
        if missing and missing < times and count < source.nodes:
            yield source, 1, missing
            return
