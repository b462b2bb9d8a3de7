"""`JobHistory`: a job's times, put together from those of its processes. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from tidepool.lab.outcome import JobOutcome, ProcessRecord, TrialOutcome
from tidepool.lab.workload import Job, Workload


@dataclass(frozen=True, slots=True)
class JobHistory:
    """A job and what came of it; times in seconds since the trial's beginning.

    Attributes:
        job: as it was submitted.
        outcome: as it was seen.
        ready_s: when nothing but the scheduler held it: its submission, or the end of the last job that it waits for. Where that is
            submitted only then, because the scheduler has no dependencies, the delay counts as the scheduler's.
        started_s: when each of its tasks had started for the first time; None where one never did.
        ended_s: the end of its last process; None where one of its tasks has not come to its own end.
        last: the last attempt of each task, by rank.
    """

    job: Job
    outcome: JobOutcome
    ready_s: float
    started_s: float | None
    ended_s: float | None
    last: tuple[ProcessRecord, ...]

    @property
    def wait_s(self) -> float | None:
        """Seconds for which the scheduler held it."""
        return None if self.started_s is None else self.started_s - self.ready_s

    @property
    def run_s(self) -> float | None:
        """Seconds that its last attempt took, from the start of its first process to the end of its last one."""
        return None if self.ended_s is None else self.ended_s - min(each.started_s for each in self.last)

    @property
    def first_starts_s(self) -> tuple[float, ...]:
        """The starts of all tasks in their first attempt; none where one never started."""
        if self.started_s is None:
            return ()
        return tuple(each.started_s for each in self.outcome.processes if each.attempt == 1)

    @property
    def restarts(self) -> int:
        """Number of times that it began again."""
        return max((each.attempt for each in self.outcome.processes), default=1) - 1

    @property
    def is_as_expected(self) -> bool:
        """Return whether all of its tasks came to their end with the exit code that they were to have, and the scheduler says the same."""
        return (
            self.ended_s is not None
            and all(each.exit_code == self.job.exit_code for each in self.last)
            and self.outcome.succeeded == (self.job.exit_code == 0)
        )


def histories(outcome: TrialOutcome, workload: Workload) -> tuple[JobHistory, ...]:
    """Return the history of each job that was submitted, in the order of the workload."""
    outcomes = {each.name: each for each in outcome.jobs}
    last = {name: _last_attempts(each.processes) for name, each in outcomes.items()}
    return tuple(
        _history(
            job,
            outcomes[job.name],
            last[job.name],
            [_end_s(last[name]) for name in job.after if name in last],
        )
        for job in workload.jobs
        if job.name in outcomes
    )


def with_free_processors(jobs: Sequence[JobHistory], cpus: int) -> tuple[JobHistory, ...]:
    """Return the jobs for which enough processors were free when they were ready: none of their wait is for others.

    Free are processors that no job has which was ready before and has not ended. They may be on machines that do not hold the job.

    Args:
        jobs: all of a trial.
        cpus: all processors of all machines.
    """
    found: list[JobHistory] = []
    held: list[tuple[float, int]] = []
    for each in sorted(jobs, key=lambda job: job.ready_s):
        while held and held[0][0] <= each.ready_s:
            cpus += heapq.heappop(held)[1]
        if each.job.cpus <= cpus:
            found.append(each)
        cpus -= each.job.cpus
        heapq.heappush(held, (float("inf") if each.ended_s is None else each.ended_s, each.job.cpus))
    return tuple(found)


def _history(
    job: Job, outcome: JobOutcome, last: tuple[ProcessRecord, ...], ends_before_s: Sequence[float | None]
) -> JobHistory:
    ends_s = [end for end in ends_before_s if end is not None]
    ready_s = max(min(outcome.submitted_s, job.submit_at_s), *ends_s) if ends_s else outcome.submitted_s
    first_s: dict[int, float] = {}
    for process in outcome.processes:
        first_s.setdefault(process.rank, process.started_s)
    is_complete = len(last) == job.tasks
    return JobHistory(
        job=job,
        outcome=outcome,
        ready_s=ready_s,
        started_s=max(first_s.values()) if is_complete else None,
        ended_s=_end_s(last) if is_complete else None,
        last=last,
    )


def _last_attempts(processes: Sequence[ProcessRecord]) -> tuple[ProcessRecord, ...]:
    """Return the last attempt of each task, by rank."""
    by_rank = {each.rank: each for each in sorted(processes, key=lambda each: each.attempt)}
    return tuple(by_rank[rank] for rank in sorted(by_rank))


def _end_s(last: Sequence[ProcessRecord]) -> float | None:
    """Return the last of the ends; None where there is none, or one was killed."""
    ends_s = [each.ended_s for each in last if each.ended_s is not None]
    return max(ends_s) if ends_s and len(ends_s) == len(last) else None
