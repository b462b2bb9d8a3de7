"""The history of a chart: what changed between two looks is in it, and jobs and nodes agree at every moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from demo.history import history
from tests.scaling.decide.cluster_states import job
from tidepool.charts.fleets import Series, write_chart
from tidepool.clients.slurm import Job, JobState
from tidepool.scaling.decision import Action, Drain, Launch, Phase, Remove, Undrain
from tidepool.scaling.ports import Intent, Result, Sample

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(second: float) -> datetime:
    return _BEGIN + timedelta(seconds=second)


def ran(job_id: int, submitted: float, began: float, ended: float, nodes: str) -> Job:
    times = {"submit_time": at(submitted), "start_time": at(began), "end_time": at(ended)}
    return job(job_id, state=JobState.COMPLETED, nodelist=nodes, **times)


def intent(action: Action, begun: float, ended: float, result: Result = "done") -> Intent:
    return Intent(1, 1, 1, at(begun), action, result, at(ended))


def look(second: float, usd_per_hour: float = 0) -> Sample:
    """A look that saw nothing of what went on."""
    return Sample(at(second), 0, 0, {}, usd_per_hour)


#: Two looks ten seconds apart; between them two nodes come, run 13 jobs, and go.
_NODES = ("cpu-1", "cpu-2")
_INTENTS = [
    intent(Launch("cpu", _NODES, "jobs need it"), 1.2, 3.1),
    intent(Drain("cpu", _NODES, "idle"), 7.5, 7.6),
    intent(Remove("cpu", _NODES, "drained"), 8.0, 9.0),
]
_JOBS = [ran(number, 1, 3, 6, f"cpu-{1 + number % 2}") for number in range(1, 14)]
_LOOKS = [look(0), look(10)]


def seen_at(samples: tuple[Sample, ...], second: float) -> tuple[int, int, dict[Phase, int]]:
    """Jobs that wait, jobs that run, and nodes by phase, at a moment."""
    last = [sample for sample in samples if sample.at <= at(second)][-1]
    return last.jobs_pending, last.jobs_running, dict(last.nodes)


def test_what_changed_between_two_looks_is_in_it() -> None:
    samples = history(_JOBS, _INTENTS, _LOOKS)
    assert [sample.at for sample in samples] == [
        at(s) for s in (0, 1, 1.2, 3, 3.1, 6, 7.5, 7.6, 8, 9, 10) if s != 7.5
    ]
    assert seen_at(samples, 0.5) == (0, 0, {})
    assert seen_at(samples, 1.1) == (13, 0, {})
    assert seen_at(samples, 2) == (13, 0, {Phase.LAUNCHING: 2})
    assert seen_at(samples, 4) == (0, 13, {Phase.BUSY: 2})
    assert seen_at(samples, 6.5) == (0, 0, {Phase.IDLE: 2})
    assert seen_at(samples, 7.7) == (0, 0, {Phase.DRAINED: 2})
    assert seen_at(samples, 8.5) == (0, 0, {Phase.LEAVING: 2})
    assert seen_at(samples, 10) == (0, 0, {})


def test_wherever_jobs_run_their_nodes_are_busy() -> None:
    many = [
        ran(number, number / 3, 2 + number, 4 + number * 1.7, f"cpu-{1 + number % 3}") for number in range(9)
    ]
    for sample in history(many, _INTENTS, _LOOKS):
        at_work = [each.nodelist for each in many if _runs(each, sample.at)]
        busy = sum(sample.nodes.get(phase, 0) for phase in (Phase.BUSY, Phase.DRAINING, Phase.LEAVING))
        assert busy >= len(set(at_work))
        assert sample.jobs_running == len(at_work)


def _runs(each: Job, moment: datetime) -> bool:
    assert each.start_time is not None
    assert each.end_time is not None
    return each.start_time <= moment < each.end_time


def test_a_node_that_is_drained_with_a_job_drains() -> None:
    back = [
        intent(Drain("cpu", ("cpu-1",), "idle"), 4, 4),
        intent(Undrain("cpu", ("cpu-1",), "needed"), 5, 5),
    ]
    samples = history([ran(1, 1, 3, 9, "cpu-1")], [_INTENTS[0], *back], _LOOKS)
    assert [seen_at(samples, second)[2].get(Phase.DRAINING) for second in (3.5, 4.5, 5.5)] == [None, 1, None]


def test_a_launch_that_failed_leaves_nothing() -> None:
    failed = intent(Launch("cpu", _NODES, "jobs need it"), 1, 4, "failed")
    samples = history([], [failed], _LOOKS)
    assert [seen_at(samples, second)[2] for second in (2, 5)] == [{Phase.LAUNCHING: 2}, {}]


def test_what_was_not_carried_out_is_not_in_it() -> None:
    given_up = intent(Launch("cpu", _NODES, "jobs need it"), 1, 4, "overtaken")
    assert all(not sample.nodes for sample in history([], [given_up], _LOOKS))


def test_nodes_that_were_there_before_are_there_from_the_beginning() -> None:
    samples = history([ran(1, 1, 3, 9, "cpu-1")], [], _LOOKS, left=("cpu-1", "cpu-2"))
    assert seen_at(samples, 0)[2] == {Phase.IDLE: 2}
    assert seen_at(samples, 4)[2] == {Phase.BUSY: 1, Phase.IDLE: 1}


def test_a_job_that_never_began_waits_until_its_end() -> None:
    cancelled = job(1, state=JobState.CANCELLED, submit_time=at(1), start_time=at(5), end_time=at(5))
    samples = history([cancelled], [], _LOOKS)
    assert [seen_at(samples, second)[:2] for second in (0, 2, 6)] == [(0, 0), (1, 0), (0, 0)]


def test_prices_are_those_of_the_looks() -> None:
    samples = history(_JOBS, _INTENTS, [look(0), look(5, 2.5), look(10)])
    assert {sample.at: sample.usd_per_hour for sample in samples if sample.usd_per_hour} == {
        at(second): 2.5 for second in (5, 6, 7.6, 8, 9)
    }


def test_without_a_look_there_is_nothing(tmp_path: Path) -> None:
    assert history(_JOBS, _INTENTS, []) == ()


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_it_is_drawn(tmp_path: Path, suffix: str) -> None:
    chart = tmp_path / f"chart{suffix}"
    write_chart([Series("demo", history(_JOBS, _INTENTS, _LOOKS))], chart)
    assert chart.stat().st_size > 1000
