"""Memory, as it is after the outcome of an `up`, and after the clock has jumped; and backoffs after failures. Pure.

After a failure something is left alone for a while, longer each time in a row, and each cause has its own while.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.slots import fleet_and_number
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.memory import Backoff, Cause, Memory, PoolMemory, at_location, suspending_at
from tidepool.scaling.ports import Failure, UpOutcome

#: By cause: for how long after the first failure, and for how long at most. Each failure doubles it.
_PAUSES: Final[dict[Cause, tuple[timedelta, timedelta]]] = {
    # Others want the same machines: they come back by the minute at best.
    "capacity": (timedelta(seconds=60), timedelta(hours=1)),
    "transient": (timedelta(seconds=5), timedelta(minutes=5)),
    # Until a person has done something about it; looked at again, for a person may forget to tell.
    "permanent": (timedelta(minutes=10), timedelta(hours=6)),
    # Of a node's name: it is quarantined, and another name is taken.
    "boot": (timedelta(minutes=5), timedelta(hours=6)),
}
#: A fleet goes on with other names after so many of its nodes did not come up in a row. Then it backs off itself.
BOOTS_FORGIVEN: Final = 2
_BOOTS_OF_A_FLEET: Final = (timedelta(seconds=30), timedelta(minutes=30))
_MOST_DOUBLINGS: Final = 16

#: A backoff never lasts longer, whatever clocks do.
LONGEST: Final = max(most for _, most in _PAUSES.values())


def node_backoff(
    before: Backoff | None, cause: Cause, text: str, at: datetime, location: str = ""
) -> Backoff:
    """One more failure of one name, which was to be made at ``location``."""
    failures = before.failures + 1 if before else 1
    first, most = _PAUSES[cause]
    return Backoff(cause, failures, at + _pause(first, most, failures), text, location)


def fleet_backoff(before: Backoff | None, cause: Cause, text: str, at: datetime) -> Backoff:
    """One more failure of a fleet. Of causes in turn, each counts anew."""
    failures = before.failures + 1 if before and before.cause == cause else 1
    if cause != "boot":
        first, most = _PAUSES[cause]
        return Backoff(cause, failures, at + _pause(first, most, failures), text)
    forgiven = Backoff(cause, failures, at, text)
    if is_forgiven(forgiven):
        return forgiven
    first, most = _BOOTS_OF_A_FLEET
    return Backoff(cause, failures, at + _pause(first, most, failures - BOOTS_FORGIVEN), text)


def is_forgiven(backoff: Backoff) -> bool:
    """Return whether a fleet goes on as if nothing had been: it may be the machines' fault, one by one."""
    return backoff.cause == "boot" and backoff.failures <= BOOTS_FORGIVEN


def _pause(first: timedelta, most: timedelta, failures: int) -> timedelta:
    return min(most, first * (1 << min(failures - 1, _MOST_DOUBLINGS)))


#: Of several failures of a fleet in one `up`, which is told: the one that goes on for longest.
_GRAVEST: Final[tuple[Cause, ...]] = ("permanent", "capacity", "boot", "transient")


def remember(memory: Memory, outcome: UpOutcome, at: datetime) -> Memory:
    """``memory`` after an `up`.

    Success ends backoffs. A node that was made has its time to come up from then on: until a machine answered that boots
    slowly, it may be over. A node that could not be made is no launch any more, so that it is desired no more after the
    next decision; its name is left alone for a while, and its fleet backs off, once for each `up`; of a fleet on several
    infrastructures, only that one on which it failed. What could not be taken away, or repaired, is tried again after a
    while.
    """

    def key(name: str) -> str:
        return at_location(fleet_of(name), memory.locations.get(name, ""))

    launches, awaited = dict(memory.launches), dict(memory.awaited)
    nodes, fleets = dict(memory.node_backoffs), dict(memory.fleet_backoffs)
    suspending = {name: since for name, since in memory.suspending.items() if name not in outcome.failed}
    for name in outcome.made | outcome.removed:
        awaited.pop(name, None)
    for name in outcome.made:
        nodes.pop(name, None)
        fleets.pop(key(name), None)
    for name in outcome.made | outcome.coming:
        if launch := launches.get(name):
            patience = launch.deadline - launch.since
            launches[name] = replace(launch, deadline=max(launch.deadline, at + patience))
    for name in outcome.removed & memory.suspending.keys():
        fleets.pop(suspending_at(fleet_of(name)), None)
    of_fleets: dict[str, list[Failure]] = {}
    for name, failure in sorted(outcome.failed.items()):
        before, location = memory.node_backoffs.get(name), memory.locations.get(name, "")
        nodes[name] = node_backoff(before, failure.cause, failure.text, at, location)
        if launches.pop(name, None) is not None:
            awaited.pop(name, None)
            of_fleets.setdefault(key(name), []).append(failure)
        else:
            awaited[name] = nodes[name].until
        if name in memory.suspending:
            # It goes, and the next that is made for it may fail so as well.
            where = suspending_at(fleet_of(name))
            fleets[where] = node_backoff(fleets.get(where), failure.cause, failure.text, at)
    for fleet, failures in of_fleets.items():
        told = min(failures, key=lambda failure: _GRAVEST.index(failure.cause))
        fleets[fleet] = fleet_backoff(fleets.get(fleet), told.cause, told.text, at)
    return replace(
        memory,
        launches=FrozenDict(launches),
        awaited=FrozenDict(awaited),
        suspending=FrozenDict(suspending),
        node_backoffs=FrozenDict(nodes),
        fleet_backoffs=FrozenDict(fleets),
    )


def begun(memory: Memory, nodes: Collection[str], at: datetime) -> Memory:
    """``memory`` when an `up` of ``nodes`` begins: since then those that are launches are being made."""
    launches = {
        name: replace(launch, begun=at) if name in nodes and launch.begun is None else launch
        for name, launch in memory.launches.items()
    }
    return replace(memory, launches=FrozenDict(launches))


def moved(memory: Memory, nodes: Collection[str], outcome: UpOutcome, at: datetime) -> Memory:
    """``memory`` after an `up` of the roles of ``nodes``, machines of pools.

    One whose conversion failed, or was given up, is left alone for a while, longer with each in a row.
    """
    memory = unmoved(memory, nodes)
    backoffs = {name: each for name, each in memory.pools.backoffs.items() if name not in outcome.made}
    for name, failure in sorted(outcome.failed.items()):
        before = memory.pools.backoffs.get(name)
        # One that serves nobody is no name that could be left alone for long.
        cause = "transient" if failure.cause == "boot" else failure.cause
        backoffs[name] = node_backoff(before, cause, failure.text, at)
    return replace(memory, pools=replace(memory.pools, backoffs=FrozenDict(backoffs)))


def unmoved(memory: Memory, nodes: Collection[str]) -> Memory:
    """``memory`` where these machines of pools move no more."""
    moving = {name: each for name, each in memory.pools.moving.items() if name not in nodes}
    return replace(memory, pools=replace(memory.pools, moving=FrozenDict(moving)))


def fleet_of(name: str) -> str:
    """Return the fleet of a node; empty where no node is called so."""
    try:
        return fleet_and_number(name)[0]
    except ValueError:
        return ""


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
        suspending=_no_later(memory.suspending, at),
        awaited=_no_later(memory.awaited, at + max(patience, timedelta(minutes=1))),
        fleet_backoffs=_no_longer(memory.fleet_backoffs, at),
        node_backoffs=_no_longer(memory.node_backoffs, at),
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
        backoffs=_no_longer(pools.backoffs, at),
        abandoned=_no_later(pools.abandoned, at),
        has_room_since=_no_later(pools.has_room_since, at),
    )


def _no_longer(backoffs: Mapping[str, Backoff], at: datetime) -> Mapping[str, Backoff]:
    return {name: replace(each, until=min(each.until, at + LONGEST)) for name, each in backoffs.items()}


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
