"""Policies: nodes that are there however empty the queue is, how the queue is served, and caps of accounts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.scaling import DAYS, Account, Backlog, Queue, Schedule, Warm
from tidepool.cluster.spec import ClusterSpec

_NOTHING: Final[FrozenDict[Any, Any]] = FrozenDict()


class Floor(NamedTuple):
    """At least so many nodes of a fleet, and why. ``is_spare``: so many beside those that jobs have or get.

    ``is_for_ever``: the budget sets aside what they cost until the end of the month.
    """

    fleet: str
    nodes: int
    reason: str
    is_spare: bool = False
    is_for_ever: bool = False


@dataclass(frozen=True, slots=True)
class Wants:
    """Requests of one policy, or of all together."""

    #: Whether nodes are made for jobs; if so, all at once, or as few as have it done within ``horizon_s``.
    serves_jobs: bool = False
    horizon_s: int | None = None
    floors: tuple[Floor, ...] = ()
    #: By account, how many nodes its jobs may have.
    caps: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    #: By fleet, how many machines are kept suspended.
    suspended: Mapping[str, int] = field(default_factory=lambda: _NOTHING)


def least(spec: ClusterSpec) -> Wants:
    """So many of each fleet, always."""
    return Wants(
        floors=tuple(
            Floor(fleet.name, fleet.min_nodes, f"min_nodes is {fleet.min_nodes}", is_for_ever=True)
            for fleet in spec.fleets
            if fleet.min_nodes
        )
    )


def queue(_policy: Queue, _at: datetime) -> Wants:
    """Jobs are served."""
    return Wants(serves_jobs=True)


def backlog(policy: Backlog, _at: datetime) -> Wants:
    """Jobs are served, one after another on a node where their time limits let them be done in time."""
    return Wants(serves_jobs=True, horizon_s=policy.minutes * 60)


def warm(policy: Warm, _at: datetime) -> Wants:
    """So many beside those that jobs have; and so many machines that only have to go on."""
    floor = Floor(policy.fleet, policy.nodes, f"{policy.nodes} are kept warm", is_spare=True)
    return Wants(
        floors=(floor,) if policy.nodes else (),
        suspended=FrozenDict({policy.fleet: policy.suspended} if policy.suspended else {}),
    )


def schedule(policy: Schedule, at: datetime) -> Wants:
    """So many, within its hours."""
    if not holds_at(policy, at):
        return Wants()
    reason = f"{policy.nodes} are scheduled from {policy.begin} to {policy.end} {policy.timezone}"
    return Wants(floors=(Floor(policy.fleet, policy.nodes, reason),))


def holds_at(policy: Schedule, at: datetime) -> bool:
    """Return whether ``at`` is within the hours, by the clock of their time zone.

    Hours that end on the next day belong to the day on which they begin.
    """
    local = at.astimezone(ZoneInfo(policy.timezone))
    begin, end = time.fromisoformat(policy.begin), time.fromisoformat(policy.end)
    today, now = local.date(), local.time().replace(tzinfo=None)
    if begin < end:
        return DAYS[today.weekday()] in policy.days and begin <= now < end
    yesterday = today - timedelta(days=1)
    began_today = DAYS[today.weekday()] in policy.days and now >= begin
    began_yesterday = DAYS[yesterday.weekday()] in policy.days and now < end
    return began_today or began_yesterday


def account(policy: Account, _at: datetime) -> Wants:
    """No more than so many."""
    return Wants(caps=FrozenDict({policy.account: policy.max_nodes}))


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

    Of several caps of an account the lowest holds; of several floors of a fleet, the highest, which whoever
    reads them finds out. Floors are no more than `max_nodes`.
    """
    asked = [least(spec), *(POLICIES[type(policy)](policy, at) for policy in spec.scaling.policies)]
    most = {fleet.name: fleet.max_nodes for fleet in spec.fleets}
    caps: dict[str, int] = {}
    for each in asked:
        for name, nodes in each.caps.items():
            caps[name] = min(nodes, caps.get(name, nodes))
    suspended: dict[str, int] = {}
    for each in asked:
        for name, machines in each.suspended.items():
            if name in most:
                suspended[name] = max(min(machines, most[name]), suspended.get(name, 0))
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
        FrozenDict(suspended),
    )
