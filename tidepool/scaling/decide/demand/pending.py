"""The jobs that wait: those that nodes would help, by what they ask for, and why nodes do not help the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from operator import itemgetter
from types import MappingProxyType
from typing import Final, NamedTuple

from tidepool.clients.slurm import Job, JobState
from tidepool.clients.slurm.quantities import array_size
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.demand.fit import Ask, ask_of
from tidepool.scaling.decision import Waiting


class Ruling(NamedTuple):
    """The meaning of a reason of Slurm's for the scaler. ``words`` tell a researcher why no node is made for the job.

    ``helps``: nodes would help. ``blames_nodes``: Slurm looked for nodes and found none, so that a job for which
    there seems to be room has none in Slurm's eyes.
    """

    helps: bool
    words: str = ""
    blames_nodes: bool = False


_NODES: Final = Ruling(True, blames_nodes=True)
_TURN: Final = Ruling(True)

#: Why no node is made for a job, by the reason's first word, and the first that its text begins with.
_HELD: Final = {
    "ReqNodeNotAvail, Reserved for maintenance": "a reservation for maintenance keeps its nodes; it starts when that is over",
    "JobHeldUser": "its owner holds it; `scontrol release` lets it go",
    "JobHeldAdmin": "an administrator, or Slurm itself, holds it; an administrator can release it",
    "JobHoldMaxRequeue": "it was requeued too often, so Slurm holds it",
    "launch failed requeued held": "it could not be launched, so Slurm holds it",
    "job requeued in held state": "it was requeued to be held; `scontrol release` lets it go",
    "JobLaunchFailure": "it could not be launched, so Slurm holds it",
    "Dependency": "it waits for other jobs (its dependency)",
    "DependencyNeverSatisfied": "the jobs that it depends on did not end as it asks for, so it never starts; cancel it",
    "BeginTime": "it is not to begin yet (its begin time)",
    "JobArrayTaskLimit": "as many tasks of its array run as it allows at once (%)",
    "Licenses": "it waits for licences that other jobs have",
    "Reservation": "it waits for its reservation to begin",
    "ReservationDeleted": "its reservation was deleted, so Slurm holds it",
    "PartitionDown": "its partition is down; an administrator can set it UP",
    "PartitionInactive": "its partition is inactive; an administrator can set it UP",
    "PartitionTimeLimit": "its time limit is longer than its partition allows",
    "AccountNotAllowed": "its account may not use its partition",
    "AccountingPolicy": "a limit of Slurm's accounting holds it back",
    "QOSNotAllowed": "its QOS may not be used in its partition, or by its account",
    "InvalidAccount": "Slurm does not know its account any more",
    "InvalidQOS": "Slurm does not know its QOS any more",
    "QOS": "a limit of its QOS holds it back",
    "Assoc": "a limit of its account or user holds it back",
    "Max": "a limit of its account or user holds it back",
    "BurstBuffer": "its burst buffer is not ready",
    "FrontEndDown": "its front end is down",
    "FedJobLock": "another cluster of the federation has it",
    "DeadLine": "it cannot end before its deadline any more",
    "SystemFailure": "Slurm had a failure with it; its log says more",
}
#: All reasons that are known, in the same way.
RULINGS: Final = MappingProxyType(
    {
        "": _TURN,
        "None": _TURN,
        "Priority": _TURN,
        "Resources": _NODES,
        "Nodes required for job": _NODES,
        "ReqNodeNotAvail": _NODES,
        "NodeDown": _NODES,
        "PartitionConfig": _NODES,
        "PartitionNodeLimit": _NODES,
        "BadConstraints": _NODES,
        "SchedDefer": _TURN,
        "Cleaning": _TURN,
        **{reason: Ruling(False, words) for reason, words in _HELD.items()},
    }
)
_LONGEST_FIRST: Final = sorted(filter(None, RULINGS), key=len, reverse=True)


@lru_cache(maxsize=4096)
def ruling(reason: str) -> Ruling:
    """Return what ``reason``, as squeue shows it, means. One that is not known tells nothing of nodes: none is made."""
    if not reason:
        return RULINGS[""]
    for beginning in _LONGEST_FIRST:
        if reason.startswith(beginning):
            found = RULINGS[beginning]
            break
    else:
        found = Ruling(False, "Slurm gives a reason that the scaler does not know")
    return found if found.helps else found._replace(words=f"{found.words} ({reason})")


#: What is to begin so soon has its nodes made now: a job that was requeued may begin some ten seconds later.
SOON: Final = timedelta(seconds=15)


class Same(NamedTuple):
    """The common part of many jobs: what their components ask for (one, but for heterogeneous jobs), and its place.

    ``tier`` is the highest PriorityTier of their partitions. Where they cannot be read, there are no ``asks``.
    """

    asks: tuple[Ask, ...]
    rules: Ruling
    tier: int


class Wanted(NamedTuple):
    """A record of the queue for which nodes would help, or a heterogeneous job, whose components are ``jobs``.

    ``place`` orders the queue. ``copies`` counts the tasks of an array that may run now.
    """

    place: int
    job_id: int
    copies: int
    same: Same
    jobs: tuple[int, ...] = ()


@dataclass(slots=True)
class Pending:
    """All that waits: ``wanted`` in the queue's order, and why it waits for what else there is."""

    wanted: list[Wanted] = field(default_factory=list)
    waiting: dict[int, Waiting] = field(default_factory=dict)


#: What makes two jobs ask for the same, but for mappings.
_SAME: Final = itemgetter(
    *(
        Job._fields.index(name)
        for name in (
            "nodes",
            "cpus",
            "min_cpus_per_node",
            "tasks",
            "cpus_per_task",
            "min_memory_mib",
            "tmp_disk_mib",
            "features",
            "oversubscribe",
            "contiguous",
            "required_nodes",
        )
    )
)
_ENDLESS: Final = 1 << 62
_NEVER_BEFORE: Final = "it is not to begin before"


def pending(
    state: ClusterState,
    capped: Collection[str] = (),
    *,
    by_time: bool = False,
    spent: Mapping[str, str] = MappingProxyType({}),
) -> Pending:
    """Read the queue.

    ``capped`` are the accounts for which it matters whose job it is; ``by_time`` says that it matters how long jobs
    may run, even where no partition has such a limit. ``spent`` tells by account why jobs of it may not begin.
    """
    found = Pending()
    tiers = {partition.name: partition.priority_tier for partition in state.partitions}
    running = _running_tasks(state.jobs)
    soon = state.at + SOON
    # Below this, all time limits are alike.
    shortest_s = (
        0 if by_time else min((p.max_time_s or 0 for p in state.partitions if p.max_time_s), default=_ENDLESS)
    )
    known: dict[object, Same] = {}
    het: dict[int, list[tuple[Job, Same, str]]] = {}
    for job in state.jobs:
        if job.state is not JobState.PENDING:
            continue
        if job.account in spent and job.het_job_id is None:
            found.waiting[job.job_id] = Waiting(job.job_id, "limit", spent[job.account])
            continue
        key = (
            job.request or _request_key(job),
            job.reason,
            job.partitions,
            job.reservation,
            job.user if job.oversubscribe == "USER" else "",
            job.account if job.account in capped else "",
            limit_s if (limit_s := job.time_limit_s) is not None and limit_s > shortest_s else None,
        )
        same = known.get(key)
        if same is None:
            same = known[key] = _read(job, tiers, capped)
        if (
            same.rules.helps
            and job.priority
            and not (job.array_tasks or job.dependency)
            and (job.begin_time is None or job.begin_time <= soon)
        ):
            copies, held = 1, ""  # Most are so, and a queue is long.
        else:
            copies, held = _startable(job, same.rules, soon, running)
        if job.het_job_id is not None:
            het.setdefault(job.het_job_id, []).append((job, same, spent.get(job.account, held)))
        elif held:
            found.waiting[job.job_id] = Waiting(job.job_id, "held", held)
        else:
            found.wanted.append(Wanted(_turn(job, same), job.job_id, copies, same))
    for components in het.values():
        _add_components(sorted(components, key=lambda each: each[0].job_id), found)
    found.wanted.sort(key=itemgetter(0))
    return found


def _request_key(job: Job) -> tuple[object, ...]:
    """Return a key of what it asks for, where squeue did not write it. Of mappings it is only known that one is itself."""
    mappings = (job.tres, job.tres_per_job, job.tres_per_node, job.tres_per_socket, job.tres_per_task)
    return (*_SAME(job), *map(id, mappings))


def _turn(job: Job, same: Same) -> int:
    """Higher tiers first, then higher priorities, then who came first. One number, for it is quick to sort by."""
    return job.job_id - (job.priority << 40) - (same.tier << 80)


def _read(job: Job, tiers: Mapping[str, int], capped: Collection[str]) -> Same:
    tier = max((tiers.get(name, 1) for name in job.partitions), default=1)
    try:
        return Same((ask_of(job, account=job.account in capped),), ruling(job.reason), tier)
    except ValueError as fault:
        return Same((), Ruling(False, f"cannot tell what it needs: {fault}"), tier)


def _startable(job: Job, rules: Ruling, soon: datetime, running: Mapping[int, int]) -> tuple[int, str]:
    """Return how many of its tasks may start, and, where none may, why."""
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
        if not job.priority:
            return 0, ruling("JobHeldAdmin").words
        if job.dependency and "(unfulfilled)" in job.dependency:
            return 0, ruling("Dependency").words
        return copies, ""
    # Slurm says so until it looks again; what it would then see is seen here already.
    over = (begin is not None and job.reason == "BeginTime") or job.reason == "JobArrayTaskLimit"
    return (copies, "") if over and job.priority else (0, rules.words)


def _add_components(components: list[tuple[Job, Same, str]], found: Pending) -> None:
    """One heterogeneous job: all of its components, or none."""
    jobs = tuple(job.job_id for job, _, _ in components)
    if held := next((held for _, _, held in components if held), ""):
        for job in jobs:
            found.waiting[job] = Waiting(job, "held", held)
        return
    leader, first, _ = components[0]
    blaming = (same.rules for _, same, _ in components if same.rules.blames_nodes)
    same = Same(
        tuple(ask for _, same, _ in components for ask in same.asks), next(blaming, first.rules), first.tier
    )
    found.wanted.append(Wanted(_turn(leader, same), jobs[0], 1, same, jobs))


@lru_cache(maxsize=65_536)
def _array(tasks: str) -> tuple[int, int]:
    """Return how many tasks, and how many of them may run at once; 0 where that is open."""
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
