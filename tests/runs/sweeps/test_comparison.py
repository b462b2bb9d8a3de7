"""The comparison of a sweep: medians and spread of what succeeded, what did not, and what differs unasked."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.sweeps.records import ended, sweep
from tidepool.cluster.frozen import FrozenDict, frozen
from tidepool.runs.sweeps.comparison import compare
from tidepool.runs.sweeps.sweep import Variation


def test_each_point_has_its_measures_and_their_spread() -> None:
    swept = sweep()
    found = compare(
        swept,
        {
            "r0-0": ended(swept, "r0-0", 100, usd=1.0),
            "r1-0": ended(swept, "r1-0", 140, usd=1.4),
            "r0-1": ended(swept, "r0-1", 60, cpus=4),
            "r1-1": ended(swept, "r1-1", 50, cpus=2),
        },
    )
    two, four = found.points
    assert (two.runs, two.succeeded) == (2, 2)
    time = two.measures["time"]
    assert (time.median, time.least, time.most, time.values) == (120, 100, 140, (100, 140))
    assert two.measures["jobs"].median == 60
    assert two.measures["cost"].most == 1.4
    assert "cost" not in four.measures
    assert two.measures["efficiency"].values == pytest.approx((0.5, 0.5)), "one node of 2 CPUs, 2 for half"
    assert four.measures["efficiency"].values == pytest.approx((0.5, 0.25)), "one node of 4 CPUs"
    assert found.is_whole
    assert found.differs == {}
    assert [each.name for each in found.measures] == [
        "time", "jobs", "cost", "node hours", "CPU time", "efficiency",
    ]  # fmt: skip


def test_one_that_failed_spoils_no_other() -> None:
    swept = sweep()
    runs = {
        "r0-0": ended(swept, "r0-0", 100),
        "r1-0": ended(swept, "r1-0", 9000, "failed"),
        "r0-1": None,
        "r1-1": replace(ended(swept, "r1-1", 50), phase="down"),
    }
    found = compare(swept, runs)
    assert [(each.runs, each.succeeded) for each in found.points] == [(2, 1), (2, 0)]
    assert [*found.points[0].measures["time"].values] == [100]
    assert found.points[1].measures == {}
    assert [id for _, id, _ in found.amiss] == ["r0-1", "r1-0", "r1-1"]
    assert not found.is_whole


def test_what_differs_and_was_not_varied_is_told() -> None:
    swept = sweep(
        Variation("fleets.cpu.shape", ({"cpus": 2, "memory": "1GiB"}, {"cpus": 4, "memory": "2GiB"}))
    )
    runs = {each.id: ended(swept, each.id, 10) for each in swept.runs}
    assert not compare(swept, runs).differs
    one = runs["r0-0"]
    spec = {**one.order.spec, "slurm_conf": {"SchedulerParameters": "x"}}
    other = replace(one, order=replace(one.order, spec=frozen(spec)), images=FrozenDict({"debian-12": "b"}))
    found = compare(swept, {**runs, "r0-0": other})
    assert found.differs == {
        "image debian-12": ("", "b"),
        "slurm_conf.SchedulerParameters": ("", "x"),
    }


@given(st.lists(st.tuples(st.floats(1, 1e5), st.booleans()), min_size=4, max_size=4))
def test_figures_are_of_the_runs_that_succeeded_alone(times: list[tuple[float, bool]]) -> None:
    swept = sweep()
    runs = {
        each.id: ended(swept, each.id, seconds, "succeeded" if good else "failed")
        for each, (seconds, good) in zip(swept.runs, times, strict=True)
    }
    found = compare(swept, runs)
    for number, point in enumerate(found.points):
        good = [
            s
            for each, (s, is_good) in zip(swept.runs, times, strict=True)
            if is_good and each.point == number
        ]
        assert point.succeeded == len(good)
        if good:
            time = point.measures["time"]
            assert time.median == pytest.approx(median(good))
            assert time.least <= time.median <= time.most
        else:
            assert not point.measures
    assert len([*found.amiss]) == sum(not is_good for _, is_good in times)
