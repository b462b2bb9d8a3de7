"""Outcomes of an `up`, of nodes or of roles, as what is remembered from then on. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Final

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.slots import fleet_and_number
from tidepool.scaling.decide import backoff
from tidepool.scaling.memory import Cause, Memory, at_location
from tidepool.scaling.ports import Failure, UpOutcome

#: Of several failures of a fleet in one `up`, which is told: the one that goes on for longest.
_GRAVEST: Final[tuple[Cause, ...]] = ("permanent", "capacity", "boot", "transient")


def remember(memory: Memory, outcome: UpOutcome, at: datetime) -> Memory:
    """``memory`` after an `up`.

    Success ends backoffs. A node that was made has its time to come up from then on: until a machine answered that boots
    slowly, it may be over. A node that could not be made is no launch any more, so that the next decision has it leave
    the wish; its name is left alone for a while, and its fleet backs off, once for each `up`; of a fleet on several
    infrastructures, only that one on which it failed. What could not be taken away, or mended, is tried again after a
    while.
    """

    def key(name: str) -> str:
        return at_location(_fleet(name), memory.locations.get(name, ""))

    launches, awaited = dict(memory.launches), dict(memory.awaited)
    nodes, fleets = dict(memory.node_backoffs), dict(memory.fleet_backoffs)
    for name in outcome.made | outcome.removed:
        awaited.pop(name, None)
    for name in outcome.made:
        nodes.pop(name, None)
        fleets.pop(key(name), None)
    for name in outcome.made | outcome.coming:
        if launch := launches.get(name):
            patience = launch.deadline - launch.since
            launches[name] = replace(launch, deadline=max(launch.deadline, at + patience))
    of_fleets: dict[str, list[Failure]] = {}
    for name, failure in sorted(outcome.failed.items()):
        before, location = memory.node_backoffs.get(name), memory.locations.get(name, "")
        nodes[name] = backoff.of_node(before, failure.cause, failure.text, at, location)
        if launches.pop(name, None) is not None:
            awaited.pop(name, None)
            of_fleets.setdefault(key(name), []).append(failure)
        else:
            awaited[name] = nodes[name].until
    for fleet, failures in of_fleets.items():
        told = min(failures, key=lambda failure: _GRAVEST.index(failure.cause))
        fleets[fleet] = backoff.of_fleet(fleets.get(fleet), told.cause, told.text, at)
    return replace(
        memory,
        launches=FrozenDict(launches),
        awaited=FrozenDict(awaited),
        node_backoffs=FrozenDict(nodes),
        fleet_backoffs=FrozenDict(fleets),
    )


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
        backoffs[name] = backoff.of_node(before, cause, failure.text, at)
    return replace(memory, pools=replace(memory.pools, backoffs=FrozenDict(backoffs)))


def unmoved(memory: Memory, nodes: Collection[str]) -> Memory:
    """``memory`` where these machines of pools move no more."""
    moving = {name: each for name, each in memory.pools.moving.items() if name not in nodes}
    return replace(memory, pools=replace(memory.pools, moving=FrozenDict(moving)))


def _fleet(name: str) -> str:
    try:
        return fleet_and_number(name)[0]
    except ValueError:
        return ""
