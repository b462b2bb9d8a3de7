"""Nodes that are there however empty the queue is: those that are missing are undrained, or launched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from tidepool.cluster.slots import fleet_and_number
from tidepool.cluster.spec import Fleet
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.draft import Draft
from tidepool.scaling.decide.excess import Surplus
from tidepool.scaling.decide.limits import Limits
from tidepool.scaling.decide.policies import Floor, Wants
from tidepool.scaling.decide.reconcile import Entry, Ledger
from tidepool.scaling.decide.reconcile_words import Todo
from tidepool.scaling.decide.vacancy import vacancies
from tidepool.scaling.memory import Memory
from tidepool.scaling.phase import Phase

#: A node that a person holds is there as well: what they hold back is not made up for.
_THERE: Final = frozenset({Phase.IDLE, Phase.BUSY, Phase.LAUNCHING, Phase.HELD})
_SPARE: Final = frozenset({Phase.IDLE, Phase.LAUNCHING})


@dataclass(frozen=True, slots=True)
class Standing:
    """What stays of the nodes of the fleets, in the draft of a decision."""

    state: ClusterState
    memory: Memory
    ledger: Ledger
    surplus: Surplus
    draft: Draft

    def phases(self) -> dict[str, Phase]:
        """By node, as growth is to see it: what should go is leaving, what was launched is on its way."""
        found = {
            name: Phase.LEAVING if self.surplus.why(entry) is not None else entry.phase
            for name, entry in self.ledger.entries.items()
        }
        for name in self.draft.now_launched:
            found.setdefault(name, Phase.LAUNCHING)
        for name in self._unlisted():
            found.setdefault(name, Phase.UNKNOWN)
        return dict(sorted(found.items(), key=lambda each: fleet_and_number(each[0])))

    def _unlisted(self) -> Iterable[str]:
        """Slots that Slurm does not list: nothing can be made in them."""
        listed = Counter(node.name.rpartition("-")[0] for node in self.state.nodes)
        for fleet in self.state.spec.fleets:
            if listed[fleet.name] < fleet.max_nodes:
                names = {node.name for node in self.state.nodes}
                yield from (name for slot in fleet.slots() if (name := slot.node_name) not in names)

    def there(self, fleet: str) -> set[str]:
        """Those that stay: in service, held, coming, launched or undrained just now."""
        return self._staying(fleet, _THERE)

    def spare(self, fleet: str, needed: Collection[str]) -> set[str]:
        """Those that no job has or gets."""
        return self._staying(fleet, _SPARE) - set(needed)

    def undrainable(self, fleet: str, phases: Collection[Phase]) -> list[Entry]:
        """Those that the scaler drained, and that may take jobs again; the lowest slot first."""
        return [
            entry
            for entry in self.ledger.entries.values()
            if entry.fleet == fleet
            and entry.todo in (Todo.LEAVE, Todo.KEEP)
            and entry.phase in phases
            and entry.is_desired
            and self.surplus.why(entry) is None
            and entry.name not in self.draft.now_undrained
        ]

    def _staying(self, fleet: str, phases: frozenset[Phase]) -> set[str]:
        seen = {
            entry.name
            for entry in self.ledger.entries.values()
            if entry.fleet == fleet and entry.phase in phases and self.surplus.why(entry) is None
        }
        draft = self.draft
        stays = (seen & draft.desired) - draft.now_drained.keys()
        now = {**draft.now_launched, **draft.now_undrained}
        return stays | {name for name, of in now.items() if of == fleet}


def serve(
    standing: Standing, wants: Wants, limits: Limits, needed: Collection[str], *, spare: bool
) -> Limits:
    """Undrain or launch what is missing below the floors, those that are ``spare`` or the others.

    Gives what the limits leave.
    """
    for fleet in standing.state.spec.fleets:
        for floor in _of(wants.floors, fleet, spare=spare):
            there = standing.spare(fleet.name, needed) if spare else standing.there(fleet.name)
            limits = _fill(standing, fleet, floor, floor.nodes - len(there), limits)
    return limits


def _of(floors: Iterable[Floor], fleet: Fleet, *, spare: bool) -> list[Floor]:
    """Those of a fleet, the highest last."""
    return sorted(
        (floor for floor in floors if floor.fleet == fleet.name and floor.is_spare is spare),
        key=lambda floor: (floor.nodes, floor.reason),
    )


def _fill(standing: Standing, fleet: Fleet, floor: Floor, missing: int, limits: Limits) -> Limits:
    draft = standing.draft
    # One that jobs have still is there, and not to spare.
    phases = {Phase.DRAINED} if floor.is_spare else {Phase.DRAINED, Phase.DRAINING}
    back = standing.undrainable(fleet.name, phases)[: max(0, missing)]
    for entry in back:
        draft.undrain(fleet.name, entry.name, floor.reason)
    missing -= len(back)
    if missing <= 0:
        return limits
    lasting_s = None if floor.is_for_ever else 0
    grant = limits.more(fleet.name, missing, {}, time_limit_s=lasting_s)
    names = [name for name, _ in zip(_vacant(standing, fleet), range(grant.nodes), strict=False)]
    draft.launch(fleet.name, names, floor.reason, lasting_s=dict.fromkeys(names, lasting_s))
    return limits.with_launched({fleet.name: len(names)}, len(names) * grant.usd_per_node)


def _vacant(standing: Standing, fleet: Fleet) -> Iterable[str]:
    desired = standing.draft.desired
    free = vacancies(fleet, standing.phases(), standing.memory, standing.state.at)
    return (name for name in free if name not in desired)
