"""Occupancy of processors in a run: which process had which, and how many were held at a time. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from tidepool.charts.gantt import Bar, Gantt
from tidepool.lab.outcome import JobOutcome, ProcessRecord, TrialOutcome
from tidepool.lab.report.runs import Run

Kind = Literal["exited with 0", "exited otherwise", "killed", "machine away"]
#: The colour of each, those below first.
COLOURS: Final[Mapping[str, str]] = {
    "machine away": "#d9d9d9",
    "exited with 0": "#0072b2",
    "exited otherwise": "#d55e00",
    "killed": "#cc79a7",
}


@dataclass(frozen=True, slots=True)
class Span:
    """One process of one attempt on its machine.

    Attributes:
        machine: where it ran.
        processors: those that it was bound to; empty where it might run on more than it asked for.
        width: how many it asked for.
        begins_s, ends_s: since the run's beginning; the end of one that was killed is what is known best.
        kind: how it ended.
    """

    machine: str
    processors: tuple[int, ...]
    width: int
    begins_s: float
    ends_s: float
    kind: Kind


def spans_of(run: Run, machines: Sequence[str]) -> tuple[Span, ...]:
    """Return what ran, in the order of starts. ``machines`` are those that the workload's deaths count among."""
    widths = {job.name: job.cpus_per_task for job in run.workload.jobs}
    deaths = defaultdict[str, list[float]](list)
    for death in run.workload.deaths:
        if death.machine < len(machines):
            deaths[machines[death.machine]].append(death.at_s)
    found = [
        Span(
            process.machine,
            process.cpus if len(process.cpus) == widths.get(job.name, 1) else (),
            widths.get(job.name, 1),
            process.started_s,
            _end_s(process, job, run.outcome, deaths[process.machine]),
            _kind(process),
        )
        for job in run.outcome.jobs
        for process in job.processes
    ]
    return tuple(sorted(found, key=lambda span: (span.begins_s, span.machine)))


def gantt_of(run: Run, machines: Sequence[str]) -> Gantt:
    """Return its Gantt chart: a row for each processor that processes were bound to; where they were not, one for each at a time."""
    by_machine = defaultdict[str, list[Span]](list)
    for span in spans_of(run, machines):
        by_machine[span.machine].append(span)
    rows: list[str] = []
    bars: list[Bar] = []
    is_bound = all(span.processors for spans in by_machine.values() for span in spans)
    for at, machine in enumerate(machines):
        placed = [*(_bound if is_bound else _side_by_side)(by_machine[machine])]
        lanes = sorted({lane for lane, _ in placed}) or [0]
        places = {lane: len(rows) + place for place, lane in enumerate(lanes)}
        bars += [
            Bar(place, death.at_s, death.at_s + death.back_after_s, "machine away")
            for death in run.workload.deaths
            if death.machine == at
            for place in places.values()
        ]
        bars += [Bar(places[lane], span.begins_s, span.ends_s, span.kind) for lane, span in placed]
        rows += [f"{machine} {'cpu' if is_bound else '#'}{lane}" for lane in lanes]
    end_s = run.outcome.lasted_s
    how = (
        "by the processors that processes were bound to"
        if is_bound
        else "side by side: Linux chose their processors"
    )
    return Gantt(f"{run.outcome.scheduler}: {end_s:.1f} s, {how}", rows, bars)


def levels_of(run: Run, step_s: float) -> tuple[float, ...]:
    """Return how many processors were held in each step of time: means, until the run's end."""
    spans = spans_of(run, ())
    end_s = max((run.outcome.lasted_s, *(span.ends_s for span in spans)))
    edges = np.arange(0, end_s + step_s, step_s)
    held = np.zeros_like(edges)
    for span in spans:
        # The time that it had had by each edge.
        held += span.width * np.clip(edges - span.begins_s, 0, max(0.0, span.ends_s - span.begins_s))
    return tuple(map(float, np.diff(held) / step_s))


def _end_s(process: ProcessRecord, job: JobOutcome, outcome: TrialOutcome, deaths: Sequence[float]) -> float:
    """A process that was killed writes nothing: it ended before its next attempt, with its machine, or by the end of the run."""
    if process.ended_s is not None:
        return process.ended_s
    later = (
        each.started_s
        for each in job.processes
        if each.rank == process.rank and each.attempt > process.attempt
    )
    died = (at for at in deaths if at >= process.started_s)
    return max(process.started_s, min((outcome.lasted_s, *later, *died)))


def _kind(process: ProcessRecord) -> Kind:
    if process.exit_code is None:
        return "killed"
    return "exited otherwise" if process.exit_code else "exited with 0"


def _bound(spans: Sequence[Span]) -> Iterator[tuple[int, Span]]:
    for span in spans:
        for processor in span.processors:
            yield processor, span


def _side_by_side(spans: Sequence[Span]) -> Iterator[tuple[int, Span]]:
    """Yield spans with as many lanes as they are wide, the lowest that are free: more lanes than processors are too many processes."""
    free_at: list[float] = []
    for span in spans:
        lanes = [lane for lane, at in enumerate(free_at) if at <= span.begins_s][: span.width]
        lanes += range(len(free_at), len(free_at) + span.width - len(lanes))
        free_at += [0.0] * (max(lanes) + 1 - len(free_at))
        for lane in lanes:
            free_at[lane] = span.ends_s
            yield lane, span
