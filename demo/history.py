"""The history of a cluster as samples for its chart, one at each change: jobs by Slurm's times, nodes by the journal's.

The samples of the journal are looks at the cluster, a while apart: what began and ended between two of them is in none,
and jobs and nodes are counted at different moments. Here both are counted from when they changed. Slurm tells its
times in whole seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

from tidepool.clients.slurm import Job
from tidepool.cluster.hostlist import expand
from tidepool.scaling.decision import DeleteOrphan, Drain, Launch, Phase, Remove, Undrain
from tidepool.scaling.ports import Intent, Sample

#: A moment, and by how much the numbers of jobs that wait and that run change.
_Change = tuple[datetime, int, int]


def history(
    jobs: Iterable[Job], intents: Iterable[Intent], samples: Sequence[Sample], left: Collection[str] = ()
) -> tuple[Sample, ...]:
    """Return a sample for each moment at which something changed, the oldest first.

    Args:
        jobs: records of all jobs, with their times, once they ended.
        intents: all of the scaler's in that time.
        samples: the journal's, of which prices are taken, and when it began and ended.
        left: nodes that are there at the end; those that no intent launched were there from the beginning.
    """
    if not samples:
        return ()
    records = list(jobs)
    changes = sorted(change for job in records for change in _job_changes(job))
    begin = min([samples[0].at, *(at for at, _, _ in changes[:1])])
    nodes = sorted(_node_changes(records, list(intents), left, begin), key=lambda each: each[0])
    moments = sorted(
        {begin, samples[-1].at, *(each[0] for each in changes), *(each[0] for each in nodes)}
        | {sample.at for sample in samples if sample.usd_per_hour}
    )
    prices = [sample.at for sample in samples]
    found = []
    waiting = running = job = node = 0
    phases: dict[str, Phase] = {}
    for at in moments:
        for _, waits, runs in changes[job : (job := bisect_right(changes, at, key=lambda each: each[0]))]:
            waiting, running = waiting + waits, running + runs
        for _, name, phase in nodes[node : (node := bisect_right(nodes, at, key=lambda each: each[0]))]:
            phases[name] = phase
        counts: Counter[Phase] = Counter(phase for phase in phases.values() if phase is not Phase.ABSENT)
        price = samples[max(0, bisect_right(prices, at) - 1)].usd_per_hour
        found.append(Sample(at, waiting, running, dict(counts), price))
    return tuple(found)


def _job_changes(job: Job) -> Iterator[_Change]:
    began, ended, size = _began(job), job.end_time, job.size
    if job.submit_time is not None:
        yield job.submit_time, size, 0
        if began is not None:
            yield max(began, job.submit_time), -size, size
        elif ended is not None:
            yield max(ended, job.submit_time), -size, 0
    if began is not None and ended is not None:
        yield ended, 0, -size


def _began(job: Job) -> datetime | None:
    """Return when it began; None where it never did, for what Slurm expects of a job that waits is no beginning."""
    return job.start_time if job.nodelist else None


def _node_changes(
    jobs: Sequence[Job], intents: Sequence[Intent], left: Collection[str], begin: datetime
) -> Iterator[tuple[datetime, str, Phase]]:
    """Return by node what it became, and when."""
    busy: defaultdict[str, list[_Change]] = defaultdict(list)
    for job in jobs:
        began = _began(job)
        if began is not None:
            for name in expand(job.nodelist):
                busy[name].append((began, 1, 0))
                if job.end_time is not None:
                    busy[name].append((job.end_time, -1, 0))
    orders: defaultdict[str, list[tuple[datetime, Phase]]] = defaultdict(list)
    for intent in sorted(intents, key=lambda each: each.at):
        for name, at, phase in _ordered(intent):
            orders[name].append((at, phase))
    for name in sorted({*left, *busy} - orders.keys()):
        orders[name].append((begin, Phase.IDLE))
    for name, phases in orders.items():
        yield from ((at, name, phase) for at, phase in _phases(sorted(phases, key=_at), sorted(busy[name])))


def _ordered(intent: Intent) -> Iterator[tuple[str, datetime, Phase]]:
    """Return what an intent makes of its nodes when it is begun, and when it is done."""
    during: Phase | None = None
    match intent.action:
        case Launch():
            during, after = Phase.LAUNCHING, Phase.IDLE
        case Remove():
            during, after = Phase.LEAVING, Phase.ABSENT
        case Drain():
            after = Phase.DRAINED
        case Undrain():
            after = Phase.IDLE
        case DeleteOrphan():
            after = Phase.ABSENT
        case _:
            return
    if intent.result == "overtaken":
        return
    names = (intent.action.machine.node,) if isinstance(intent.action, DeleteOrphan) else intent.action.nodes
    for name in names:
        if during is not None:
            yield name, intent.at, during
        if intent.result == "done" and intent.ended is not None:
            yield name, intent.ended, after
        elif intent.result == "failed" and during is Phase.LAUNCHING and intent.ended is not None:
            # Of several nodes some may have come all the same: a job of theirs shows it.
            yield name, intent.ended, Phase.ABSENT


def _phases(
    orders: Sequence[tuple[datetime, Phase]], jobs: Sequence[_Change]
) -> Iterator[tuple[datetime, Phase]]:
    """Return the phases of one node: what it was made, and whether it has jobs, put together."""
    ordered, count = Phase.ABSENT, 0
    moments = sorted({*(at for at, _ in orders), *(at for at, _, _ in jobs)})
    for at in moments:
        for _, phase in (each for each in orders if each[0] == at):
            ordered = phase
        count += sum(change for moment, change, _ in jobs if moment == at)
        yield at, _with_jobs(ordered) if count else ordered


def _with_jobs(phase: Phase) -> Phase:
    match phase:
        case Phase.DRAINED:
            return Phase.DRAINING
        case Phase.LEAVING:
            return Phase.LEAVING
        case _:
            return Phase.BUSY


def _at(order: tuple[datetime, Phase]) -> datetime:
    return order[0]
