"""Occupancy of processors: no two bars of a row overlap where nothing was shared, and levels are the time that processes had."""

from __future__ import annotations

from itertools import pairwise
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.lab.outcome import JobOutcome, ProcessRecord, TrialOutcome
from tidepool.lab.report.occupancy import gantt_of, levels_of, spans_of
from tidepool.lab.report.runs import Run, machines_of
from tidepool.lab.workload import Death, Job, Sleep, Workload

MACHINES = ("m-1", "m-2")


def run_of(
    jobs: list[tuple[Job, list[ProcessRecord]]], deaths: tuple[Death, ...] = (), lasted_s: float = 50.0
) -> Run:
    outcomes = tuple(JobOutcome(job.name, 0.0, 0.0, tuple(found), "", True) for job, found in jobs)
    workload = Workload("w", "bag", 1, tuple(job for job, _ in jobs), deaths, MappingProxyType({}))
    return Run(TrialOutcome("s", "w", 1, "2026-11-28T12:00:00", lasted_s, outcomes, (), ()), workload)


def record(
    start: float, end: float | None, machine: str = "m-1", cpus: tuple[int, ...] = (0, 1, 2), attempt: int = 1
) -> ProcessRecord:
    return ProcessRecord(0, attempt, machine, cpus, start, end, None if end is None else 0)


processes = st.tuples(st.floats(0, 40), st.floats(0.001, 9), st.sampled_from(MACHINES), st.integers(1, 3))


@given(st.lists(processes, max_size=30))
def test_processes_side_by_side_share_no_lane_and_all_are_drawn(
    found: list[tuple[float, float, str, int]],
) -> None:
    jobs = [
        (
            Job(str(at), 0, Sleep(1), cpus_per_task=width),
            [record(start, start + lasts, machine, tuple(range(width + 1)))],
        )
        for at, (start, lasts, machine, width) in enumerate(found)
    ]
    gantt = gantt_of(run_of(jobs), MACHINES)
    assert len(gantt.bars) == sum(width for *_, width in found)
    for row in range(len(gantt.rows)):
        bars = sorted((bar for bar in gantt.bars if bar.row == row), key=lambda bar: bar.begins_s)
        assert all(one.ends_s <= next.begins_s for one, next in pairwise(bars))
    # As many lanes as processors were held at once, and not one more.
    for machine in MACHINES:
        its = [(start, start + lasts, width) for start, lasts, on, width in found if on == machine]
        most = max((sum(w for first, last, w in its if first <= at < last) for at, _, _ in its), default=1)
        assert sum(name.startswith(machine) for name in gantt.rows) == most


@given(st.lists(processes, max_size=30), st.floats(0.05, 5))
def test_levels_hold_all_the_time_that_processes_had(
    found: list[tuple[float, float, str, int]], step_s: float
) -> None:
    jobs = [
        (Job(str(at), 0, Sleep(1), cpus_per_task=width), [record(start, start + lasts, machine)])
        for at, (start, lasts, machine, width) in enumerate(found)
    ]
    levels = levels_of(run_of(jobs), step_s)
    assert sum(levels) * step_s == pytest.approx(sum(lasts * width for _, lasts, _, width in found), abs=1e-6)
    assert min(levels) >= -1e-9


def test_processes_that_are_bound_have_the_rows_of_their_processors() -> None:
    gantt = gantt_of(
        run_of([(Job("a", 0, Sleep(1), cpus_per_task=2), [record(0, 1, "m-2", (4, 6))])]), MACHINES
    )
    assert gantt.rows == ["m-1 cpu0", "m-2 cpu4", "m-2 cpu6"]
    assert [bar.row for bar in gantt.bars] == [1, 2]


def test_a_process_that_was_killed_ends_with_its_machine_or_before_it_starts_again_or_with_the_run() -> None:
    with_machine = run_of([(Job("a", 0, Sleep(1)), [record(1, None)])], (Death(3.0, 0, 2.0),))
    assert spans_of(with_machine, MACHINES)[0].ends_s == 3.0
    again = run_of([(Job("a", 0, Sleep(1)), [record(1, None), record(7, 8, attempt=2)])])
    assert spans_of(again, MACHINES)[0].ends_s == 7.0
    never = run_of([(Job("a", 0, Sleep(1)), [record(1, None)])], (Death(3.0, 1, 2.0),), lasted_s=9.0)
    assert spans_of(never, MACHINES)[0].ends_s == 9.0
    assert {bar.kind for bar in gantt_of(never, MACHINES).bars} == {"killed", "machine away"}


def test_machines_are_in_the_order_of_their_numbers() -> None:
    found = [(Job(name, 0, Sleep(1)), [record(0, 1, name)]) for name in ("n-10", "n-2", "a", "n-1")]
    assert machines_of([run_of(found)]) == ("a", "n-1", "n-2", "n-10")
