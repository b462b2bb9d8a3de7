"""Outcomes of trials that were made up: workloads as a scheduler might have run them, with noise that a seed gives."""

from __future__ import annotations

from random import Random

from tidepool.lab.campaign import Campaign, Trial
from tidepool.lab.outcome import HostSample, JobOutcome, ProcessRecord, TrialOutcome, UsageSample
from tidepool.lab.workload import Compute, Job, Sleep, Workload


def outcome(
    trial: Trial, workload: Workload, wait_s: float = 0.5, noise: float = 0.0, disturbed: str = ""
) -> TrialOutcome:
    """Return a trial in which every job waits about ``wait_s``, and runs on processors that nobody else has.

    ``noise`` is the coefficient of variation of each wait; its chance is the trial's own.
    """
    chance = Random(f"{trial.id}/{workload.seed}")
    ends: dict[str, float] = {}
    made = []
    for job in workload.jobs:
        ready = max([job.submit_at_s, *(ends[name] for name in job.after)])
        made.append(_job(job, ready + max(0.001, wait_s * (1 + noise * chance.gauss()))))
        ends[job.name] = made[-1].processes[-1].ended_s or 0.0
    jobs = tuple(made)
    ended = max(process.ended_s or process.started_s for job in jobs for process in job.processes)
    return TrialOutcome(
        scheduler=trial.scheduler,
        workload=trial.workload,
        repeat=trial.repeat,
        began="2026-11-28T12:00:00Z",
        lasted_s=ended,
        jobs=jobs,
        usage=(
            UsageSample(0.0, "daemon", 1.0, 1 << 20),
            UsageSample(ended, "daemon", 1.0 + ended / 10, 3 << 20),
        ),
        host=(
            HostSample(0.0, 0.0, 10.0, 1.0, energy_j=100.0),
            HostSample(ended, 0.0, 10.0 + ended, 1.1, energy_j=100.0 + 5 * ended),
        ),
        requests={"submit": len(jobs)},
        environment={"kernel": "6.1"},
        disturbed=disturbed,
    )


def campaign(
    schedulers: tuple[str, ...] = ("one", "two"), workloads: tuple[str, ...] = ("bag",), repeats: int = 3
) -> Campaign:
    return Campaign("made-up", schedulers, workloads, repeats, seed=7)


def seconds_of(job: Job) -> float:
    match job.program:
        case Sleep(seconds) | Compute(seconds):
            return seconds
        case _:
            return 1.0


def _job(job: Job, start: float) -> JobOutcome:
    processes = tuple(
        ProcessRecord(
            rank,
            1,
            f"node-{rank % 2}",
            tuple(range(job.cpus_per_task)),
            start + 0.01 * rank,
            start + 0.01 * rank + seconds_of(job),
            job.exit_code,
        )
        for rank in range(job.tasks)
    )
    return JobOutcome(
        job.name,
        job.submit_at_s,
        job.submit_at_s + 0.001,
        processes,
        "COMPLETED" if not job.exit_code else "FAILED",
        not job.exit_code,
    )
