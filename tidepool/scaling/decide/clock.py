"""Corrections of memory, where the clock has jumped, or time went by in which nothing could be done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.backoff import LONGEST
from tidepool.scaling.memory import Memory, PoolMemory

_NO_POOLS: Final = PoolMemory()


def set_right(memory: Memory, state: ClusterState) -> Memory:
    """``memory`` as it is meant at the time of ``state``."""
    return _waited_for_its_turn(_rewound(memory, state.at, _patience(state)), state)


def _patience(state: ClusterState) -> timedelta:
    return timedelta(seconds=state.spec.scaling.boot_timeout_s)


def _rewound(memory: Memory, at: datetime, patience: timedelta) -> Memory:
    """Nothing that is remembered lies in the future, and no deadline farther ahead than it was ever set."""
    launches = {
        name: replace(launch, since=at, deadline=at + (launch.deadline - launch.since))
        for name, launch in memory.launches.items()
        if launch.since > at
    }
    drains = {name: replace(drain, since=at) for name, drain in memory.drains.items() if drain.since > at}
    return replace(
        memory,
        idle_since=_no_later(memory.idle_since, at),
        launches={**memory.launches, **launches} if launches else memory.launches,
        drains={**memory.drains, **drains} if drains else memory.drains,
        undrained=_no_later(memory.undrained, at),
        awaited=_no_later(memory.awaited, at + max(patience, timedelta(minutes=1))),
        fleet_backoffs={
            name: replace(each, until=min(each.until, at + LONGEST))
            for name, each in memory.fleet_backoffs.items()
        },
        node_backoffs={
            name: replace(each, until=min(each.until, at + LONGEST))
            for name, each in memory.node_backoffs.items()
        },
        strays={key: min(since, at) for key, since in memory.strays.items()},
        ill_since=_no_later(memory.ill_since, at),
        has_room_since={job: min(since, at) for job, since in memory.has_room_since.items()},
        pools=_of_pools(memory.pools, at),
    )


def _of_pools(pools: PoolMemory, at: datetime) -> PoolMemory:
    if pools == _NO_POOLS:
        return pools
    return PoolMemory(
        idle_since=_no_later(pools.idle_since, at),
        moving={
            name: replace(each, since=at, until=at + (each.until - each.since)) if each.since > at else each
            for name, each in pools.moving.items()
        },
        backoffs={
            name: replace(each, until=min(each.until, at + LONGEST)) for name, each in pools.backoffs.items()
        },
        abandoned=_no_later(pools.abandoned, at),
        has_room_since=_no_later(pools.has_room_since, at),
    )


def _no_later(times: Mapping[str, datetime], at: datetime) -> Mapping[str, datetime]:
    return {name: min(time, at) for name, time in times.items()}


def _waited_for_its_turn(memory: Memory, state: ClusterState) -> Memory:
    """Give what the next `up` will do its time from then on, for there is one at a time."""
    if not state.under_way:
        return memory
    patience = _patience(state)
    recorded = {name for name, record in (state.recorded or {}).items() if record.machine}
    begun = state.under_way | recorded | {machine.key.node for machine in state.machines or ()}
    waits = {
        name: replace(launch, deadline=max(launch.deadline, state.at + patience))
        for name, launch in memory.launches.items()
        if name not in begun
    }
    awaited = {
        name: max(until, state.at + patience)
        for name, until in memory.awaited.items()
        if name not in state.under_way
    }
    return replace(memory, launches={**memory.launches, **waits}, awaited={**memory.awaited, **awaited})
