"""On which fleets a job would fit, and what keeps each of them from being used for it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tidepool.cli.explain.facts import (
    fleet_backoff_words,
    is_closed,
)
from tidepool.cli.explain.record import Record, by_fleet
from tidepool.cli.formats import number, span
from tidepool.clients.slurm import Job
from tidepool.cluster.spec import ClusterSpec, Fleet
from tidepool.scaling.decide.demand.constraint import CannotTell, parse
from tidepool.scaling.decide.demand.fit import Ask, Offer, ask_of, least, most_tasks, offers
from tidepool.scaling.decision import Phase


@dataclass(frozen=True, slots=True)
class Fit:
    """A fleet as one job sees it: whether its nodes fit, and why the fleet is not used for it (empty: nothing against it)."""

    fleet: str
    fits: bool
    why: str


def fits(record: Record, job: Job) -> Iterator[Fit]:
    """Every fleet of the spec, in its order; nothing where the spec is not known."""
    if record.spec is None:
        return
    ask, offered = ask_of(job), offers(record.spec)
    for fleet in record.spec.fleets:
        why = _unfit(record.spec, fleet, ask, offered[fleet.name])
        yield Fit(fleet.name, not why, why or _kept_from(record, fleet, ask))


def _unfit(spec: ClusterSpec, fleet: Fleet, ask: Ask, offer: Offer) -> str:
    """Why no node of the fleet would run a task of it; empty where one would."""
    asked = [each for each in spec.partitions if each.name in ask.partitions]
    if not any(each.fleets is None or fleet.name in each.fleets for each in asked):
        return f"it is not in the partition {' or '.join(ask.partitions)}"
    try:
        constraint = parse(ask.features)
    except CannotTell as error:
        return f"the job {error}"
    nodes = max(ask.nodes, constraint.least_nodes)
    taken = {
        name
        for way in constraint.choices(nodes, {fleet.name: offer.features})
        for _, names in way
        for name in names
    }
    if fleet.name not in taken:
        return f"its features {', '.join(sorted(offer.features))} are not what {ask.features} asks for"
    if most_tasks(ask, offer, nodes) == 0:
        return _too_small(ask, offer)
    return ""


def _too_small(ask: Ask, offer: Offer) -> str:
    cpus, memory_mib = least(ask, offer)
    if cpus > offer.cpus:
        return f"a node has {number(offer.cpus, 'CPU')}, and {cpus:,} are asked for"
    if memory_mib > offer.memory_mib:
        return f"a node has {offer.memory_mib:,} MiB, and {memory_mib:,} are asked for"
    has = ", ".join(
        f"{count} {':'.join(filter(None, kind))}"
        for kind, count in zip(offer.gres_kinds, offer.gres, strict=True)
    )
    return f"a node has {has or 'no gres'}, and other gres is asked for"


def _kept_from(record: Record, fleet: Fleet, ask: Ask) -> str:
    """Say why a fleet whose nodes would fit is not used for it; empty where nothing is against it."""
    decision = record.decision
    if decision is None:
        return ""
    if is_closed(fleet, decision.memory, record.now):
        return fleet_backoff_words(fleet, decision.memory, record.now)
    there = [
        decision.nodes[node].phase
        for node in by_fleet(decision.nodes).get(fleet.name, ())
        if decision.nodes[node].phase is not Phase.ABSENT
    ]
    most = min(fleet.max_nodes, sum(fleet.most_nodes(entry) for entry in fleet.infrastructures))
    busy = sum(phase is Phase.BUSY for phase in there)
    if len(there) >= most:
        return f"all of its {number(most, 'node')} are there, {busy:,} of them with jobs"
    if ask.nodes > most:
        return f"it may have {number(most, 'node')}, and {ask.nodes:,} are asked for"
    ill = [node for node, back in decision.memory.node_backoffs.items() if back.until > record.now]
    left = most - len(there) - len(by_fleet(dict.fromkeys(ill)).get(fleet.name, ()))
    return "" if left > 0 else "all nodes that it could still have are in quarantine"


#: What Slurm takes a job without a time limit to be, where its partition has none either.
_ENDLESS_S: Final = 365 * 86_400


def asks(job: Job) -> str:
    """``2 nodes, 4 CPUs, 1,000 MiB on each node, with himem, in main, for at most 2 min``."""
    return ", ".join(_asks(job))


def _asks(job: Job) -> Iterator[str]:
    if job.size > 1:
        yield f"{number(job.size, 'task')}, of which each asks for {number(job.nodes, 'node')}"
    else:
        yield number(job.nodes, "node")
    yield number(job.cpus, "CPU")
    if memory_mib := job.memory_per_node_mib:
        yield f"{memory_mib:,} MiB on each node"
    for words, counts in (
        ("", job.tres_per_job),
        (" on each node", job.tres_per_node),
        (" for each task", job.tres_per_task),
        (" on each socket", job.tres_per_socket),
    ):
        for name, count in counts.items():
            if name.startswith("gres/"):
                yield f"{count} {name.removeprefix('gres/')}{words}"
    if job.features:
        yield f"with {job.features}"
    if job.oversubscribe == "NO":
        yield "nodes to itself"
    if job.contiguous:
        yield "in a row"
    if job.licenses:
        yield "licences " + " ".join(f"{name}:{count}" for name, count in job.licenses.items())
    if job.reservation:
        yield f"in the reservation {job.reservation}"
    if job.required_nodes:
        yield f"on {job.required_nodes}"
    if job.dependency:
        yield f"after {job.dependency}"
    yield f"in {', '.join(job.partitions) or 'no partition'}"
    if job.time_limit_s is not None and job.time_limit_s < _ENDLESS_S:
        yield f"for at most {span(job.time_limit_s)}"
