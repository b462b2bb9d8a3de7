"""What the ledger asks for, as actions; and what is remembered of nodes while nothing is asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Final

from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.draft import Draft
from tidepool.scaling.decide.excess import Surplus
from tidepool.scaling.decide.observed import OURS, is_taken_back
from tidepool.scaling.decide.reconcile import STRAY_GRACE, Entry, Ledger
from tidepool.scaling.decide.reconcile_words import Todo
from tidepool.scaling.memory import Cause, Drained, Memory
from tidepool.scaling.phase import Phase

_DRAINED: Final = frozenset({Phase.DRAINED, Phase.DRAINING})
_IN_SERVICE: Final = frozenset({Phase.IDLE, Phase.BUSY})
#: While it is so, an `up` that was asked for is still waited for.
_AWAITED: Final = frozenset(
    {Todo.WAIT, Todo.KEEP, Todo.REPAIR, Todo.REMOVE, Todo.REPLACE, Todo.RELEASE_SLOT, Todo.FAIL}
)
_AMISS: Final = frozenset({Todo.REMOVE, Todo.REPLACE, Todo.REPAIR, Todo.RELEASE_SLOT})


def remember_nodes(
    draft: Draft, state: ClusterState, memory: Memory, ledger: Ledger, asked_up: Collection[str]
) -> None:
    """Bring what is remembered of nodes up to what is seen of them."""
    there = ledger.entries
    draft.idle_since = {
        name: _idle_since(entry, memory, state.at)
        for name, entry in there.items()
        if entry.phase is Phase.IDLE
    }
    draft.locations = {
        name: location
        for name, location in {
            **memory.locations,
            **{name: entry.location for name, entry in there.items()},
        }.items()
        if name in there or name in draft.desired
    }
    draft.launches = {
        name: launch
        for name, launch in memory.launches.items()
        if name in there and there[name].is_desired and not _has_come(there[name], state)
    }
    drains = {
        name: memory.drains.get(name)
        for name, entry in there.items()
        if entry.phase in _DRAINED
        or (entry.phase is Phase.STRAY and entry.todo is Todo.WAIT and name in memory.drains)
    }
    draft.drains = {name: drain or Drained(state.at, _written(there[name])) for name, drain in drains.items()}
    draft.undrained = {
        name: since
        for name, since in memory.undrained.items()
        if name in there and there[name].phase in _IN_SERVICE and there[name].todo is Todo.KEEP
    }
    draft.awaited = {
        name: until
        for name, until in memory.awaited.items()
        if (name in there and there[name].todo in _AWAITED) or (name in asked_up and until > state.at)
    }
    draft.ill_since = {
        name: memory.ill_since.get(name, state.at)
        for name, entry in there.items()
        if entry.phase is Phase.ILL or entry.todo in _AMISS
    }
    draft.node_backoffs = {
        name: each
        for name, each in memory.node_backoffs.items()
        if not (name in there and there[name].todo is Todo.SERVE)
    }
    draft.strays = {machine.key: memory.strays.get(machine.key, state.at) for machine in ledger.strays}


def act_on_ledger(
    draft: Draft, state: ClusterState, ledger: Ledger, surplus: Surplus, asked_up: Collection[str]
) -> None:
    """Carry out what the table says of each node; but not of those that Slurm's power saving asks for anew."""
    for entry in ledger.entries.values():
        if entry.name in asked_up and not entry.is_desired:
            continue
        why = surplus.why(entry)
        if entry.todo is Todo.MAKE and why is not None:
            if state.machines is not None:
                draft.remove(entry.fleet, entry.name, why)
        elif entry.is_confirmed and (act := _ACTS.get(entry.todo)):
            act(draft, entry)
    _delete_orphan(draft, state, ledger)


def _delete_orphan(draft: Draft, state: ClusterState, ledger: Ledger) -> None:
    # Whoever makes a machine records it when it is made: while an `up` is under way nothing is known to be stray.
    if state.under_way or state.recorded is None:
        return
    for machine in ledger.strays:
        since = draft.strays[machine.key]
        if state.at - since >= STRAY_GRACE:
            seconds = (state.at - since).total_seconds()
            draft.delete_orphan(
                machine.key, f"no record has known it for {seconds:.0f} s, and it runs nothing"
            )


def _replace(draft: Draft, entry: Entry) -> None:
    draft.remove(entry.fleet, entry.name, entry.why)
    # Who takes machines back has none to give.
    cause: Cause = "capacity" if is_taken_back(entry.node) else "boot"
    draft.set_back(entry.fleet, entry.name, cause, f"{entry.name}: {entry.why}")


def _release_slot(draft: Draft, entry: Entry) -> None:
    if not draft.is_expected(entry.name):
        draft.release_slot(entry.fleet, entry.name, entry.why)


def _fail(draft: Draft, entry: Entry) -> None:
    if not draft.is_expected(entry.name):
        draft.power_failed(entry.fleet, entry.name, entry.why)


def _drop(draft: Draft, entry: Entry) -> None:
    draft.desired.discard(entry.name)


_ACTS: Final[Mapping[Todo, Callable[[Draft, Entry], None]]] = {
    Todo.MAKE: lambda draft, entry: draft.make(entry.fleet, entry.name, entry.why),
    Todo.REPAIR: lambda draft, entry: draft.repair(entry.fleet, entry.name, entry.why),
    Todo.DRAIN: lambda draft, entry: draft.drain(entry.fleet, entry.name, entry.why),
    Todo.REMOVE: lambda draft, entry: draft.remove(entry.fleet, entry.name, entry.why),
    Todo.DROP: _drop,
    Todo.REPLACE: _replace,
    Todo.RELEASE_SLOT: _release_slot,
    Todo.FAIL: _fail,
}


def _idle_since(entry: Entry, memory: Memory, at: datetime) -> datetime:
    """When it came up, or its last job ended."""
    known = memory.idle_since.get(entry.name)
    busy = _past(entry.node.last_busy_time if entry.node else None, at)
    if entry.name in memory.launches or entry.name in memory.drains:
        return at if known is None or entry.name in memory.drains else known
    if known is None:
        started = _past(entry.node.slurmd_start_time if entry.node else None, at)
        known = max((time for time in (busy, started) if time is not None), default=at)
    elif busy is not None:
        known = max(known, busy)  # a job that began and ended between two looks
    return min(known, at)


def _past(time: datetime | None, at: datetime) -> datetime | None:
    """Slurm's clock may be ahead of ours: what is still to come by it says nothing."""
    return time if time is not None and time <= at else None


def _has_come(entry: Entry, state: ClusterState) -> bool:
    """Up, and recorded: an `up` that is under way may have its node up before it is."""
    if entry.phase not in _IN_SERVICE and entry.phase not in _DRAINED and entry.phase is not Phase.HELD:
        return False
    record = (state.recorded or {}).get(entry.name)
    return record is not None and record.membership and not record.pending


def _written(entry: Entry) -> str:
    reason = entry.node.reason if entry.node else None
    return reason.text if reason else f"{OURS} drained"
