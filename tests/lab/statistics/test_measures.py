"""Figures of a trial, by hand: each of a few jobs whose times are round."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.outcomes import outcome
from tidepool.lab.campaign import Trial
from tidepool.lab.errors import LabError
from tidepool.lab.generators.registry import KINDS, make_workload
from tidepool.lab.outcome import HostSample, JobOutcome, ProcessRecord, TrialOutcome, UsageSample
from tidepool.lab.statistics.history import histories, with_free_processors
from tidepool.lab.statistics.measure import MEASURES, measure_of
from tidepool.lab.statistics.measures import measures_of
from tidepool.lab.workload import Job, RunKernel, Sleep, Workload


def process(
    start: float, end: float | None, rank: int = 0, attempt: int = 1, code: int | None = 0, **figures: float
) -> ProcessRecord:
    return ProcessRecord(rank, attempt, "m", (0,), start, end, None if end is None else code, figures)


def ran(name: str, submitted: float, *processes: ProcessRecord, succeeded: bool = True) -> JobOutcome:
    return JobOutcome(name, submitted, submitted, processes, "", succeeded)


def figures(jobs: list[Job], outcomes: list[JobOutcome], cpus: int = 4, **parts: Any) -> dict[str, float]:
    trial = replace(TrialOutcome("s", "w", 1, "", 100.0, tuple(outcomes), (), ()), **parts)
    return dict(measures_of(trial, Workload("w", "bag", 1, tuple(jobs)), cpus))


def job(name: str, seconds: float = 10.0, **said: Any) -> Job:
    return Job(name, 0.0, Sleep(seconds), **said)


def test_two_jobs_one_after_the_other() -> None:
    found = figures(
        [job("a"), job("b")],
        [ran("a", 0.0, process(2.0, 12.0)), ran("b", 1.0, process(13.0, 21.0))],
        cpus=2,
    )
    assert found["submit_to_start_seconds"] == 7.0  # of 2 and 12
    assert found["submit_to_start_seconds_p95"] == pytest.approx(11.5)
    assert found["turnaround_seconds"] == 16.0  # of 12 and 20
    assert found["bounded_slowdown"] == pytest.approx((12 / 10 + 20 / 8) / 2)
    assert found["makespan_seconds"] == 21.0
    assert found["throughput_jobs_per_second"] == pytest.approx(2 / 21)
    assert found["utilization"] == pytest.approx(18 / (2 * 21))
    assert found["restarts"] == found["unexpected_jobs"] == 0
    assert found.keys() <= MEASURES.keys() | {"launch_seconds_at_1"}


def test_a_short_job_counts_as_one_of_a_second() -> None:
    found = figures([job("a", 0.1)], [ran("a", 0.0, process(3.0, 3.1))])
    assert found["bounded_slowdown"] == pytest.approx(3.1)


def test_a_gang_has_started_when_all_of_it_has() -> None:
    found = figures([job("g", tasks=2)], [ran("g", 1.0, process(2.0, 12.0), process(5.0, 13.0, rank=1))])
    assert found["submit_to_start_seconds"] == 4.0
    assert found["gang_skew_seconds"] == 3.0
    assert found["launch_seconds_at_2"] == 4.0
    assert found["utilization"] == pytest.approx(18 / (4 * 12))


def test_a_gang_of_which_a_task_never_started_has_no_figures_but_that_it_failed() -> None:
    found = figures([job("g", tasks=2)], [ran("g", 1.0, process(2.0, 12.0), succeeded=False)])
    assert found == {"restarts": 0.0, "unexpected_jobs": 1.0}


def test_jobs_that_wait_for_others_are_ready_when_those_have_ended() -> None:
    jobs = [job("a"), job("b", after=("a",))]
    first = ran("a", 0.0, process(1.0, 11.0))
    by_scheduler = figures(jobs, [first, ran("b", 0.0, process(14.0, 24.0))])
    # Submitted only then: it is the same to the job.
    by_driver = figures(jobs, [first, ran("b", 12.0, process(14.0, 24.0))])
    assert (
        by_scheduler["submit_to_start_seconds"] == by_driver["submit_to_start_seconds"] == 2.0
    )  # of 1 and 3


def test_what_was_killed_and_ran_again_counts_by_its_last_attempt() -> None:
    found = figures(
        [job("a")],
        [ran("a", 0.0, process(1.0, None), process(20.0, 30.0, attempt=2))],
    )
    assert found["restarts"] == 1
    assert found["unexpected_jobs"] == 0
    assert found["submit_to_start_seconds"] == 1.0
    assert found["turnaround_seconds"] == 30.0
    assert found["bounded_slowdown"] == 3.0
    assert found["utilization"] == pytest.approx(10 / (4 * 30))


@pytest.mark.parametrize(("code", "succeeded", "unexpected"), [(3, False, 0), (0, True, 1), (3, True, 1)])
def test_jobs_that_are_to_fail_are_as_expected_when_they_do(
    code: int, succeeded: bool, unexpected: int
) -> None:
    found = figures(
        [job("a", exit_code=3)], [ran("a", 0.0, process(1.0, 11.0, code=code), succeeded=succeeded)]
    )
    assert found["unexpected_jobs"] == unexpected


def test_jobs_with_priority_have_a_figure_of_their_own() -> None:
    jobs = [job("low"), job("high", priority=100)]
    found = figures(jobs, [ran("low", 0.0, process(1.0, 11.0)), ran("high", 0.0, process(5.0, 15.0))])
    assert found["priority_submit_to_start_seconds"] == 5.0


def test_launches_are_those_that_found_processors_free() -> None:
    jobs = [job("a", cpus_per_task=2), job("b", cpus_per_task=2), job("c", cpus_per_task=2)]
    outcomes = [
        ran("a", 0.0, process(1.0, 11.0)),
        ran("b", 5.0, process(11.5, 20.0)),
        ran("c", 30.0, process(33.0, 40.0)),
    ]
    trial = TrialOutcome("s", "w", 1, "", 100.0, tuple(outcomes), (), ())
    found = with_free_processors(histories(trial, Workload("w", "bag", 1, tuple(jobs))), cpus=3)
    assert [each.job.name for each in found] == ["a", "c"]
    assert figures(jobs, outcomes, cpus=3)["launch_seconds_at_1"] == 2.0


def test_kernels_figures_are_medians_of_their_processes() -> None:
    jobs = [Job("k", 0.0, RunKernel("stream"), tasks=3)]
    outcomes = [
        ran("k", 0.0, *(process(1.0, 2.0, rank=n, copy_bytes_per_second=n * 1e9) for n in range(3))),
    ]
    assert figures(jobs, outcomes)["copy_bytes_per_second"] == 1e9


def test_the_schedulers_price_is_what_its_parts_have_used_meanwhile() -> None:
    usage = (
        UsageSample(0.0, "d", 5.0, 100),
        UsageSample(1.0, "d", 7.0, 300),
        UsageSample(2.0, "d", 1.0, 200),  # begun anew
        UsageSample(0.0, "n", 1.0, 10),
        UsageSample(2.0, "n", 1.5, 10),
    )
    host = (HostSample(0.0, 0, 0, 0, energy_j=10.0), HostSample(2.0, 0, 0, 0, energy_j=40.0))
    found = figures([], [], usage=usage, host=host, requests={"a": 2, "b": 3})
    assert found == {
        "scheduler_cpu_seconds": 3.5,
        "scheduler_memory_bytes": 310.0,
        "api_requests": 5.0,
        "energy_joules": 30.0,
    }


def test_figures_that_are_not_there_are_not_made_up() -> None:
    assert figures([job("a")], []) == {}
    assert figures([job("a")], [ran("a", 0.0, succeeded=False)]) == {"restarts": 0.0, "unexpected_jobs": 1.0}


@given(
    kind=st.sampled_from(sorted(set(KINDS) - {"swf"})), seed=st.integers(0, 99), wait_s=st.floats(0.01, 100)
)
def test_figures_of_any_workload_are_finite_and_known(kind: str, seed: int, wait_s: float) -> None:
    workload = make_workload("w", kind, {}, seed)
    found = measures_of(outcome(Trial("one", "w", 1), workload, wait_s), workload, cpus=16)
    for name, value in found.items():
        assert measure_of(name).label
        assert 0 <= value < float("inf")
    assert found["submit_to_start_seconds"] == pytest.approx(wait_s, abs=0.1)  # later tasks start later
    assert found["bounded_slowdown"] >= 1
    assert found["unexpected_jobs"] == 0


def test_names_of_kernels_figures_say_their_unit_and_which_way_is_better() -> None:
    bandwidth = measure_of("bandwidth_bytes_per_second_at_65536")
    assert (bandwidth.unit, bandwidth.better, bandwidth.label) == ("B/s", "higher", "bandwidth, 64 KiB")
    latency = measure_of("one_way_seconds_at_8")
    assert (latency.unit, latency.better, latency.label) == ("s", "lower", "one way, 8 B")
    assert measure_of("matrix_flops_per_second").unit == "FLOP/s"
    assert measure_of("launch_seconds_at_4").label == "launch of 4 tasks, median"
    with pytest.raises(LabError, match="has no unit in its name"):
        measure_of("speed")
