"""`measures_of`: the figures of one trial, by what processes wrote and what was sampled. Pure.

Each is defined, with its source, in docs/laboratory-figures.md. A figure that a trial does not have is not in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Final

import numpy as np

from tidepool.lab.outcome import TrialOutcome
from tidepool.lab.statistics.history import JobHistory, histories, with_free_processors
from tidepool.lab.statistics.measure import launch_name
from tidepool.lab.workload import Workload

BOUND_S: Final = 1.0
"""Bound of the slowdown: shorter jobs count as if they ran so long. It is 10 s where jobs last for hours; here they last for seconds."""


def measures_of(outcome: TrialOutcome, workload: Workload, cpus: int) -> Mapping[str, float]:
    """Return the figures of a trial by their names, which `tidepool.lab.statistics.measure` explains.

    Args:
        outcome: the trial.
        workload: the jobs that were run in it.
        cpus: all processors of all machines.
    """
    jobs = histories(outcome, workload)
    return MappingProxyType(
        dict(
            chain(
                _of_jobs(jobs),
                _of_machines(jobs, cpus),
                _of_gangs(jobs, cpus),
                _of_kernels(jobs),
                _price(outcome),
            )
        )
    )


def _of_jobs(jobs: Sequence[JobHistory]) -> Iterator[tuple[str, float]]:
    if waits := [each.wait_s for each in jobs if each.wait_s is not None]:
        yield "submit_to_start_seconds", float(np.median(waits))
        yield "submit_to_start_seconds_p95", float(np.percentile(waits, 95))
    urgent = [each.wait_s for each in jobs if each.wait_s is not None and each.job.priority > 0]
    if urgent:
        yield "priority_submit_to_start_seconds", float(np.median(urgent))
    if turnarounds := [each.ended_s - each.outcome.submitted_s for each in jobs if each.ended_s is not None]:
        yield "turnaround_seconds", float(np.median(turnarounds))
    if slowdowns := [slowdown for each in jobs if (slowdown := _bounded_slowdown(each)) is not None]:
        yield "bounded_slowdown", float(np.mean(slowdowns))
    if jobs:
        yield "restarts", float(sum(each.restarts for each in jobs))
        yield "unexpected_jobs", float(sum(not each.is_as_expected for each in jobs))


def _bounded_slowdown(job: JobHistory) -> float | None:
    if job.ended_s is None or job.run_s is None:
        return None
    return max(1.0, (job.ended_s - job.ready_s) / max(job.run_s, BOUND_S))


def _of_machines(jobs: Sequence[JobHistory], cpus: int) -> Iterator[tuple[str, float]]:
    ends_s = [each.ended_s for each in jobs if each.ended_s is not None]
    if not ends_s:
        return
    makespan_s = max(ends_s) - min(each.outcome.submitted_s for each in jobs)
    yield "makespan_seconds", makespan_s
    yield "throughput_jobs_per_second", len(ends_s) / makespan_s
    used_s = sum(
        each.job.cpus_per_task * (process.ended_s - process.started_s)
        for each in jobs
        for process in each.last
        if process.ended_s is not None
    )
    yield "utilization", used_s / (cpus * makespan_s)


def _of_gangs(jobs: Sequence[JobHistory], cpus: int) -> Iterator[tuple[str, float]]:
    skews = [
        max(starts) - min(starts) for each in jobs if each.job.tasks > 1 and (starts := each.first_starts_s)
    ]
    if skews:
        yield "gang_skew_seconds", float(np.median(skews))
    by_size: defaultdict[int, list[float]] = defaultdict(list)
    for each in with_free_processors(jobs, cpus):
        if each.wait_s is not None:
            by_size[each.job.tasks].append(each.wait_s)
    for tasks in sorted(by_size):
        yield launch_name(tasks), float(np.median(by_size[tasks]))


def _of_kernels(jobs: Sequence[JobHistory]) -> Iterator[tuple[str, float]]:
    values: defaultdict[str, list[float]] = defaultdict(list)
    for each in jobs:
        for process in each.last:
            for name, value in process.figures.items():
                values[name].append(value)
    for name, of_processes in values.items():
        yield name, float(np.median(of_processes))


def _price(outcome: TrialOutcome) -> Iterator[tuple[str, float]]:
    by_part: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
    for sample in outcome.usage:
        by_part[sample.part].append((sample.cpu_s, sample.memory_bytes))
    if by_part:
        yield (
            "scheduler_cpu_seconds",
            sum(_increase([cpu_s for cpu_s, _ in samples]) for samples in by_part.values()),
        )
        yield (
            "scheduler_memory_bytes",
            float(sum(max(memory for _, memory in samples) for samples in by_part.values())),
        )
    if outcome.requests:
        yield "api_requests", float(sum(outcome.requests.values()))
    energies_j = [sample.energy_j for sample in outcome.host if sample.energy_j is not None]
    if len(energies_j) > 1:
        yield "energy_joules", _increase(energies_j)


def _increase(counter: Sequence[float]) -> float:
    """Return how much a counter rose; where it fell, it had begun anew at 0."""
    return sum(after - before if after >= before else after for before, after in pairwise(counter))
