"""How often nodes that are waited for are looked at."""

from __future__ import annotations

import pytest

from tidepool.provider.node_watch import pause_s


@pytest.mark.parametrize(("took_s", "pause"), [(0.0, 0.03), (0.01, 0.05), (0.05, 0.25), (0.2, 0.25)])
def test_a_controller_that_answers_soon_is_asked_often(took_s: float, pause: float) -> None:
    assert pause_s(took_s) == pytest.approx(pause)


@pytest.mark.parametrize(("took_s", "pause"), [(0.5, 0.5), (1.5, 1.5), (15.0, 2.0)])
def test_one_that_takes_long_has_half_of_the_time_for_its_work(took_s: float, pause: float) -> None:
    assert pause_s(took_s) == pause
