"""The model's own properties, in many draws: shares of sizes, the distribution of run times, the day."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tidepool.lab.generators.lublin import (
    POWER_OF_TWO_SHARE,
    RUN_TIMES,
    SERIAL_SHARE,
    arrivals_by_model,
    day_weights,
    run_time_s,
    tasks_by_model,
)
from tidepool.lab.generators.registry import make_workload
from tidepool.lab.workload import Sleep


def test_sizes_have_the_published_shares() -> None:
    chance = Random(1)
    sizes = np.array([tasks_by_model(chance, 128) for _ in range(20_000)])
    assert np.mean(sizes == 1) == pytest.approx(SERIAL_SHARE, abs=0.01)
    powers = np.isin(sizes, 2 ** np.arange(1, 8))
    # Others are powers of two by chance as well: those that round to 2, above all.
    assert POWER_OF_TWO_SHARE <= np.mean(powers) <= POWER_OF_TWO_SHARE + 0.1
    assert sizes.min() == 1
    assert sizes.max() == 128
    logarithms = np.log2(sizes[sizes > 2])
    assert np.mean(logarithms <= 4.5) == pytest.approx(0.8, abs=0.06)  # the first stage, without sizes of 2


@given(largest=st.integers(1, 300), seed=st.integers(0, 10_000))
def test_no_size_is_beyond_the_system(largest: int, seed: int) -> None:
    assert 1 <= tasks_by_model(Random(seed), largest) <= largest


@pytest.mark.parametrize("tasks", [1, 64])
def test_run_times_are_of_the_published_distribution(tasks: int) -> None:
    chance = Random(2)
    logarithms = np.log([run_time_s(chance, tasks) for _ in range(4000)])
    share = -0.0054 * tasks + 0.78
    first, second = (stats.gamma(shape, scale=scale) for shape, scale in RUN_TIMES)

    def below(x: np.ndarray) -> np.ndarray:
        whole = share * first.cdf(12.0) + (1 - share) * second.cdf(12.0)
        return np.asarray((share * first.cdf(x) + (1 - share) * second.cdf(x)) / whole)

    assert stats.kstest(logarithms, below).pvalue > 0.01


def test_a_day_is_a_day_and_its_rush_is_in_the_early_afternoon() -> None:
    weights = day_weights()
    assert weights.shape == (48,)
    assert weights.sum() == pytest.approx(48)
    assert 26 <= int(weights.argmax()) <= 29  # half hours: one to half past two
    assert weights.argmin() in (8, 9, 10, 11)  # about five in the morning


def test_arrivals_follow_the_day() -> None:
    hours = (arrivals_by_model(Random(3), 20_000, start_hour=7) / 3600 + 7) % 24
    counted = np.histogram(hours, bins=48, range=(0, 24))[0] / 20_000 * 48
    assert counted == pytest.approx(day_weights(), abs=0.35)


@given(seed=st.integers(0, 1000), start_hour=st.integers(0, 23), number=st.integers(1, 60))
def test_arrivals_begin_at_once_and_go_on(seed: int, start_hour: int, number: int) -> None:
    arrivals = arrivals_by_model(Random(seed), number, start_hour)
    assert arrivals.shape == (number,)
    assert arrivals[0] == 0
    assert (np.diff(arrivals) > 0).all()


@settings(deadline=None, max_examples=30)
@given(load=st.floats(0.1, 3), max_tasks=st.integers(1, 64), seed=st.integers(0, 1000))
def test_the_offered_load_is_what_was_asked_for(load: float, max_tasks: int, seed: int) -> None:
    made = make_workload("mixed", "lublin", {"load": load, "max_tasks": max_tasks, "number": 20}, seed)
    demand_s = sum(job.tasks * job.program.seconds for job in made.jobs if isinstance(job.program, Sleep))
    assert demand_s / (max_tasks * made.jobs[-1].submit_at_s) == pytest.approx(load, rel=1e-3)


def test_time_is_scaled_in_both_run_times_and_arrivals() -> None:
    slow, fast = (make_workload("m", "lublin", {"time_scale": scale}, 5).jobs for scale in (1.0, 0.1))
    assert [job.tasks for job in slow] == [job.tasks for job in fast]
    assert fast[-1].submit_at_s == pytest.approx(slow[-1].submit_at_s / 10, rel=1e-6)
    for one, other in zip(slow, fast, strict=True):
        assert isinstance(one.program, Sleep)
        assert isinstance(other.program, Sleep)
        assert other.program.seconds == pytest.approx(one.program.seconds / 10, abs=0.001)
