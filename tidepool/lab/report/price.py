"""Price of a scheduler: what its own programs used of processors and memory, by part, and what its API was asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from tidepool.lab.outcome import TrialOutcome
from tidepool.lab.report.elements import Element, Table, Text
from tidepool.lab.report.runs import Run
from tidepool.lab.report.words import figure

_MIB: Final = 1 << 20
_MOST_REQUESTS: Final = 12


def price(schedulers: Sequence[str], runs: Sequence[Run]) -> Iterator[Element]:
    """Yield tables of what each part of each scheduler used in a run; nothing where nobody sampled it."""
    parts = [
        row
        for name in schedulers
        for row in _parts(name, [run for run in runs if run.outcome.scheduler == name])
    ]
    requests = [
        row
        for name in schedulers
        for row in _requests(name, [run.outcome for run in runs if run.outcome.scheduler == name])
    ]
    if not parts and not requests:
        return
    yield Text(
        "Medians over all runs of all workloads. They are of the scheduler's own programs on all machines, not of jobs; "
        "by workload, they are among the figures above."
    )
    yield Table(
        "Programs",
        ("part", "scheduler", "CPU seconds a run", "CPU milliseconds a job", "memory at most, MiB"),
        parts,
    )
    yield Table("Requests to its API", ("request", "scheduler", "a run", "a job"), requests)


def _parts(scheduler: str, runs: Sequence[Run]) -> Iterator[tuple[str, ...]]:
    cpu_s, per_job_s, memory = (defaultdict[str, list[float]](list) for _ in range(3))
    for run in runs:
        outcome = run.outcome
        for part in dict.fromkeys(sample.part for sample in outcome.usage):
            samples = [sample for sample in outcome.usage if sample.part == part]
            used_s = max(0.0, samples[-1].cpu_s - samples[0].cpu_s)
            cpu_s[part].append(used_s)
            per_job_s[part].append(used_s / max(1, len(outcome.jobs)))
            memory[part].append(max(sample.memory_bytes for sample in samples) / _MIB)
    for part in sorted(cpu_s, key=lambda part: -median(cpu_s[part])):
        per_job_ms = figure(1000 * median(per_job_s[part]))
        yield part, scheduler, figure(median(cpu_s[part])), per_job_ms, figure(median(memory[part]))


def _requests(scheduler: str, outcomes: Sequence[TrialOutcome]) -> Iterator[tuple[str, ...]]:
    counted = [each for each in outcomes if each.requests]
    names = {name for each in counted for name in each.requests}
    by_name = {name: median(each.requests.get(name, 0) for each in counted) for name in names}
    order = sorted((name for name in names if by_name[name]), key=lambda name: (-by_name[name], name))
    for name in order[:_MOST_REQUESTS]:
        per_job = median(each.requests.get(name, 0) / max(1, len(each.jobs)) for each in counted)
        yield name, scheduler, figure(by_name[name]), figure(per_job)
    if rest := order[_MOST_REQUESTS:]:
        others = median(sum(each.requests.get(name, 0) for name in rest) for each in counted)
        yield f"{len(rest)} others", scheduler, figure(others), "-"
