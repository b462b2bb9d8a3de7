"""What an `up` came to, as what is remembered from then on. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.slots import fleet_and_number
from tidepool.scaling.deciding import setbacks
from tidepool.scaling.memory import Cause, Memory
from tidepool.scaling.ports import Failure, UpOutcome

#: Of several failures of a fleet in one `up`, which is told: the one that goes on for longest.
_GRAVEST: Final[tuple[Cause, ...]] = ("permanent", "capacity", "boot", "transient")


def remember(memory: Memory, outcome: UpOutcome, at: datetime) -> Memory:
    """``memory`` after an `up`.

    Success ends set-backs. A node that could not be made is no launch any more, so that the next decision has it leave
    the wish; its name is left alone for a while, and its fleet backs off, once for each `up`. What could not be taken
    away, or mended, is tried again after a while.
    """
    launches, awaited = dict(memory.launches), dict(memory.awaited)
    nodes, fleets = dict(memory.node_setbacks), dict(memory.fleet_setbacks)
    for name in outcome.made | outcome.removed:
        awaited.pop(name, None)
    for name in outcome.made:
        nodes.pop(name, None)
        fleets.pop(_fleet(name), None)
    of_fleets: dict[str, list[Failure]] = {}
    for name, failure in sorted(outcome.failed.items()):
        nodes[name] = setbacks.of_node(memory.node_setbacks.get(name), failure.cause, failure.text, at)
        if launches.pop(name, None) is not None:
            awaited.pop(name, None)
            of_fleets.setdefault(_fleet(name), []).append(failure)
        else:
            awaited[name] = nodes[name].until
    for fleet, failures in of_fleets.items():
        told = min(failures, key=lambda failure: _GRAVEST.index(failure.cause))
        fleets[fleet] = setbacks.of_fleet(fleets.get(fleet), told.cause, told.text, at)
    return replace(
        memory,
        launches=FrozenDict(launches),
        awaited=FrozenDict(awaited),
        node_setbacks=FrozenDict(nodes),
        fleet_setbacks=FrozenDict(fleets),
    )


def _fleet(name: str) -> str:
    try:
        return fleet_and_number(name)[0]
    except ValueError:
        return ""
