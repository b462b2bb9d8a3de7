"""Shrinking: nodes that nobody needs are drained; those that are seen to be drained and empty are removed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta

from tidepool.scaling.decide.floors import Standing
from tidepool.scaling.decide.policies import Floor, Wants
from tidepool.scaling.decide.reconcile import Entry
from tidepool.scaling.decide.reconcile_words import Todo
from tidepool.scaling.decide.removal_order import going_order, is_of_older_image
from tidepool.scaling.phase import Phase


def shrink(standing: Standing, wants: Wants, needed: Collection[str]) -> Mapping[str, str]:
    """Drain and remove; gives, by node that is idle, why it stays or goes, in words."""
    _drain_surplus(standing)
    reasons: dict[str, str] = {}
    entries = standing.ledger.entries.values()
    for fleet in sorted({entry.fleet for entry in entries}):
        reasons.update(_drain_idle(standing, fleet, wants.floors, needed))
    _remove_drained(standing)
    return reasons


def _drain_surplus(standing: Standing) -> None:
    for entry in standing.ledger.entries.values():
        why = standing.surplus.why(entry)
        if why is not None and _may_be_drained(entry):
            standing.draft.drain(entry.fleet, entry.name, why)


def _drain_idle(
    standing: Standing, fleet: str, floors: Iterable[Floor], needed: Collection[str]
) -> Iterable[tuple[str, str]]:
    """Of a fleet: those that were idle for long enough, as far as floors let them go."""
    state, draft = standing.state, standing.draft
    timeout = timedelta(seconds=_idle_timeout_s(standing, fleet))
    idle = [
        entry
        for entry in standing.ledger.entries.values()
        if entry.fleet == fleet and entry.phase is Phase.IDLE and standing.surplus.why(entry) is None
    ]
    mine = [floor for floor in floors if floor.fleet == fleet]
    least = max((floor for floor in mine if not floor.is_spare), key=lambda floor: floor.nodes, default=None)
    spare = max((floor for floor in mine if floor.is_spare), key=lambda floor: floor.nodes, default=None)
    above_least = len(standing.there(fleet)) - (least.nodes if least else 0)
    above_spare = len(standing.spare(fleet, needed)) - (spare.nodes if spare else 0)
    for entry in sorted(idle, key=going_order(state, draft.idle_since)):
        idle_for = state.at - draft.idle_since[entry.name]
        seconds = f"{idle_for.total_seconds():.0f} s"
        if entry.name in needed:
            yield entry.name, "idle; a job that waits will run on it"
        elif entry.name in draft.now_undrained or not _may_be_drained(entry):
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
            draft.drain(fleet, entry.name, f"idle for {timeout.total_seconds():.0f} s{older}")
            above_least -= 1
            above_spare -= 1


def _may_be_drained(entry: Entry) -> bool:
    return entry.todo is Todo.SERVE


def _idle_timeout_s(standing: Standing, fleet: str) -> int:
    return next((each.idle_timeout_s for each in standing.state.spec.fleets if each.name == fleet), 0)


def _remove_drained(standing: Standing) -> None:
    """Those that Slurm shows drained and without jobs, and that nothing has undrained."""
    draft = standing.draft
    for entry in standing.ledger.entries.values():
        if (
            entry.todo is Todo.LEAVE
            and entry.phase is Phase.DRAINED
            and entry.name not in draft.now_undrained
        ):
            drained = draft.drains.get(entry.name)
            why = drained.reason.removeprefix("tidepool:").strip() if drained else "drained"
            draft.remove(entry.fleet, entry.name, f"drained and empty: {why}")
