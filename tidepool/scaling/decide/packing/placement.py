"""Placing jobs that ask for the same: onto what is there, the best fit first, and then onto new nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tidepool.scaling.decide.demand.fit import Need
from tidepool.scaling.decide.demand.layout import Layout, Part
from tidepool.scaling.decide.packing.bins import NEW, Bin, Bins, Option
from tidepool.scaling.decide.packing.launch_limits import Grant, Group, LaunchLimits, Placement, both, options
from tidepool.scaling.decide.packing.several import Several


class _Move(NamedTuple):
    """``nodes`` nodes of a bin, or new ones of ``fleet`` where that is None, give ``need``. ``usd`` is for each."""

    bin: Bin | None
    fleet: str
    nodes: int
    need: Need
    sole: str
    name: str = ""
    usd: float = 0


class Packer:
    """Places group after group; what one takes, the next does not have."""

    def __init__(self, bins: Bins, launch_limits: LaunchLimits) -> None:
        self._bins = bins
        self._launch_limits = launch_limits

    @property
    def opened(self) -> Mapping[str, Sequence[str]]:
        """By fleet, the new nodes that were taken."""
        return self._bins.opened

    def decided(self, opened: Mapping[str, Sequence[str]]) -> None:
        """Begin with nodes that were opened before (`Bins.decided`)."""
        self._bins.decided(opened)
        self._launch_limits.decided()

    def pack(self, group: Group, jobs: int) -> tuple[list[Placement], Grant | None]:
        """Place up to ``jobs`` of a group; where fewer were placed, what is in the way."""
        alike = group.alike
        if alike and any(layout.parts[0].nodes > 1 for layout in alike):
            return Several(self._bins, self._launch_limits, group).pack(jobs)
        placements: list[Placement] = []
        left = jobs
        if alike:
            placements = self._singles(alike, group, left)
            left -= sum(each.jobs for each in placements)
        while left:
            found = self._plan_single(alike, group) if alike else self._plan(group)
            if isinstance(found, Grant):
                return placements, found
            done = self._carry_out(found, group, left)
            if done is None:
                return placements, Grant(0, "its account has as many nodes as the policy allows it")
            placements.append(done)
            left -= done.jobs
        return placements, None

    # Jobs of one node, most of all: one look is enough for all of them.

    def _singles(self, layouts: Sequence[Layout], group: Group, jobs: int) -> list[Placement]:
        found: list[Placement] = []
        every = [option for layout in layouts for option in options(layout, layout.parts[0])]
        for bin, (_, need, sole) in self._bins.fitting(every, whole_only=group.fresh):
            times = 1 if group.fresh else need.times_in(bin.kind.resources)
            while jobs and bin.names:
                per_node = min(times, jobs)
                most = self._launch_limits.nodes_for(group.purpose, min(len(bin.names), jobs // per_node))
                if not most:
                    return found
                names = self._bins.take(bin, most)
                self._bins.put(bin.kind, names, need, per_node, sole)
                self._launch_limits.used(group.purpose, names)
                found.append(Placement(bin.kind.rank, per_node, [(name,) for name in names]))
                jobs -= per_node * most
            if not jobs:
                break
        return found

    def _plan_single(self, layouts: Sequence[Layout], group: Group) -> list[_Move] | Grant:
        """A new node for one job."""
        refusal = None
        for layout in layouts:
            moves: list[_Move] = []
            found = self._new(layout.parts[0], 1, layout, group, moves)
            if found is None:
                return moves
            refusal = both(refusal, found)
        assert refusal is not None
        return refusal

    # One job, all of it or nothing; and then as many like it as the same nodes and their like can take.

    def _plan(self, group: Group) -> list[_Move] | Grant:
        """Return where one job of the group goes; or why it cannot."""
        moves: list[_Move] = []
        for layouts in group.components:
            found = self._lay_out_there(layouts, group, moves)
            if found is None:
                refusal = None
                for layout in layouts:
                    new = self._lay_out(layout, group, moves, new=True)
                    if not isinstance(new, Grant):
                        found = new
                        break
                    refusal = both(refusal, new)
                if found is None:
                    assert refusal is not None
                    return refusal
            moves = found
        return moves

    def _lay_out_there(
        self, layouts: Iterable[Layout], group: Group, before: list[_Move]
    ) -> list[_Move] | None:
        """On nodes that are there or coming, those of the lowest ranks."""
        found = [
            moves
            for layout in layouts
            if not isinstance(moves := self._lay_out(layout, group, before, new=False), Grant)
        ]
        return min((moves for moves in found if _rank(moves) < NEW), key=_rank, default=None)

    def _lay_out(
        self, layout: Layout, group: Group, before: list[_Move], *, new: bool
    ) -> list[_Move] | Grant:
        if layout.in_a_row:
            return self._in_a_row(layout, group, before, new=new)
        moves = list(before)
        for part in layout.parts:
            missing = part.nodes
            for name in part.names:
                move = self._named(name, dict(part.needs), layout, group, moves, new=new)
                if isinstance(move, Grant):
                    return move
                moves.append(move)
                missing -= 1
            for bin, (fleet, need, sole) in self._bins.fitting(options(layout, part), whole_only=group.fresh):
                if not missing:
                    break
                free = len(bin.names) - sum(move.nodes for move in moves if move.bin is bin)
                if count := min(missing, free):
                    moves.append(_Move(bin, fleet, count, need, sole))
                    missing -= count
            if missing:
                refusal = self._new(part, missing, layout, group, moves) if new else Grant(0)
                if refusal is not None:
                    return refusal
        return moves

    def _new(
        self, part: Part, missing: int, layout: Layout, group: Group, moves: list[_Move]
    ) -> Grant | None:
        """Add moves onto new nodes; why there are too few, where there are."""
        refusal = None
        for fleet, need in part.needs:
            grant = self._granted(fleet, missing, group, moves)
            if grant.nodes:
                moves.append(_Move(None, fleet, grant.nodes, need, layout.sole, usd=grant.usd_per_node))
                missing -= grant.nodes
            if not missing:
                return None
            refusal = both(refusal, grant)
        return refusal

    def _granted(self, fleet: str, nodes: int, group: Group, moves: list[_Move]) -> Grant:
        planned: dict[str, int] = {}
        usd = 0.0
        for move in moves:
            if move.bin is None:
                planned[move.fleet] = planned.get(move.fleet, 0) + move.nodes
                usd += move.usd * move.nodes
        return self._launch_limits.granted(fleet, nodes, group.purpose, self._bins, planned, usd)

    def _named(
        self,
        name: str,
        needs: dict[str, Need],
        layout: Layout,
        group: Group,
        moves: list[_Move],
        *,
        new: bool,
    ) -> _Move | Grant:
        """On a node that the job names."""
        fleet = name.rpartition("-")[0]
        need = needs.get(fleet)
        if need is None:
            return Grant(0, f"{name} is too small for it")
        bin = self._bins.named(name, fleet)
        if bin is not None:
            option = Option(fleet, need, layout.sole)
            fits = any(found is bin for found, _ in self._bins.fitting([option], whole_only=group.fresh))
            if fits and all(move.name != name for move in moves):
                return _Move(bin, fleet, 1, need, layout.sole, name)
            return Grant(0, f"it names {name}, where others have their jobs")
        if not self._bins.is_vacant(name, fleet):
            return Grant(0, f"it names {name}, which is not to be had")
        if not new:
            return Grant(0)
        grant = self._granted(fleet, 1, group, moves)
        return _Move(None, fleet, 1, need, layout.sole, name, grant.usd_per_node) if grant.nodes else grant

    def _in_a_row(
        self, layout: Layout, group: Group, before: list[_Move], *, new: bool
    ) -> list[_Move] | Grant:
        """On nodes whose slots follow one another: there, or new."""
        nodes = sum(part.nodes for part in layout.parts)
        # The parts differ by a task at most; the first is the largest.
        for fleet, need in layout.parts[0].needs:
            for first in range(1, self._launch_limits.last_slot(fleet) - nodes + 2):
                moves = list(before)
                for number in range(first, first + nodes):
                    move = self._named(f"{fleet}-{number}", {fleet: need}, layout, group, moves, new=new)
                    if isinstance(move, Grant):
                        break
                    moves.append(move)
                else:
                    return moves
        return Grant(0, f"no {nodes} nodes in a row are to be had")

    def _carry_out(self, moves: list[_Move], group: Group, jobs: int) -> Placement | None:
        per_set, sets = self._repeats(moves, group, jobs)
        if not sets:
            return None
        rank = _rank(moves)
        found: list[list[str]] = [[] for _ in range(sets)]
        # All are taken before any is put back, so that no node is taken twice.
        taken = [self._take(move, move.nodes * sets) for move in moves]
        for move, names in zip(moves, taken, strict=True):
            was = move.bin.kind if move.bin else self._bins.new(move.fleet)
            self._bins.put(was, names, move.need, per_set, move.sole)
            self._launch_limits.used(group.purpose, names)
            self._launch_limits.launched(move.usd * len(names))
            for pack, those in enumerate(found):
                those += names[pack * move.nodes : (pack + 1) * move.nodes]
        return Placement(rank, per_set, [tuple(those) for those in found])

    def _repeats(self, moves: list[_Move], group: Group, jobs: int) -> tuple[int, int]:
        """Return how many such jobs go onto the same nodes, and onto how many sets of such nodes."""
        nodes = sum(move.nodes for move in moves)
        most_sets = self._launch_limits.nodes_for(group.purpose, nodes * jobs) // nodes
        if any(move.name for move in moves):
            return 1, min(1, most_sets)
        per_set = jobs
        wanted: dict[Bin | str, int] = {}
        for move in moves:
            option = Option(move.fleet, move.need, move.sole)
            per_set = min(per_set, self._bins.times(move.bin, option, fresh=group.fresh))
            source = move.bin or move.fleet
            wanted[source] = wanted.get(source, 0) + move.nodes
        most_sets = min(most_sets, jobs // per_set)
        for source, count in wanted.items():
            if isinstance(source, Bin):
                most_sets = min(most_sets, len(source.names) // count)
            elif most_sets > 1:
                grant = self._launch_limits.granted(source, count * most_sets, group.purpose, self._bins, {})
                most_sets = max(1, grant.nodes // count)
        if most_sets > 1 and len([source for source in wanted if isinstance(source, str)]) > 1:
            most_sets = 1  # What may be launched of one fleet depends on the others.
        return per_set, most_sets

    def _take(self, move: _Move, count: int) -> list[str]:
        if move.bin:
            return self._bins.take(move.bin, count, move.name)
        return self._bins.open(move.fleet, count, move.name)


def _rank(moves: Iterable[_Move]) -> int:
    """The latest of the nodes' ranks."""
    return max(NEW if move.bin is None else move.bin.kind.rank for move in moves)
