"""Steps that the reconcile table asks for, and what is remembered of nodes while nothing is asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.node_status import OURS, NodeAction, is_taken_back
from tidepool.scaling.decide.plan import Plan, Step
from tidepool.scaling.decide.reconcile import STRAY_GRACE, Entry, Reconciled
from tidepool.scaling.decision import DeleteOrphan, Drain, Phase, PowerFailed, ReleaseSlot, Remove, Repair
from tidepool.scaling.memory import Drained, Memory

_DRAINED: Final = frozenset({Phase.DRAINED, Phase.DRAINING})
_IN_SERVICE: Final = frozenset({Phase.IDLE, Phase.BUSY})
#: While it is so, an `up` that was asked for is still waited for.
_AWAITED: Final = frozenset(
    {
        NodeAction.WAIT,
        NodeAction.KEEP,
        NodeAction.REPAIR,
        NodeAction.REMOVE,
        NodeAction.REPLACE,
        NodeAction.RELEASE_SLOT,
        NodeAction.FAIL,
    }
)
_AMISS: Final = frozenset({NodeAction.REMOVE, NodeAction.REPLACE, NodeAction.REPAIR, NodeAction.RELEASE_SLOT})


def remembered(
    state: ClusterState, memory: Memory, reconciled: Reconciled, powered_up: Collection[str]
) -> Memory:
    """Return what still holds of ``memory``, by what is observed of nodes now."""
    there = reconciled.entries
    desired = {name for names in state.desired.values() for name in names}
    locations = {**memory.locations, **{name: entry.location for name, entry in there.items()}}
    drains = {
        name: memory.drains.get(name)
        for name, entry in there.items()
        if entry.phase in _DRAINED
        or (entry.phase is Phase.STRAY and entry.action is NodeAction.WAIT and name in memory.drains)
    }
    return replace(
        memory,
        idle_since={
            name: _idle_since(entry, memory, state.at)
            for name, entry in there.items()
            if entry.phase is Phase.IDLE
        },
        locations={name: key for name, key in locations.items() if name in there or name in desired},
        launches={
            name: launch
            for name, launch in memory.launches.items()
            if name in there and there[name].is_desired and not _has_come(there[name], state)
        },
        drains={name: drain or Drained(state.at, _written(there[name])) for name, drain in drains.items()},
        undrained={
            name: since
            for name, since in memory.undrained.items()
            if name in there and there[name].phase in _IN_SERVICE and there[name].action is NodeAction.KEEP
        },
        awaited={
            name: until
            for name, until in memory.awaited.items()
            if (name in there and there[name].action in _AWAITED) or (name in powered_up and until > state.at)
        },
        suspending={
            name: since
            for name, since in memory.suspending.items()
            if name in there and not there[name].is_desired
        },
        ill_since={
            name: memory.ill_since.get(name, state.at)
            for name, entry in there.items()
            if entry.phase is Phase.ILL or entry.action in _AMISS
        },
        node_backoffs={
            name: each
            for name, each in memory.node_backoffs.items()
            if not (name in there and there[name].action is NodeAction.SERVE)
        },
        strays={machine.key: memory.strays.get(machine.key, state.at) for machine in reconciled.strays},
    )


def upkeep(
    state: ClusterState,
    reconciled: Reconciled,
    excess: Mapping[str, str],
    plan: Plan,
    powered_up: Collection[str],
) -> Iterator[Step]:
    """Return what the table says of each node; but not of those that Slurm's power saving asks for anew."""
    saves_power = state.spec.scaling.mode == "power_save"
    for entry in reconciled.entries.values():
        if entry.name in powered_up and not entry.is_desired:
            continue
        why = excess.get(entry.name)
        if entry.action is NodeAction.MAKE and why is not None:
            if state.machines is not None and not entry.has_jobs:
                yield Step(Remove, entry.fleet, entry.name, why)
        elif entry.is_confirmed and (step := _step(entry, saves_power, plan.is_expected(entry.name))):
            yield step


def orphans(state: ClusterState, reconciled: Reconciled, memory: Memory) -> list[DeleteOrphan]:
    """Return the deletions of machines that no record has known for long enough."""
    # Whoever makes a machine records it when it is made: while an `up` is under way nothing is known to be stray.
    if state.under_way or state.recorded is None:
        return []
    found = []
    for machine in reconciled.strays:
        known_for = state.at - memory.strays[machine.key]
        if known_for >= STRAY_GRACE:
            reason = f"no record has known it for {known_for.total_seconds():.0f} s, and it runs nothing"
            found.append(DeleteOrphan(machine.key, reason))
    return found


def _step(entry: Entry, saves_power: bool, is_expected: bool) -> Step | None:
    step = Step(None, entry.fleet, entry.name, entry.why)
    match entry.action:
        case NodeAction.MAKE:
            return step._replace(kind=Repair, is_launch=True)
        case NodeAction.REPAIR:
            return step._replace(kind=Repair)
        case NodeAction.DRAIN:
            return step._replace(kind=Drain)
        case NodeAction.REMOVE:
            return step._replace(kind=Remove)
        case NodeAction.DROP:
            return step
        case NodeAction.REPLACE:
            # Who takes machines back has none to give.
            return step._replace(kind=Remove, failure="capacity" if is_taken_back(entry.node) else "boot")
        case NodeAction.RELEASE_SLOT if not is_expected:
            # Where Slurm saves power, it powers the node down, and makes a slot of it so.
            return step._replace(kind=PowerFailed if saves_power else ReleaseSlot)
        case NodeAction.FAIL if not is_expected:
            return step._replace(kind=PowerFailed)
        case _:
            return None


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
