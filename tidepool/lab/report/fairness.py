"""Fairness of a comparison: what all schedulers had alike, and where they do not do the same, as their runs show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tidepool.lab.report.elements import Element, Table, Text
from tidepool.lab.report.runs import Run
from tidepool.lab.report.words import different, figure, listed
from tidepool.lab.statistics.history import JobHistory, histories

#: Where a trial's environment says what its scheduler can.
CAN: Final = "can"
#: What each feature means for who compares; said of schedulers that lack it, where a workload needs it.
_LACKS: Final[Mapping[str, str]] = {
    "gang": "starts tasks of a job as it finds place for them, not all or none: a gang may hold processors while it waits for the rest",
    "array": "is given jobs of an array one by one, and so has more requests for the same work",
    "dependencies": "knows no job that waits for others: it is handed over when those have ended, and the delay counts as the scheduler's",
    "priority": "starts jobs in the order of its own, whatever their priority",
    "preemption": "lets running jobs end before those of a higher priority start",
}


def fairness(schedulers: Sequence[str], runs: Sequence[Run]) -> Iterator[Element]:
    """Yield what is equal, what is not, and what runs show of it."""
    yield Text(
        "Alike for all: the machines and the images of which they were made, the jobs of a repeat and the seconds at which each was "
        "submitted, the programs that ran, and the clock. Times are those that processes wrote themselves, and no scheduler's own. "
        "The order of schedulers and workloads was drawn anew for each repeat, so that what drifts meets all of them."
    )
    yield Text(
        "Not alike: what stands here. A figure in which schedulers differ may come from one that does less, or promises less."
    )
    by_scheduler = {name: [run for run in runs if run.outcome.scheduler == name] for name in schedulers}
    jobs = {
        name: [job for run in each for job in histories(run.outcome, run.workload)]
        for name, each in by_scheduler.items()
    }
    needed = _needed(runs)
    lacks = [
        f"{name} {_LACKS[feature]}."
        for name, each in by_scheduler.items()
        for feature in _LACKS
        if feature in needed and each and (can := _can(each)) is not None and feature not in can
    ]
    for sentence in lacks:
        yield Text(sentence)
    said = [(name, _can(each)) for name, each in by_scheduler.items()]
    yield Table(
        "What runs show",
        ("", *schedulers),
        [
            *(
                [
                    (
                        "its adapter does, of what workloads here need",
                        *(_features(can, needed) for _, can in said),
                    )
                ]
                if needed
                else []
            ),
            *(
                (question, *(answer(jobs[name]) for name in schedulers))
                for question, answer in _SHOWN.items()
            ),
        ],
    )


def _needed(runs: Sequence[Run]) -> Sequence[str]:
    """Features that jobs of these runs make use of."""
    jobs = [job for run in runs for job in run.workload.jobs]
    uses = {
        "gang": any(job.tasks > 1 for job in jobs),
        "array": any(job.array for job in jobs),
        "dependencies": any(job.after for job in jobs),
        "priority": any(job.priority for job in jobs),
        "preemption": any(job.preempts for job in jobs),
    }
    return [feature for feature, is_used in uses.items() if is_used]


def _can(runs: Sequence[Run]) -> frozenset[str] | None:
    """Return the features that runs say their scheduler has; None where they say nothing."""
    said = [run.outcome.environment[CAN] for run in runs if CAN in run.outcome.environment]
    return frozenset(different(said).replace(";", ",").replace(" ", "").split(",")) if said else None


def _features(can: frozenset[str] | None, needed: Sequence[str]) -> str:
    return "-" if can is None else listed([each for each in needed if each in can]) or "nothing"


def _as_expected(jobs: Sequence[JobHistory]) -> str:
    return _share(sum(job.is_as_expected for job in jobs), len(jobs))


def _refused(jobs: Sequence[JobHistory]) -> str:
    return str(sum(job.outcome.accepted_s is None for job in jobs))


def _restarts(jobs: Sequence[JobHistory]) -> str:
    return str(sum(job.restarts for job in jobs))


def _bound(jobs: Sequence[JobHistory]) -> str:
    processes = [(job.job.cpus_per_task, each) for job in jobs for each in job.outcome.processes]
    return _share(sum(len(each.cpus) == width for width, each in processes), len(processes))


def _whole_gangs(jobs: Sequence[JobHistory]) -> str:
    gangs = [job for job in jobs if job.job.tasks > 1 and job.outcome.processes]
    return _share(sum(job.started_s is not None for job in gangs), len(gangs))


def _skew(jobs: Sequence[JobHistory]) -> str:
    skews = [
        max(starts) - min(starts) for job in jobs if job.job.tasks > 1 and (starts := job.first_starts_s)
    ]
    return figure(max(skews)) if skews else "-"


def _spread(jobs: Sequence[JobHistory]) -> str:
    """Return on how many machines gangs were, by their mean: it is by placement that messages are fast or slow."""
    gangs = [job for job in jobs if job.job.tasks > 1 and job.started_s is not None]
    machines = [len({each.machine for each in job.outcome.processes if each.attempt == 1}) for job in gangs]
    return figure(sum(machines) / len(machines)) if machines else "-"


def _share(count: int, of_all: int) -> str:
    return f"{count:,} of {of_all:,}" if of_all else "-"


#: What is asked of the jobs of all runs of a scheduler.
_SHOWN: Final = {
    "jobs that ended as they were to": _as_expected,
    "jobs that it refused": _refused,
    "restarts of jobs": _restarts,
    "processes bound to as many processors as they asked for": _bound,
    "gangs that started as a whole, of those that started at all": _whole_gangs,
    "longest time between the starts of a gang's tasks, s": _skew,
    "machines that a gang was spread over, mean": _spread,
}
