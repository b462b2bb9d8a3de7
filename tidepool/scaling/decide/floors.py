"""Nodes whatever waits: the floors that are filled up, and above them the nodes that nobody needs, which are drained and removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from typing import Final

from tidepool.cluster.fleet import Fleet
from tidepool.cluster.slots import fleet_and_number
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.capacity import unreachable, vacancies
from tidepool.scaling.decide.excess import is_of_older_image, removal_order
from tidepool.scaling.decide.limits import Limits
from tidepool.scaling.decide.node_status import NodeAction, without_mark
from tidepool.scaling.decide.plan import NewNodes, Plan, Step
from tidepool.scaling.decide.policies import Floor, Wants
from tidepool.scaling.decide.reconcile import Entry, Reconciled
from tidepool.scaling.decide.suspended import NONE_SUSPENDED, Suspended, is_empty, is_left_alone, new_names
from tidepool.scaling.decision import Drain, Phase, Remove, Suspend, Undrain
from tidepool.scaling.memory import Memory

#: A node that a person holds is there as well: what they hold back is not made up for.
_THERE: Final = frozenset({Phase.IDLE, Phase.BUSY, Phase.LAUNCHING, Phase.HELD})
#: A node that came just now may be wanted, and is asked how it booted; then its machine may be suspended.
SETTLED: Final = timedelta(seconds=10)
_SPARE: Final = frozenset({Phase.IDLE, Phase.LAUNCHING})


@dataclass(frozen=True, slots=True)
class Outlook:
    """Nodes of the fleets that stay, by what is decided so far."""

    state: ClusterState
    memory: Memory
    reconciled: Reconciled
    excess: Mapping[str, str]
    plan: Plan
    suspended: Suspended = NONE_SUSPENDED

    def to_suspend(self, fleet: str) -> int:
        """Return how many of a fleet's nodes may be suspended now, beside those that are, or that an `up` suspends."""
        if is_left_alone(fleet, self.memory, self.state):
            return 0
        return self.suspended.left(fleet, self.plan.launched, self.plan.memory.suspending)

    def missing(self, fleet: str) -> int:
        """Return how many more are to be drained or made for that: those that are drained are about to be suspended."""
        drained = sum(
            entry.fleet == fleet and is_empty(entry) and self.may_be_suspended(entry)
            for entry in self.reconciled.entries.values()
        )
        return max(0, self.to_suspend(fleet) - drained)

    def may_be_suspended(self, entry: Entry) -> bool:
        """Return whether a node's machine is worth going on with later."""
        return (
            entry.name not in self.plan.undrained
            and self.excess.get(entry.name) is None
            and not is_of_older_image(entry, self.state)
        )

    def phases(self) -> dict[str, Phase]:
        """By node, as growth is to see it: what should go is leaving, what was launched is on its way."""
        found = {
            name: Phase.LEAVING if self.excess.get(entry.name) is not None else entry.phase
            for name, entry in self.reconciled.entries.items()
        }
        for name in self.plan.launched:
            found.setdefault(name, Phase.LAUNCHING)
        for name in (*self._unlisted(), *unreachable(self.state)):
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
        """Return the nodes that stay: in service, held, coming, launched or undrained just now."""
        return self._staying(fleet, _THERE)

    def spare(self, fleet: str, needed: Collection[str]) -> set[str]:
        """Return the nodes that no job has or gets."""
        return self._staying(fleet, _SPARE) - set(needed)

    def undrainable(self, fleet: str, phases: Collection[Phase]) -> list[Entry]:
        """Return the nodes that the scaler drained and that may take jobs again; the lowest slot first."""
        return [
            entry
            for entry in self.reconciled.entries.values()
            if entry.fleet == fleet
            and entry.action in (NodeAction.LEAVE, NodeAction.KEEP)
            and entry.phase in phases
            and entry.is_desired
            and self.excess.get(entry.name) is None
            and entry.name not in self.plan.undrained
        ]

    def _staying(self, fleet: str, phases: frozenset[Phase]) -> set[str]:
        seen = {
            entry.name
            for entry in self.reconciled.entries.values()
            if entry.fleet == fleet and entry.phase in phases and self.excess.get(entry.name) is None
        }
        plan = self.plan
        stays = (seen & plan.desired) - plan.drained.keys()
        now = {**plan.launched, **plan.undrained}
        return stays | {name for name, of in now.items() if of == fleet}


def serve(
    outlook: Outlook, wants: Wants, limits: Limits, needed: Collection[str], *, spare: bool
) -> tuple[Outlook, Limits]:
    """Undrain or launch what is missing below the floors, those that are ``spare`` or the others.

    Gives what the limits leave.
    """
    for fleet in outlook.state.spec.fleets:
        for floor in _of(wants.floors, fleet, spare=spare):
            there = outlook.spare(fleet.name, needed) if spare else outlook.there(fleet.name)
            outlook, limits = _fill(outlook, fleet, floor, floor.nodes - len(there), limits)
    return outlook, limits


def _of(floors: Iterable[Floor], fleet: Fleet, *, spare: bool) -> list[Floor]:
    """Return the floors of a fleet, the highest last."""
    return sorted(
        (floor for floor in floors if floor.fleet == fleet.name and floor.is_spare is spare),
        key=lambda floor: (floor.nodes, floor.reason),
    )


def _fill(
    outlook: Outlook, fleet: Fleet, floor: Floor, missing: int, limits: Limits
) -> tuple[Outlook, Limits]:
    # One that jobs have still is there, and not to spare.
    phases = {Phase.DRAINED} if floor.is_spare else {Phase.DRAINED, Phase.DRAINING}
    back = outlook.undrainable(fleet.name, phases)[: max(0, missing)]
    plan = outlook.plan.with_steps(Step(Undrain, fleet.name, entry.name, floor.reason) for entry in back)
    outlook = replace(outlook, plan=plan)
    missing -= len(back)
    if missing <= 0:
        return outlook, limits
    lasting_s = None if floor.is_for_ever else 0
    grant = limits.more(fleet.name, missing, {}, time_limit_s=lasting_s)
    names = tuple(islice(_vacant(outlook, fleet), grant.nodes))
    new = NewNodes(fleet.name, names, floor.reason, dict.fromkeys(names, lasting_s))
    outlook = replace(outlook, plan=plan.with_launches([new]))
    return outlook, limits.with_launched({fleet.name: len(names)}, len(names) * grant.usd_per_node)


def _vacant(outlook: Outlook, fleet: Fleet) -> Iterable[str]:
    desired = outlook.plan.desired
    free = vacancies(fleet, outlook.phases(), outlook.memory, outlook.state.at)
    return (name for name in outlook.suspended.first(free) if name not in desired)


def prepare(
    outlook: Outlook, wants: Wants, limits: Limits, needed: Collection[str]
) -> tuple[Outlook, Limits]:
    """Launch the nodes whose machines are to be suspended, as far as there are none to spare for that. Gives what the limits leave.

    Not while nodes are on their way for jobs: an `up` is as long as its longest boot, and the next one waits for it.
    """
    if any(launch.jobs for launch in outlook.plan.memory.launches.values()):
        return outlook, limits
    for fleet in outlook.state.spec.fleets:
        missing = outlook.missing(fleet.name) - max(
            0, _above_floors(outlook, fleet.name, wants.floors, needed)
        )
        if missing <= 0:
            continue
        wanted = outlook.suspended.wanted[fleet.name]
        grant = limits.more(fleet.name, missing, {}, time_limit_s=0)
        free = vacancies(fleet, outlook.phases(), outlook.memory, outlook.state.at)
        names = new_names(free, outlook.suspended, outlook.plan.desired, grant.nodes)
        why = f"{wanted} are kept suspended, and {missing} more are prepared for that"
        new = NewNodes(fleet.name, names, why, dict.fromkeys(names, 0))
        outlook = replace(outlook, plan=outlook.plan.with_launches([new]))
        limits = limits.with_launched({fleet.name: len(names)}, len(names) * grant.usd_per_node)
    return outlook, limits


def _above_floors(outlook: Outlook, fleet: str, floors: Iterable[Floor], needed: Collection[str]) -> int:
    """Return how many nodes there are to spare that no floor keeps; negative where floors are not reached."""
    least, spare = _highest(fleet, floors)
    above_least = len(outlook.there(fleet)) - (least.nodes if least else 0)
    above_spare = len(outlook.spare(fleet, needed)) - (spare.nodes if spare else 0)
    return min(above_least, above_spare)


def _highest(fleet: str, floors: Iterable[Floor]) -> tuple[Floor | None, Floor | None]:
    """Return the highest floor of a fleet, and the highest of nodes to spare."""
    mine = [floor for floor in floors if floor.fleet == fleet]
    least = max((floor for floor in mine if not floor.is_spare), key=lambda floor: floor.nodes, default=None)
    spare = max((floor for floor in mine if floor.is_spare), key=lambda floor: floor.nodes, default=None)
    return least, spare


def shrink(outlook: Outlook, wants: Wants, needed: Collection[str]) -> tuple[list[Step], Mapping[str, str]]:
    """Return the drains and removals, and by node that is idle why it stays, in words."""
    steps = list(_drain_excess(outlook))
    reasons: dict[str, str] = {}
    entries = outlook.reconciled.entries.values()
    for fleet in sorted({entry.fleet for entry in entries}):
        for each in _drain_idle(outlook, fleet, wants.floors, needed):
            if isinstance(each, Step):
                steps.append(each)
            else:
                reasons[each[0]] = each[1]
    return [*steps, *_remove_drained(outlook)], reasons


def _drain_excess(outlook: Outlook) -> Iterator[Step]:
    for entry in outlook.reconciled.entries.values():
        why = outlook.excess.get(entry.name)
        if why is not None and entry.action is NodeAction.SERVE:
            yield Step(Drain, entry.fleet, entry.name, why)


def _drain_idle(
    outlook: Outlook, fleet: str, floors: Iterable[Floor], needed: Collection[str]
) -> Iterator[Step | tuple[str, str]]:
    """Return the drains of a fleet's nodes that were idle for long enough, as far as floors let; why others stay."""
    state, plan = outlook.state, outlook.plan
    idle_since = plan.memory.idle_since
    timeouts_s = {each.name: each.idle_timeout_s for each in state.spec.fleets}
    timeout = timedelta(seconds=timeouts_s.get(fleet, 0))
    idle = [
        entry
        for entry in outlook.reconciled.entries.values()
        if entry.fleet == fleet and entry.phase is Phase.IDLE and outlook.excess.get(entry.name) is None
    ]
    least, spare = _highest(fleet, floors)
    above_least = len(outlook.there(fleet)) - (least.nodes if least else 0)
    above_spare = len(outlook.spare(fleet, needed)) - (spare.nodes if spare else 0)
    to_suspend = outlook.missing(fleet)
    for entry in sorted(idle, key=removal_order(state, idle_since)):
        idle_for = state.at - idle_since[entry.name]
        seconds = f"{idle_for.total_seconds():.0f} s"
        if entry.name in needed:
            yield entry.name, "idle; a job that waits will run on it"
        elif entry.name in plan.undrained or entry.action is not NodeAction.SERVE:
            yield entry.name, f"idle for {seconds}: {entry.why}"
        elif above_least <= 0 and least is not None:
            yield entry.name, f"idle for {seconds}; it stays: {least.reason}"
        elif above_spare <= 0 and spare is not None:
            yield entry.name, f"idle for {seconds}; it stays: {spare.reason}"
        elif to_suspend > 0 and idle_for >= SETTLED and not is_of_older_image(entry, state):
            yield Step(Drain, fleet, entry.name, f"{outlook.suspended.wanted[fleet]} are kept suspended")
            to_suspend -= 1
            above_least -= 1
            above_spare -= 1
        elif idle_for < timeout:
            yield entry.name, f"idle for {seconds} of {timeout.total_seconds():.0f} s; then it goes"
            above_least -= 1
            above_spare -= 1
        else:
            older = ", of an older image" if is_of_older_image(entry, state) else ""
            yield Step(Drain, fleet, entry.name, f"idle for {timeout.total_seconds():.0f} s{older}")
            above_least -= 1
            above_spare -= 1


def _remove_drained(outlook: Outlook) -> Iterator[Step]:
    """Return the removals of nodes that Slurm shows drained and without jobs, and that nothing has undrained."""
    plan = outlook.plan
    left = {fleet: outlook.to_suspend(fleet) for fleet in outlook.suspended.wanted}
    for entry in outlook.reconciled.entries.values():
        if (
            entry.action is NodeAction.LEAVE
            and entry.phase is Phase.DRAINED
            and entry.name not in plan.undrained
        ):
            drained = plan.memory.drains.get(entry.name)
            why = f"drained and empty: {without_mark(drained.reason) if drained else 'drained'}"
            if left.get(entry.fleet, 0) > 0 and outlook.may_be_suspended(entry):
                left[entry.fleet] -= 1
                yield Step(Suspend, entry.fleet, entry.name, why)
            else:
                yield Step(Remove, entry.fleet, entry.name, why)
