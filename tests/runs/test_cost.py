"""What a run's cluster costs: as its scaler counted, and for the time before and after by what is there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.cluster.specs import spec_mapping
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import read_spec
from tidepool.runs.cost import cost
from tidepool.scaling.memory import MachineTime, Spent

AT = datetime(2026, 11, 30, 23, tzinfo=UTC)
HOUR = timedelta(hours=1)


def _spec() -> ClusterSpec:
    own = {"name": "local", "price_usd_per_hour": 0.5}
    node = {"name": "local", "price_usd_per_hour": 2}
    mapping = spec_mapping(controller={"shape": {"cpus": 1, "memory": "1GiB"}, "infrastructure": own})
    mapping["fleets"][0]["infrastructures"] = [node]
    return read_spec(mapping)


def test_before_the_scaler_has_looked_what_is_there_costs_since_the_beginning() -> None:
    found = cost(_spec(), AT, None, {"cpu": 2}, AT + 3 * HOUR)
    # A controller and a login machine are its own.
    assert found.node_hours == {"": pytest.approx(6), "cpu": pytest.approx(6)}
    assert found.usd == pytest.approx(3 * (2 * 0.5 + 2 * 2))


def test_what_was_counted_is_taken_over_months_and_infrastructures() -> None:
    times = FrozenDict(
        {
            "2026-11": FrozenDict({"": MachineTime(7200, 1.0), "cpu": MachineTime(3600, 2.0)}),
            "2026-12": FrozenDict({"": MachineTime(7200, 1.0), "cpu@spot": MachineTime(1800, 0.25)}),
        }
    )
    spent = Spent("2026-12", 2.0, AT + 2 * HOUR, times, AT)
    found = cost(_spec(), AT, spent, {"cpu": 1}, AT + 2 * HOUR)
    assert found.node_hours == {"": pytest.approx(4), "cpu": pytest.approx(1.5)}
    assert found.usd == pytest.approx(4.25)
    # An hour before the first look, and half of one since the last.
    more = cost(_spec(), AT - HOUR, spent, {"cpu": 1}, AT + 2.5 * HOUR)
    assert more.node_hours == {"": pytest.approx(7), "cpu": pytest.approx(3)}
    assert more.usd == pytest.approx(4.25 + 1.5 * (2 * 0.5 + 2))


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    assert cost(_spec(), AT, None, {"cpu": 1}, AT - HOUR).usd == 0
