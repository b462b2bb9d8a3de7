"""The explanations of a node and of a fleet: phases, limits, and how it came to them, in words, from the journal. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidepool.cli.cluster import fleet_of
from tidepool.cli.explain.facts import (
    Event,
    Explanation,
    Fact,
    backoff_words,
    event_lines,
    events,
    fact_lines,
    fleet_backoff_words,
    source,
)
from tidepool.cli.explain.lines import Cell, Line
from tidepool.cli.explain.record import Record
from tidepool.cli.explain.watch_view import jobs_text
from tidepool.cli.jobs import ids_text, jobs_by_node
from tidepool.cli.show import between, clock, hosts, number, span, usd
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.scaling import Account, Schedule
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.decide.policies import holds_at, wants
from tidepool.scaling.decision import NO_NODE, Launch, Phase
from tidepool.scaling.memory import Memory
from tidepool.scaling.ports import Intent


@dataclass(frozen=True, slots=True)
class Since:
    """Something that is remembered of a node, since when, and until when it may last (None: no limit)."""

    what: str
    at: datetime
    deadline: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeWhy(Explanation):
    """The explanation of a node. ``slurm``, ``machine`` and ``recorded`` are the three that make its phase.

    They are empty where they were not seen; ``is_wished`` says whether it should be there.
    """

    node: str
    fleet: str
    phase: Phase
    reason: str
    is_wished: bool
    slurm: str
    machine: str
    recorded: str
    jobs: tuple[int, ...]
    made_for: tuple[int, ...]
    since: tuple[Since, ...]
    quarantine: str
    #: On which of its fleet's infrastructures it is, or is to be made; empty where the fleet has one.
    place: str
    fleet_setback: str
    history: tuple[Event, ...]


def why_node(record: Record, node: str, intents: Sequence[Intent]) -> NodeWhy:
    """Explain ``node``, about which ``intents`` are, the newest first."""
    decision, now, memory = record.decision, record.now, record.memory
    view = decision.nodes.get(node) if decision else None
    fleet = fleet_of(node)
    made = next((each.action for each in intents if isinstance(each.action, Launch)), None)
    return NodeWhy(
        node=node,
        fleet=fleet,
        phase=view.phase if view else Phase.ABSENT if decision else Phase.UNKNOWN,
        reason=view.reason
        if view
        else "only a slot: nothing is there, and nothing is wished"
        if decision
        else "",
        is_wished=decision is not None and node in decision.desired.get(fleet, ()),
        slurm=_slurm(record, node),
        machine=_machine(record, node),
        recorded=_recorded(record, node),
        jobs=tuple(jobs_by_node(record.state.jobs).get(node, ())) if record.state else (),
        made_for=made.jobs if made and view and view.phase not in NO_NODE else (),
        since=tuple(_since(memory, node)),
        quarantine=backoff_words(memory.node_backoffs.get(node), now),
        place=memory.locations.get(node, ""),
        fleet_setback=fleet_backoff_words(record.fleet(fleet), memory, now),
        history=events(intents),
        **source(record),
    )


def node_lines(why: NodeWhy) -> Iterator[Line]:
    """Yield the explanation for a person."""
    yield Cell(f"node {why.node}", "bold"), Cell(f" of fleet {why.fleet}")
    yield (Cell(f"It is {why.phase.value}" + (f": {why.reason}." if why.reason else ".")),)
    yield from fact_lines(
        [
            *(Fact(each.what, _since_words(each, why.now)) for each in why.since),
            Fact("made for", jobs_text(why.made_for) if why.made_for else ""),
            Fact("jobs", ids_text(why.jobs)),
            Fact("quarantine", why.quarantine, "red"),
            Fact("is on", why.place),
            Fact("its fleet", why.fleet_setback, "yellow"),
            Fact("wished", "yes" if why.is_wished else "no"),
            Fact("Slurm", why.slurm),
            Fact("machine", why.machine),
            Fact("Pulumi", why.recorded),
        ]
    )
    yield from event_lines("what was done", why.history, why.now)
    yield why.source_line()


def _since(memory: Memory, node: str) -> Iterator[Since]:
    if (launch := memory.launches.get(node)) is not None:
        yield Since("being made", launch.since, launch.deadline)
    if (drain := memory.drains.get(node)) is not None:
        yield Since("drained by the scaler", drain.since)
    if (idle := memory.idle_since.get(node)) is not None:
        yield Since("idle", idle)
    if (ill := memory.ill_since.get(node)) is not None:
        yield Since("ill", ill)


def _since_words(each: Since, now: datetime) -> str:
    words = f"since {clock(each.at, now)}, for {between(each.at, now)}"
    if each.deadline is None:
        return words
    if each.deadline < now:
        return f"{words}; {between(each.deadline, now)} past its time"
    return f"{words}; replaced unless it is up within {between(now, each.deadline)}"


def _slurm(record: Record, node: str) -> str:
    if record.state is None:
        return ""
    found = next((each for each in record.state.nodes if each.name == node), None)
    if found is None:
        return "does not know it"
    if found.reason is None:
        return str(found.state)
    by = f", by {found.reason.user}" if found.reason.user else ""
    return f"{found.state}: {found.reason.text}{by}"


def _machine(record: Record, node: str) -> str:
    if record.state is None:
        return ""
    if record.state.machines is None:
        return "could not be asked for"
    states = [
        f"{machine.state}, and being deleted" if machine.is_ending else machine.state
        for machine in record.state.machines
        if machine.key.node == node
    ]
    return ", ".join(states) or "none"


def _recorded(record: Record, node: str) -> str:
    if record.state is None:
        return ""
    if record.state.recorded is None:
        return "could not be read"
    found = record.state.recorded.get(node)
    if found is None:
        return "has no record of it"
    parts = [word for word, there in (("machine", found.machine), ("membership", found.membership)) if there]
    cut_off = "; an operation on it was cut off" if found.pending else ""
    if found.is_suspended:
        return f"has its machine, which is suspended{cut_off}"
    return f"has its {' and its '.join(parts) or 'name only'}{cut_off}"


@dataclass(frozen=True, slots=True)
class FleetWhy(Explanation):
    """The explanation of a fleet. ``phases`` are hostlists, ``quarantined`` says by node why it is left alone.

    ``floors`` say which nodes are there however empty the queue is, ``limits`` what is never gone beyond.
    """

    fleet: str
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
    #: Those of the spec that its machines are, in order of preference.
    offerings: tuple[str, ...]
    cost: str
    history: tuple[Event, ...]


def why_fleet(record: Record, spec: ClusterSpec, fleet: Fleet, intents: Sequence[Intent]) -> FleetWhy:
    """Explain ``fleet``, about which ``intents`` are, the newest first."""
    decision, now, memory = record.decision, record.now, record.memory
    wish = decision.desired.get(fleet.name) if decision else None
    phases: dict[Phase, list[str]] = {}
    for node, view in decision.nodes.items() if decision else ():
        if fleet_of(node) == fleet.name and view.phase is not Phase.ABSENT:
            phases.setdefault(view.phase, []).append(node)
    return FleetWhy(
        fleet=fleet.name,
        wish=str(wish or ""),
        wish_nodes=len(wish or ()),
        phases={phase: hosts(phases[phase]) for phase in Phase if phase in phases},
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
        offerings=offerings_of(spec, fleet),
        cost=_cost(fleet, sum(map(len, phases.values()))),
        history=events(intents),
        **source(record),
    )


def fleet_lines(why: FleetWhy) -> Iterator[Line]:
    """Yield the explanation for a person."""
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
            Fact("offerings", ", ".join(why.offerings)),
            Fact("cost", why.cost),
        ]
    )
    yield from event_lines("what was done", why.history, why.now)
    yield why.source_line()


def _floors(spec: ClusterSpec, fleet: Fleet, now: datetime) -> Iterator[str]:
    """Yield the floors that hold now, and the schedules of other hours."""
    yield from (floor.reason for floor in wants(spec, now).floors if floor.fleet == fleet.name)
    for policy in spec.scaling.policies:
        if isinstance(policy, Schedule) and policy.fleet == fleet.name and not holds_at(policy, now):
            hours = f"from {policy.begin} to {policy.end} {policy.timezone}"
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
    """Return hostlists in the fleet's order, and then those of infrastructures that it does not name any more."""
    found: dict[str, list[str]] = {entry.key: [] for entry in fleet.infrastructures}
    for node, place in memory.locations.items():
        if fleet_of(node) == fleet.name:
            found.setdefault(place, []).append(node)
    return {place: hosts(nodes) for place, nodes in found.items() if nodes}


def offerings_of(spec: ClusterSpec, fleet: Fleet) -> tuple[str, ...]:
    """Return the names of the spec's offerings that machines of a fleet are, each once, in order of preference."""
    known = {offering.name for offering in spec.offerings}
    named = (entry.offering for entry in fleet.infrastructures)
    return tuple(dict.fromkeys(name for name in named if name is not None and name in known))


def _cost(fleet: Fleet, nodes: int) -> str:
    prices = {entry.key: entry.price_usd_per_hour for entry in fleet.infrastructures}
    if len({*prices.values()}) > 1:
        return "; ".join(f"{usd(each)} an hour on {key}" for key, each in prices.items())
    (each,) = {*prices.values()}
    if not each:
        return "its price is not set (price_usd_per_hour), so none is counted"
    return f"{usd(each)} an hour each, {usd(each * nodes)} for the {number(nodes, 'node')} there"
