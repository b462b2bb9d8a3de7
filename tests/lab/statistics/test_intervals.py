"""Medians with their intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidepool.lab.statistics.intervals import median_interval


def test_one_value_has_no_interval() -> None:
    found = median_interval([3.0])
    assert (found.median, found.low, found.high, found.number) == (3.0, None, None, 1)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12))
@example([0.0, 1.2604963422583672e-175])
def test_it_holds_the_median_and_lies_among_the_values(values: list[float]) -> None:
    found = median_interval(values)
    assert found.low is not None
    assert found.high is not None
    assert min(values) <= found.low <= found.median <= found.high <= max(values)
    assert median_interval(values) == found


@pytest.mark.slow
def test_it_holds_the_true_median_about_as_often_as_it_says() -> None:
    chance = np.random.default_rng(4)
    campaigns = 150
    held = 0
    for _ in range(campaigns):
        found = median_interval(chance.lognormal(0.0, 0.3, size=10).tolist())
        held += found.low is not None and found.high is not None and found.low <= 1.0 <= found.high
    assert held / campaigns >= 0.9
