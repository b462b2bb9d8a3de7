"""Policies: what nodes are there for. A small file each; `wants` asks those that the spec names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.scaling import Account, Backlog, Queue, Schedule, Warm
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.decide.policies.account import account
from tidepool.scaling.decide.policies.backlog import backlog
from tidepool.scaling.decide.policies.least import least
from tidepool.scaling.decide.policies.queue import queue
from tidepool.scaling.decide.policies.schedule import schedule
from tidepool.scaling.decide.policies.wants import Floor as Floor
from tidepool.scaling.decide.policies.wants import Wants as Wants
from tidepool.scaling.decide.policies.warm import warm

#: By the model of the spec; a test holds that each has one.
POLICIES: Final[Mapping[type[Any], Callable[[Any, datetime], Wants]]] = {
    Queue: queue,
    Backlog: backlog,
    Warm: warm,
    Schedule: schedule,
    Account: account,
}


def wants(spec: ClusterSpec, at: datetime) -> Wants:
    """Return what all policies of ``spec`` ask for together at the time ``at``.

    Of several caps of an account the lowest holds; of several floors of a fleet, the highest (`floors_of` of who
    reads them). Floors are no more than `max_nodes`.
    """
    asked = [least(spec), *(POLICIES[type(policy)](policy, at) for policy in spec.scaling.policies)]
    most = {fleet.name: fleet.max_nodes for fleet in spec.fleets}
    caps: dict[str, int] = {}
    for each in asked:
        for name, nodes in each.caps.items():
            caps[name] = min(nodes, caps.get(name, nodes))
    return Wants(
        any(each.serves_jobs for each in asked),
        next((each.horizon_s for each in asked if each.horizon_s is not None), None),
        tuple(
            floor._replace(nodes=min(floor.nodes, most[floor.fleet]))
            for each in asked
            for floor in each.floors
            if floor.fleet in most
        ),
        FrozenDict(caps),
    )
