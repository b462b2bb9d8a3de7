"""Cycles are looked for between turns: soon at rest, seldom at work, and never by Python itself."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tidepool.scaling.daemon.daemon import Garbage


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """Python looks for them by itself again afterwards."""
    yield
    gc.enable()


class _Ring:
    def __init__(self) -> None:
        self.itself = self


def rings() -> int:
    return sum(isinstance(each, _Ring) for each in gc.get_objects())


def test_at_rest_they_go_after_a_minute_and_at_work_after_a_quarter_of_an_hour() -> None:
    now_s = 0.0
    garbage = Garbage(lambda: now_s)
    assert not gc.isenabled()
    _Ring()
    now_s = 61.0
    garbage.between_turns(0.05)
    assert rings() == 1
    garbage.between_turns(1.0)
    assert rings() == 0
    _Ring()
    now_s += 899
    garbage.between_turns(0.05)
    assert rings() == 1
    now_s += 2
    garbage.between_turns(0.05)
    assert rings() == 0
    garbage.close()
    assert gc.isenabled()
