"""Times, money and names as a person reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.cli.show import clock, hosts, number, span, usd


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-3, "0.0 s"),
        (0.44, "0.4 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (184, "3 min 4 s"),
        (3599.7, "1 h"),
        (7500, "2 h 5 min"),
        (86_400, "1 d"),
        (273_600, "3 d 4 h"),
    ],
)
def test_a_span(seconds: float, words: str) -> None:
    assert span(seconds) == words


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_longer_span_never_has_a_shorter_first_part(one: float, other: float) -> None:
    units = {"s": 1, "min": 60, "h": 3600, "d": 86_400}

    def least_s(words: str) -> float:
        parts = words.split()
        return sum(float(n) * units[u] for n, u in zip(parts[::2], parts[1::2], strict=True))

    assert least_s(span(min(one, other))) <= least_s(span(max(one, other)))


def test_a_time_is_told_in_the_zone_of_now() -> None:
    zone = timezone(timedelta(hours=2))
    now = datetime(2026, 11, 21, 1, 0, tzinfo=zone)
    assert clock(datetime(2026, 11, 20, 22, 30, tzinfo=UTC), now) == "00:30:00"
    assert clock(datetime(2026, 11, 20, 21, 30, tzinfo=UTC), now) == "Nov 20 23:30:00"


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (0, "$0.00"),
        (12.4, "$12.40"),
        (1234.5, "$1,234.50"),
        (0.0042, "$0.0042"),
        (0.000001, "less than $0.0001"),
    ],
)
def test_money(amount: float, words: str) -> None:
    assert usd(amount) == words


def test_numbers_and_hosts() -> None:
    assert (number(1, "node"), number(1200, "node")) == ("1 node", "1,200 nodes")
    assert hosts(["cpu-2", "cpu-1"]) == "cpu-[1-2]"
    assert hosts(["not a name", "a"]) == "a,not a name"
