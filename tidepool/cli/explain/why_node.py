"""The explanation of a node: its phase and how it came to it, in words, from the journal. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from tidepool.cli.explain.record import Health, Record, fleet_of, health
from tidepool.cli.explain.watch_view import jobs_text
from tidepool.cli.formats import between, clock
from tidepool.cli.jobs import ids_text, jobs_by_node
from tidepool.clients.slurm import Node
from tidepool.cluster.spec import Fleet
from tidepool.scaling.decision import Launch, Phase
from tidepool.scaling.memory import Memory
from tidepool.scaling.ports import Intent


@dataclass(frozen=True, slots=True)
class Since:
    """Something that is remembered of a node, since when, and until when it may last (None: no limit)."""

    what: str
    at: datetime
    deadline: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeWhy:
    """All that is known of a node. ``slurm``, ``machine`` and ``recorded`` are the three that make its phase.

    They are empty where they were not seen; ``is_wished`` says whether it should be there.
    """

    node: str
    fleet: str
    now: datetime
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
    health: Health
    is_afresh: bool
    seen: datetime | None


def why_node(record: Record, node: str, intents: Sequence[Intent]) -> NodeWhy:
    """Explain ``node``, about which ``intents`` are, the newest first."""
    decision, now = record.decision, record.now
    memory = decision.memory if decision else Memory()
    view = decision.nodes.get(node) if decision else None
    fleet = fleet_of(node)
    made = next((each.action for each in intents if isinstance(each.action, Launch)), None)
    return NodeWhy(
        node=node,
        fleet=fleet,
        now=now,
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
        made_for=made.jobs if made and view and view.phase is not Phase.ABSENT else (),
        since=tuple(_since(memory, node)),
        quarantine=backoff_words(memory.node_backoffs.get(node), now),
        place=memory.locations.get(node, ""),
        fleet_setback=fleet_backoff_words(_fleet(record, fleet), memory, now),
        history=events(intents),
        health=health(record),
        is_afresh=record.is_afresh,
        seen=decision.at if decision else None,
    )


def _fleet(record: Record, name: str) -> Fleet | None:
    return next((fleet for fleet in record.spec.fleets if fleet.name == name), None) if record.spec else None


def node_lines(why: NodeWhy) -> Iterator[Line]:
    """It, for a person."""
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
    if why.history:
        yield (Cell("what was done", "bold"),)
        yield from event_lines(why.history, why.now)
    yield source_line(why.health, why.is_afresh, why.seen, why.now)


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
    found: Node | None = next((each for each in record.state.nodes if each.name == node), None)
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
    states = [machine.state for machine in record.state.machines if machine.key.node == node]
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
    return f"has its {' and its '.join(parts) or 'name only'}{cut_off}"
