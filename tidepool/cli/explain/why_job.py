"""Why a job waits, or how it came to run; and on which fleets it would fit. In words, from the journal. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tidepool.cli.cluster import fleet_of
from tidepool.cli.explain.budgets import BudgetView, budgets_over
from tidepool.cli.explain.facts import (
    Event,
    Explanation,
    Fact,
    event_lines,
    events,
    fact_lines,
    fleet_backoff_words,
    is_closed,
    source,
)
from tidepool.cli.explain.killed import Killed, killed, killed_facts
from tidepool.cli.explain.lines import Cell, Line
from tidepool.cli.explain.record import Record
from tidepool.cli.show import ago, between, clock, hosts, number, span
from tidepool.clients.slurm import Job, JobState
from tidepool.clients.slurm.limits import Limited, holding
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.decide.demand.constraint import CannotTell, parse
from tidepool.scaling.decide.demand.fit import Ask, Offer, ask_of, least, most_tasks, offers
from tidepool.scaling.decision import NO_NODE, Launch, Phase, Standing
from tidepool.scaling.ports import Intent, JobRecord

#: Slurm's times are whole ones: a job may have begun at any moment of it.
_A_SECOND: Final = timedelta(seconds=1)
_STANDINGS: Final[dict[Standing, str]] = {
    "never": "it can never run",
    "held": "Slurm would not start it on any node now",
    "limit": "a limit is in its way",
    "setback": "it waits for a fleet that backs off",
    "coming": "nodes are coming for it",
    "room": "there is room for it, and Slurm starts it",
}


@dataclass(frozen=True, slots=True)
class Coming:
    """Nodes that the job will run on: in which phase, being made since when, and until when they have to be up."""

    nodes: str
    phase: Phase
    since: datetime | None = None
    deadline: datetime | None = None


@dataclass(frozen=True, slots=True)
class Times:
    """The way of a job that runs. What is not known is None, and so is what was not needed."""

    submitted: datetime | None = None
    #: When nodes were launched for it, and when they were up.
    launched: datetime | None = None
    up: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobWhy(Explanation):
    """The explanation of a job. ``state`` is Slurm's; empty where Slurm does not list it any more."""

    job_id: int
    title: str
    state: str
    standing: Standing | None
    reason: str
    slurm_reason: str
    #: The limits that Slurm's reason tells of, in words.
    limits: tuple[str, ...]
    #: Of its account and of those above it, while it waits.
    budgets: tuple[BudgetView, ...]
    #: How it was killed for memory; None where it was not.
    killed: Killed | None
    asks: str
    nodes: str
    times: Times
    fleets: tuple[Fit, ...]
    coming: tuple[Coming, ...]
    history: tuple[Event, ...]


def why_job(
    record: Record,
    job: Job | None,
    seen: JobRecord | None,
    intents: Sequence[Intent],
    fits: Iterable[Fit],
    limits: Iterable[str] = (),
    peak_mib: int | None = None,
) -> JobWhy:
    """Explain the job that Slurm lists as ``job`` and the journal has as ``seen``; one of them is there.

    ``intents`` are those of its time, for all jobs; ``limits`` those that hold it (`limit_words`); ``peak_mib`` is the most
    memory that it was seen with.
    """
    job_id = job.job_id if job else seen.job_id if seen else 0
    ids = {job_id, job.array_job_id if job else seen.request.get("array_job_id", job_id) if seen else 0}
    ours = [each for each in intents if isinstance(each.action, Launch) and ids & {*each.action.jobs}]
    decision = record.decision
    waiting = decision.waiting.get(job_id) if decision else None
    runs = job is not None and job.state is not JobState.PENDING
    return JobWhy(
        job_id=job_id,
        title=_title(job_id, job, seen),
        state=_state(job, seen),
        standing=waiting.standing if waiting and not runs else None,
        reason=waiting.reason if waiting and not runs else "",
        slurm_reason=job.reason if job and not runs else "",
        limits=tuple(limits),
        budgets=tuple(budgets_over(record.spec, decision, job.account)) if job and not runs else (),
        killed=killed(job, peak_mib, record.spec),
        asks=asks(job) if job else "",
        nodes=job.nodelist if job else "",
        times=_times(job, seen, ours),
        fleets=() if runs else tuple(fits),
        coming=tuple(_coming(record, waiting.nodes if waiting else ())) if not runs else (),
        history=events(ours),
        **source(record),
    )


def job_lines(why: JobWhy) -> Iterator[Line]:
    """Yield the explanation for a person."""
    yield (Cell(why.title, "bold"),)
    yield (Cell(_summary(why)),)
    yield from fact_lines(
        [
            Fact("reason", why.reason, "red" if why.standing == "never" else ""),
            Fact("asks for", why.asks),
            Fact("Slurm says", why.slurm_reason),
            *(Fact("limit", text) for text in why.limits),
            *(
                Fact("budget", f"{each.account}, {each.describe(why.now)}", each.style)
                for each in why.budgets
            ),
            *killed_facts(why.killed),
            *_way(why),
        ]
    )
    if why.coming:
        yield (Cell("its nodes", "bold"),)
        for each in why.coming:
            yield Cell(f"  {each.nodes}  "), Cell(_coming_words(each, why), "dim")
    if why.fleets:
        yield (Cell("fleets", "bold"),)
        width = max(len(fit.fleet) for fit in why.fleets)
        for fit in why.fleets:
            word = Cell("fits", "green") if fit.fits else Cell("does not fit", "red")
            yield Cell(f"  {fit.fleet:<{width}}  "), word, Cell(f": {fit.why}" if fit.why else "")
    yield from event_lines("what was done for it", why.history, why.now)
    yield why.source_line()


def limit_words(job: Job, there: Sequence[Limited]) -> Iterator[str]:
    """Tell of each limit that may hold a job, whose it is and how much of it is used."""
    for who, (name, resource), use in holding(job.reason, job.account, job.user, job.qos, there):
        value = f"{resource}={use.value}" if resource else use.value
        used = f", {use.used} in use" if use.used else ""
        yield f"{name} {value} of {who}{used}"


def _title(job_id: int, job: Job | None, seen: JobRecord | None) -> str:
    name = job.name if job else str(seen.request.get("name", "")) if seen else ""
    user = job.user if job else str(seen.request.get("user", "")) if seen else ""
    tasks = f", {number(job.size, 'task')} of an array" if job and job.array_tasks and job.size > 1 else ""
    return f"job {job_id}" + (f" ({name})" if name else "") + (f" of {user}" if user else "") + tasks


def _state(job: Job | None, seen: JobRecord | None) -> str:
    if job:
        return str(job.state)
    return "ended" if seen and seen.ended else ""


def _summary(why: JobWhy) -> str:
    times = why.times
    if why.standing:
        since = f", for {between(times.submitted, why.now)}" if times.submitted else ""
        return f"It waits{since}: {_STANDINGS[why.standing]}."
    if why.state == JobState.PENDING:
        return "It waits, and nobody has decided about it yet."
    if times.ended:
        return f"It ended {ago(times.ended, why.now)}" + (f": {why.state}." if why.state != "ended" else ".")
    if why.state and times.started:
        return f"It is {why.state} on {why.nodes}, since {ago(times.started, why.now)}."
    if why.state:
        return f"It is {why.state} on {why.nodes or 'no node'}."
    return "Slurm does not list it any more."


def _way(why: JobWhy) -> Iterator[Fact]:
    """Yield the moments of its way, each with the time since the one before."""
    times = why.times
    steps = (
        ("submitted", times.submitted),
        ("nodes launched", times.launched),
        ("nodes up", times.up),
        ("began", times.started),
        ("ended", times.ended),
    )
    known = [(name, at) for name, at in steps if at is not None]
    for place, (name, at) in enumerate(known):
        later = f", {between(known[place - 1][1], at)} later" if place else ""
        yield Fact(name, f"{clock(at, why.now)}{later}")
    if times.submitted and times.started:
        launched = "" if times.launched else "; no node had to be made for it"
        yield Fact("waited", between(times.submitted, times.started) + launched)


def _times(job: Job | None, seen: JobRecord | None, launches: Sequence[Intent]) -> Times:
    waits = job is not None and job.state is JobState.PENDING
    started = (job.start_time if job and not waits else None) or (seen.started if seen else None)
    # Its last launches before it began: an earlier life of the job had others.
    before = [each for each in launches if started is None or each.at < started + _A_SECOND]
    made = [each.ended for each in before if each.result == "done" and each.ended]
    return Times(
        submitted=job.submit_time if job else seen.submitted if seen else None,
        launched=min((each.at for each in before), default=None),
        up=max(made, default=None),
        started=started,
        ended=job.end_time if job and job.state.has_ended else seen.ended if seen else None,
    )


def _coming(record: Record, nodes: Sequence[str]) -> Iterator[Coming]:
    decision = record.decision
    if decision is None:
        return
    together: dict[tuple[Phase, datetime | None, datetime | None], list[str]] = {}
    for node in nodes:
        view, launch = decision.nodes.get(node), decision.memory.launches.get(node)
        phase = view.phase if view else Phase.LAUNCHING
        key = (phase, launch.since if launch else None, launch.deadline if launch else None)
        together.setdefault(key, []).append(node)
    for (phase, since, deadline), names in together.items():
        yield Coming(hosts(names), phase, since, deadline)


def _coming_words(each: Coming, why: JobWhy) -> str:
    now = why.now
    if each.since is not None and why.is_afresh and each.since == why.seen:
        return "would be made now"
    words = each.phase.value
    if each.since:
        words += f" for {between(each.since, now)}"
    if each.deadline and each.deadline >= now:
        words += f", up within {between(now, each.deadline)} or replaced"
    elif each.deadline:
        words += f", {between(each.deadline, now)} past its time"
    return words


def find_job(jobs: Iterable[Job], wanted: str) -> tuple[Job, ...]:
    """The records of the job, or of the array's task ``41_3``, that ``wanted`` names; the one that waits first."""
    array, underscore, task = wanted.partition("_")
    number_of = int(array)
    found = []
    for job in jobs:
        if not underscore:
            if number_of in (job.job_id, job.array_job_id):
                found.append(job)
        elif job.array_job_id == number_of and _has_task(job, int(task)):
            found.append(job)
    return tuple(sorted(found, key=lambda job: (job.state is not JobState.PENDING, job.job_id)))


def _has_task(job: Job, task: int) -> bool:
    """Return whether a record stands for a task of its array: ``0-9:2,12%4``."""
    for piece in job.array_tasks.partition("%")[0].split(","):
        bounds, _, step = piece.partition(":")
        first, _, last = bounds.partition("-")
        if first.isdigit() and task in range(int(first), int(last or first) + 1, int(step or 1)):
            return True
    return False


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
    """Tell why no node of the fleet would run a task of it; empty where one would."""
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
    nodes = [view.phase for node, view in decision.nodes.items() if fleet_of(node) == fleet.name]
    there = [phase for phase in nodes if phase not in NO_NODE]
    most = min(fleet.max_nodes, sum(fleet.most_nodes(entry) for entry in fleet.infrastructures))
    busy = sum(phase is Phase.BUSY for phase in there)
    if len(there) >= most:
        return f"all of its {number(most, 'node')} are there, {busy:,} of them with jobs"
    if ask.nodes > most:
        return f"it may have {number(most, 'node')}, and {ask.nodes:,} are asked for"
    ill = {node for node, back in decision.memory.node_backoffs.items() if back.until > record.now}
    left = most - len(there) - sum(fleet_of(node) == fleet.name for node in ill)
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
