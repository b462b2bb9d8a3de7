"""The jobs that wait: those that nodes would help, by what they ask for, and why nodes do not help the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from operator import itemgetter
from typing import Final, NamedTuple

from tidepool.scaling.decision import Waiting
from tidepool.scaling.demand.ask import Ask, ask_of
from tidepool.scaling.demand.reasons import Ruling, ruling
from tidepool.scaling.world import World
from tidepool.slurm import Job, JobState
from tidepool.slurm.quantities import array_size

#: What is to begin so soon has its nodes made now: a job that was requeued may begin some ten seconds later.
SOON: Final = timedelta(seconds=15)


class Wanted(NamedTuple):
    """A record of the queue for which nodes would help, or the components of a heterogeneous job.

    Its first fields are its place in the queue. ``copies`` counts the tasks of an array that may run now.
    ``blames_nodes``: Slurm looked for nodes for it, and found none.
    """

    tier: int
    priority: int
    job_id: int
    jobs: tuple[int, ...]
    copies: int
    asks: tuple[Ask, ...]
    blames_nodes: bool


@dataclass(slots=True)
class Pending:
    """All that waits: ``wanted`` in the queue's order, and why it waits for what else there is."""

    wanted: list[Wanted] = field(default_factory=list)
    waiting: dict[int, Waiting] = field(default_factory=dict)


#: What makes two jobs ask for the same, but for mappings, which cannot be compared as quickly.
_SAME: Final = itemgetter(
    *(
        Job._fields.index(name)
        for name in (
            "reason",
            "partitions",
            "nodes",
            "cpus",
            "min_cpus_per_node",
            "tasks",
            "cpus_per_task",
            "min_memory_mib",
            "tmp_disk_mib",
            "features",
            "dependency",
            "reservation",
            "oversubscribe",
            "contiguous",
            "time_limit_s",
            "required_nodes",
        )
    )
)
_NEVER_BEFORE: Final = "it is not to begin before"


class _Reading(NamedTuple):
    """What a job asks for, whether nodes would help it, and why they would not."""

    ask: Ask | None
    rules: Ruling
    tier: int


def pending(world: World, capped: Collection[str] = ()) -> Pending:
    """Read the queue. ``capped`` are the accounts for which it matters whose job it is."""
    found = Pending()
    tiers = {partition.name: partition.priority_tier for partition in world.partitions}
    running = _running_tasks(world.jobs)
    soon = world.at + SOON
    readings: dict[object, _Reading] = {}
    het: dict[int, list[tuple[Job, _Reading, str]]] = {}
    for job in world.jobs:
        if job.state is not JobState.PENDING:
            continue
        whose = job.user if job.oversubscribe == "USER" else ""
        account = job.account if capped and job.account in capped else ""
        key = (
            _SAME(job),
            id(job.tres),
            id(job.tres_per_job),
            id(job.tres_per_node),
            id(job.tres_per_socket),
            id(job.tres_per_task),
            whose,
            account,
        )
        reading = readings.get(key)
        if reading is None:
            reading = readings[key] = _read(job, tiers, capped)
        copies, held = _startable(job, reading.rules, soon, running)
        if job.het_job_id is not None:
            het.setdefault(job.het_job_id, []).append((job, reading, held))
        elif held or reading.ask is None:
            found.waiting[job.job_id] = Waiting(job.job_id, "held", held)
        else:
            found.wanted.append(
                Wanted(
                    -reading.tier,
                    -job.priority,
                    job.job_id,
                    (job.job_id,),
                    copies,
                    (reading.ask,),
                    reading.rules.blames_nodes,
                )
            )
    for components in het.values():
        _add_components(sorted(components, key=lambda each: each[0].job_id), found)
    found.wanted.sort(key=itemgetter(0, 1, 2))
    return found


def _read(job: Job, tiers: Mapping[str, int], capped: Collection[str]) -> _Reading:
    rules = ruling(job.reason)
    if rules.helps and "(unfulfilled)" in job.dependency:
        rules = ruling("Dependency")
    tier = max((tiers.get(name, 1) for name in job.partitions), default=1)
    try:
        return _Reading(ask_of(job, account=job.account in capped), rules, tier)
    except ValueError as fault:
        return _Reading(None, Ruling(False, f"cannot tell what it needs: {fault}"), tier)


def _startable(job: Job, rules: Ruling, soon: datetime, running: Mapping[int, int]) -> tuple[int, str]:
    """How many of its tasks may start, and, where none may, why."""
    copies = 1
    if job.array_tasks:
        size, limit = _array(job.array_tasks)
        copies = min(size, limit - running.get(job.array_job_id, 0)) if limit else size
        if copies <= 0:
            return 0, ruling("JobArrayTaskLimit").words
    begin = job.begin_time
    if begin is not None and begin > soon:
        return 0, f"{_NEVER_BEFORE} {begin:%Y-%m-%d %H:%M:%S} UTC"
    if rules.helps:
        return (copies, "") if job.priority else (0, ruling("JobHeldAdmin").words)
    # Slurm says so until it looks again; what it would then see is seen here already.
    over = (begin is not None and job.reason == "BeginTime") or job.reason == "JobArrayTaskLimit"
    return (copies, "") if over and job.priority else (0, rules.words)


def _add_components(components: list[tuple[Job, _Reading, str]], found: Pending) -> None:
    """One heterogeneous job: all of its components, or none."""
    jobs = tuple(job.job_id for job, _, _ in components)
    asks = tuple(reading.ask for _, reading, _ in components if reading.ask is not None)
    held = next((held for _, _, held in components if held), "")
    if held or len(asks) < len(jobs):
        for job in jobs:
            found.waiting[job] = Waiting(job, "held", held)
        return
    first, reading, _ = components[0]
    blames = any(each.rules.blames_nodes for _, each, _ in components)
    found.wanted.append(Wanted(-reading.tier, -first.priority, jobs[0], jobs, 1, asks, blames))


@lru_cache(maxsize=65_536)
def _array(tasks: str) -> tuple[int, int]:
    """How many tasks, and how many of them may run at once; 0 where that is open."""
    limit = tasks.partition("%")[2]
    try:
        size = array_size(tasks)
    except ValueError:
        # A release that writes them otherwise: there is one task at least.
        size = 1
    return size, int(limit) if limit.isdecimal() else 0


def _running_tasks(jobs: Collection[Job]) -> Mapping[int, int]:
    """By array, how many of its tasks run."""
    running: dict[int, int] = {}
    for job in jobs:
        if job.array_tasks and job.state is not JobState.PENDING and not job.state.has_ended:
            running[job.array_job_id] = running.get(job.array_job_id, 0) + 1
    return running
