"""Shrinking: nodes that nobody needs are drained; those that are seen to be drained and empty are removed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import timedelta

from tidepool.scaling.decide.floors import Outlook
from tidepool.scaling.decide.plan import Step
from tidepool.scaling.decide.policies import Floor, Wants
from tidepool.scaling.decide.reconcile import Entry
from tidepool.scaling.decide.reconcile_words import NodeAction
from tidepool.scaling.decide.removal_order import is_of_older_image, removal_order
from tidepool.scaling.decision import Drain, Remove
from tidepool.scaling.phase import Phase


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
        why = outlook.excess.why(entry)
        if why is not None and _may_be_drained(entry):
            yield Step(Drain, entry.fleet, entry.name, why)


def _drain_idle(
    outlook: Outlook, fleet: str, floors: Iterable[Floor], needed: Collection[str]
) -> Iterator[Step | tuple[str, str]]:
    """Return the drains of a fleet's nodes that were idle for long enough, as far as floors let; why others stay."""
    state, plan = outlook.state, outlook.plan
    idle_since = plan.memory.idle_since
    timeout = timedelta(seconds=_idle_timeout_s(outlook, fleet))
    idle = [
        entry
        for entry in outlook.reconciled.entries.values()
        if entry.fleet == fleet and entry.phase is Phase.IDLE and outlook.excess.why(entry) is None
    ]
    mine = [floor for floor in floors if floor.fleet == fleet]
    least = max((floor for floor in mine if not floor.is_spare), key=lambda floor: floor.nodes, default=None)
    spare = max((floor for floor in mine if floor.is_spare), key=lambda floor: floor.nodes, default=None)
    above_least = len(outlook.there(fleet)) - (least.nodes if least else 0)
    above_spare = len(outlook.spare(fleet, needed)) - (spare.nodes if spare else 0)
    for entry in sorted(idle, key=removal_order(state, idle_since)):
        idle_for = state.at - idle_since[entry.name]
        seconds = f"{idle_for.total_seconds():.0f} s"
        if entry.name in needed:
            yield entry.name, "idle; a job that waits will run on it"
        elif entry.name in plan.undrained or not _may_be_drained(entry):
            yield entry.name, f"idle for {seconds}: {entry.why}"
        elif above_least <= 0 and least is not None:
            yield entry.name, f"idle for {seconds}; it stays: {least.reason}"
        elif above_spare <= 0 and spare is not None:
            yield entry.name, f"idle for {seconds}; it stays: {spare.reason}"
        elif idle_for < timeout:
            yield entry.name, f"idle for {seconds} of {timeout.total_seconds():.0f} s; then it goes"
            above_least -= 1
            above_spare -= 1
        else:
            older = ", of an older image" if is_of_older_image(entry, state) else ""
            yield Step(Drain, fleet, entry.name, f"idle for {timeout.total_seconds():.0f} s{older}")
            above_least -= 1
            above_spare -= 1


def _may_be_drained(entry: Entry) -> bool:
    return entry.action is NodeAction.SERVE


def _idle_timeout_s(outlook: Outlook, fleet: str) -> int:
    return next((each.idle_timeout_s for each in outlook.state.spec.fleets if each.name == fleet), 0)


def _remove_drained(outlook: Outlook) -> Iterator[Step]:
    """Return the removals of nodes that Slurm shows drained and without jobs, and that nothing has undrained."""
    plan = outlook.plan
    for entry in outlook.reconciled.entries.values():
        if (
            entry.action is NodeAction.LEAVE
            and entry.phase is Phase.DRAINED
            and entry.name not in plan.undrained
        ):
            drained = plan.memory.drains.get(entry.name)
            why = drained.reason.removeprefix("tidepool:").strip() if drained else "drained"
            yield Step(Remove, entry.fleet, entry.name, f"drained and empty: {why}")
