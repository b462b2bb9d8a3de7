"""Campaigns that were made up: jobs of real generators on machines that are few, by schedulers that differ in what they promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from tests.lab.outcomes import seconds_of
from tidepool.lab.campaign import Campaign, Trial
from tidepool.lab.generators.registry import make_workload
from tidepool.lab.outcome import HostSample, JobOutcome, ProcessRecord, TrialOutcome, UsageSample
from tidepool.lab.results.store import Results
from tidepool.lab.workload import Death, Job, Workload

MACHINES = ("m-1", "m-2", "m-10")
CPUS = 2


@dataclass(frozen=True)
class MadeUp:
    """A scheduler: how long it takes to start a job, what it says that it can, and whether it binds processes."""

    delay_s: float
    can: str
    binds: bool = True


SCHEDULERS: Mapping[str, MadeUp] = {
    "slurm": MadeUp(0.2, "array, dependencies, gang, priority"),
    "kubernetes": MadeUp(0.9, "priority", binds=False),
}
WORKLOADS: Mapping[str, tuple[str, Mapping[str, object]]] = {"bag": ("bag", {}), "array": ("array", {})}


def laboratory(schedulers: Sequence[str], workloads: Sequence[str], repeats: int) -> Mapping[str, object]:
    return {
        "pool": "shared",
        "schedulers": [{"name": name, "kind": None, "options": {}} for name in schedulers],
        "workloads": [
            {"name": name, "kind": kind, "parameters": dict(said)}
            for name in workloads
            for kind, said in (WORKLOADS[name],)
        ],
        "repeats": repeats,
        "seed": 7,
        "pinning": "machine",
    }


def made_up(
    folder: Path,
    schedulers: Mapping[str, MadeUp] = SCHEDULERS,
    repeats: int = 5,
    trials: int | None = None,
    death: Death | None = None,
    kernel: str = "6.1",
    workloads: Sequence[str] = tuple(WORKLOADS),
) -> Results:
    """Return results of a campaign in ``folder``; of the first ``trials`` alone where it was killed then."""
    campaign = Campaign(folder.name, tuple(schedulers), tuple(workloads), repeats, seed=7)
    results = Results.create(
        folder, campaign, laboratory(tuple(schedulers), workloads, repeats), cpus=CPUS * len(MACHINES)
    )
    for trial in [*campaign.trials()][:trials]:
        kind, parameters = WORKLOADS[trial.workload]
        workload = make_workload(
            trial.workload, kind, parameters, campaign.seed_of(trial.workload, trial.repeat)
        )
        workload = replace(workload, jobs=workload.jobs[:40], deaths=(death,) if death else ())
        results.write(outcome(trial, workload, schedulers[trial.scheduler], kernel), workload)
    return results


def outcome(
    trial: Trial, workload: Workload, scheduler: MadeUp, kernel: str = "6.1", disturbed: str = ""
) -> TrialOutcome:
    """Return a trial in which jobs start in order, each as soon as there are processors for all of its tasks."""
    chance = Random(f"{trial.id}/{workload.seed}")
    free = {(machine, cpu): 0.0 for machine in MACHINES for cpu in range(CPUS)}
    jobs = []
    for job in workload.jobs:
        first = sorted(free, key=lambda slot: free[slot])[: job.cpus]
        start = max(job.submit_at_s, *(free[slot] for slot in first)) + scheduler.delay_s * chance.uniform(
            0.8, 1.2
        )
        jobs.append(_job(job, start, first, scheduler, workload.deaths))
        free |= dict.fromkeys(first, max(each.ended_s or each.started_s + 1 for each in jobs[-1].processes))
    ended = max(process.ended_s or process.started_s for job in jobs for process in job.processes)
    return TrialOutcome(
        scheduler=trial.scheduler,
        workload=trial.workload,
        repeat=trial.repeat,
        began=f"2026-11-28T12:0{trial.repeat}:00+00:00",
        lasted_s=ended + 0.5,
        jobs=tuple(jobs),
        usage=(
            UsageSample(0.0, "daemon <one>", 1.0, 30 << 20),
            UsageSample(
                ended,
                "daemon <one>",
                1.0 + ended * scheduler.delay_s / 10 * chance.uniform(0.9, 1.1),
                33 << 20,
            ),
        ),
        host=(HostSample(0.0, 0.0, 10.0, 1.0), HostSample(ended, 0.0, 10.0 + ended, 1.1)),
        requests={"submit": len(jobs), "list": 3},
        others={"make <all>": 0.25 * trial.repeat},
        environment={"kernel": kernel, "can": scheduler.can, "version": f"{scheduler.delay_s} & <more>"},
        disturbed=disturbed,
    )


def _job(
    job: Job, start: float, slots: Sequence[tuple[str, int]], scheduler: MadeUp, deaths: Sequence[Death]
) -> JobOutcome:
    processes = []
    for rank in range(job.tasks):
        own = slots[rank * job.cpus_per_task : (rank + 1) * job.cpus_per_task]
        machine = own[0][0]
        cpus = tuple(cpu for _, cpu in own) if scheduler.binds else tuple(range(CPUS + 2))
        begins, ends = start + 0.001 * rank, start + 0.001 * rank + seconds_of(job)
        struck = [each for each in deaths if MACHINES[each.machine] == machine and begins < each.at_s < ends]
        if struck:
            processes.append(ProcessRecord(rank, 1, machine, cpus, begins, None, None))
            begins = struck[0].at_s + struck[0].back_after_s
            ends = begins + seconds_of(job)
        processes.append(ProcessRecord(rank, 1 + len(struck), machine, cpus, begins, ends, job.exit_code))
    state = "FAILED" if job.exit_code else "COMPLETED"
    ordered = tuple(sorted(processes, key=lambda each: each.started_s))
    return JobOutcome(job.name, job.submit_at_s, job.submit_at_s + 0.001, ordered, state, not job.exit_code)
