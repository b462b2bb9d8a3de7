"""The test of many measures at once: how often it is wrong where nothing differs, and what it finds where something does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.lab_comparisons import differences, power, wrong
from tidepool.lab.statistics.comparison import RATE
from tidepool.lab.statistics.max_test import adjusted_p_values


@pytest.mark.slow
@pytest.mark.parametrize(("repeats", "tails"), [(5, "normal"), (5, "heavy"), (10, "heavy")])
def test_where_nothing_differs_it_is_wrong_no_more_often_than_it_says(repeats: int, tails: str) -> None:
    campaigns = 200
    rate = wrong(np.random.default_rng(repeats), campaigns, repeats, tails)
    # Three standard deviations above; and it is a test: it is wrong now and then.
    assert 0 < rate <= RATE + 3 * np.sqrt(RATE * (1 - RATE) / campaigns)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("repeats", "figures", "noise", "least"),
    [(5, 36, 0.01, 0.9), (5, 12, 0.015, 0.9), (5, 3, 0.025, 0.7), (10, 36, 0.03, 0.9), (10, 12, 0.04, 0.8)],
)
def test_a_tenth_is_found_among_many_figures(repeats: int, figures: int, noise: float, least: float) -> None:
    assert power(np.random.default_rng(repeats * figures), 60, repeats, figures, noise) >= least


def test_differences_that_are_constant_are_as_clear_as_can_be_and_none_is_none() -> None:
    p_values = adjusted_p_values(np.array([[0.1, 0.0, -0.1]] * 6))
    assert p_values[0] == p_values[2] <= 0.001
    assert p_values[1] == 1.0


def test_one_repeat_shows_nothing() -> None:
    assert adjusted_p_values(np.array([[5.0, 0.1]])).tolist() == [1.0, 1.0]


def test_more_measures_make_none_clearer() -> None:
    drawn = differences(np.random.default_rng(1), 6, 12, 0.02, "normal")
    drawn[:, 0] += np.log(1.1)
    alone = adjusted_p_values(drawn[:, :1])[0]
    among = adjusted_p_values(drawn)[0]
    assert alone <= among <= 12 * alone + 5e-3  # no worse than Bonferroni, but for the chance of the draws


@given(seed=st.integers(0, 1000), blocks=st.integers(2, 12), scale=st.floats(1e-6, 1e6))
def test_it_depends_on_neither_units_nor_sides_nor_the_order_of_measures(
    seed: int, blocks: int, scale: float
) -> None:
    drawn = differences(np.random.default_rng(seed), blocks, 5, 0.1, "normal") + 0.05
    p_values = adjusted_p_values(drawn)
    assert ((p_values > 0) & (p_values <= 1)).all()
    assert adjusted_p_values(drawn * scale) == pytest.approx(p_values, abs=2e-3)
    assert adjusted_p_values(-drawn) == pytest.approx(p_values, abs=2e-3)
    assert adjusted_p_values(drawn[:, ::-1])[::-1] == pytest.approx(p_values, abs=2e-3)
