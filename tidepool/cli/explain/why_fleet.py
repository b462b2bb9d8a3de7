"""The explanation of a fleet: its nodes, its limits and why, in words, from the journal. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidepool.cli.explain.facts import (
    Event,
    Fact,
    backoff_words,
    event_lines,
    events,
    fact_lines,
    fleet_backoff_words,
    source_line,
)
from tidepool.cli.explain.lines import Cell, Line
from tidepool.cli.explain.record import Health, Record, by_fleet, fleet_of, health
from tidepool.cli.explain.watch_view import price
from tidepool.cli.formats import hosts, number, span, usd
from tidepool.cluster.scaling import Account, Schedule
from tidepool.cluster.spec import ClusterSpec, Fleet
from tidepool.scaling.decide.policies import wants
from tidepool.scaling.decision import Phase
from tidepool.scaling.memory import Memory
from tidepool.scaling.ports import Intent


@dataclass(frozen=True, slots=True)
class FleetWhy:
    """All that is known of a fleet. ``phases`` are hostlists, ``quarantined`` says by node why it is left alone.

    ``floors`` say which nodes are there however empty the queue is, ``limits`` what is never gone beyond.
    """

    fleet: str
    now: datetime
    wish: str
    wish_nodes: int
    phases: Mapping[Phase, str]
    #: By the keys of its infrastructures, where it has several: hostlists.
    places: Mapping[str, str]
    setback: str
    quarantined: Mapping[str, str]
    floors: tuple[str, ...]
    limits: tuple[str, ...]
    idle: str
    cost: str
    history: tuple[Event, ...]
    health: Health
    is_afresh: bool
    seen: datetime | None


def why_fleet(record: Record, spec: ClusterSpec, fleet: Fleet, intents: Sequence[Intent]) -> FleetWhy:
    """Explain ``fleet``, about which ``intents`` are, the newest first."""
    decision, now = record.decision, record.now
    memory = decision.memory if decision else Memory()
    wish = decision.desired.get(fleet.name) if decision else None
    phases: dict[Phase, list[str]] = {}
    for node in by_fleet(decision.nodes).get(fleet.name, ()) if decision else ():
        phases.setdefault(decision.nodes[node].phase, []).append(node) if decision else None
    nodes = sum(len(names) for phase, names in phases.items() if phase is not Phase.ABSENT)
    return FleetWhy(
        fleet=fleet.name,
        now=now,
        wish=str(wish or ""),
        wish_nodes=len(wish or ()),
        phases={
            phase: hosts(phases[phase]) for phase in Phase if phase in phases and phase is not Phase.ABSENT
        },
        places=_by_location(fleet, memory),
        setback=fleet_backoff_words(fleet, memory, now),
        quarantined={
            node: backoff_words(back, now)
            for node, back in sorted(memory.node_backoffs.items())
            if fleet_of(node) == fleet.name and back.until > now
        },
        floors=tuple(_floors(spec, fleet, now)),
        limits=tuple(_limits(spec, fleet)),
        idle=f"a node goes after {span(fleet.idle_timeout_s)} without a job",
        cost=_cost(fleet, nodes),
        history=events(intents),
        health=health(record),
        is_afresh=record.is_afresh,
        seen=decision.at if decision else None,
    )


def fleet_lines(why: FleetWhy) -> Iterator[Line]:
    """It, for a person."""
    yield (Cell(f"fleet {why.fleet}", "bold"),)
    wish = f"{number(why.wish_nodes, 'node')}: {why.wish}" if why.wish else "no node"
    yield (Cell(f"The scaler wants {wish}.") if why.seen else Cell("Nobody has decided about it yet."),)
    yield from fact_lines(
        [
            *(Fact(phase.value, nodes) for phase, nodes in why.phases.items()),
            *(Fact(f"on {place}", nodes) for place, nodes in why.places.items()),
            Fact("set back", why.setback, "yellow"),
            *(Fact(f"quarantine {node}", words, "red") for node, words in why.quarantined.items()),
            Fact("floors", "; ".join(why.floors) or "none: it may be empty"),
            Fact("limits", "; ".join(why.limits)),
            Fact("idle", why.idle),
            Fact("cost", why.cost),
        ]
    )
    if why.history:
        yield (Cell("what was done", "bold"),)
        yield from event_lines(why.history, why.now)
    yield source_line(why.health, why.is_afresh, why.seen, why.now)


def _floors(spec: ClusterSpec, fleet: Fleet, now: datetime) -> Iterator[str]:
    """Yield the floors that hold now, and the schedules of other hours."""
    holding = [floor.reason for floor in wants(spec, now).floors if floor.fleet == fleet.name]
    yield from holding
    for policy in spec.scaling.policies:
        if isinstance(policy, Schedule) and policy.fleet == fleet.name:
            hours = f"from {policy.begin} to {policy.end} {policy.timezone}"
            if not any(hours in reason for reason in holding):
                yield f"{policy.nodes} will be scheduled {hours} on {', '.join(policy.days)}"


def _limits(spec: ClusterSpec, fleet: Fleet) -> Iterator[str]:
    yield f"max_nodes {fleet.max_nodes:,}"
    for here in fleet.infrastructures:
        if here.max_nodes is not None:
            yield f"{here.max_nodes:,} of them on {here.key}"
    limits = spec.limits
    if limits.max_nodes is not None:
        yield f"all fleets together {number(limits.max_nodes, 'node')}"
    if limits.price_usd_per_hour is not None:
        yield f"all together {usd(limits.price_usd_per_hour)} an hour"
    if limits.budget_usd_per_month is not None:
        yield f"{usd(limits.budget_usd_per_month)} a month"
    for policy in spec.scaling.policies:
        if isinstance(policy, Account):
            yield f"account {policy.account} {number(policy.max_nodes, 'node')}"


def _by_location(fleet: Fleet, memory: Memory) -> dict[str, str]:
    """In the fleet's order, and then those that it does not name any more."""
    found: dict[str, list[str]] = {entry.key: [] for entry in fleet.infrastructures}
    for node, place in memory.locations.items():
        if fleet_of(node) == fleet.name:
            found.setdefault(place, []).append(node)
    return {place: hosts(nodes) for place, nodes in found.items() if nodes}


def _cost(fleet: Fleet, nodes: int) -> str:
    prices = {entry.key: entry.price_usd_per_hour for entry in fleet.infrastructures}
    if len({*prices.values()}) > 1:
        return "; ".join(f"{usd(each)} an hour on {key}" for key, each in prices.items())
    each = price(fleet)
    if not each:
        return "its price is not set (price_usd_per_hour), so none is counted"
    return f"{usd(each)} an hour each, {usd(each * nodes)} for the {number(nodes, 'node')} there"
