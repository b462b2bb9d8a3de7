"""Money: what a month has cost, what it is bound to cost, and what that leaves."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scaling.decide.cluster_states import AT, cluster_state, fleet, job, node, running, seconds, spec
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.budget import (
    Books,
    books,
    month_end,
    node_usd,
    own_usd_per_hour,
    spent,
    with_machines,
)
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decide.limits import Limits, limits
from tidepool.scaling.decide.reconcile import reconcile
from tidepool.scaling.memory import MachineTime, Memory, Spent, outlasting
from tidepool.scaling.usage import month_begin

#: From AT until the end of November.
LEFT_H = 9.5 * 24


def priced(usd: float = 2, **changes: Any) -> ClusterSpec:
    return spec(fleet(infrastructures=[{"name": "local", "price_usd_per_hour": usd}], **changes))


def kept(seen: ClusterState, memory: Memory | None = None) -> Books:
    memory = memory or Memory()
    return books(seen, memory, reconcile(seen, memory))


def room(seen: ClusterState, memory: Memory | None = None) -> Limits:
    memory = memory or Memory()
    book = reconcile(seen, memory)
    return limits(seen.spec, seen.at, memory, book, books(seen, memory, book), {})


def test_months_begin_and_end_in_utc() -> None:
    assert month_begin(AT) == datetime(2026, 11, 1, tzinfo=UTC)
    assert month_end(AT) == datetime(2026, 12, 1, tzinfo=UTC)
    assert month_end(datetime(2026, 12, 31, 23, 59, tzinfo=UTC)) == datetime(2027, 1, 1, tzinfo=UTC)
    assert month_end(AT) - AT == timedelta(hours=LEFT_H)


def test_what_was_spent_adds_up_and_begins_anew_with_the_month() -> None:
    assert spent(None, AT, 3) == Spent("2026-11", 0, AT)
    assert spent(Spent("2026-11", 10, AT - seconds(1800)), AT, 3) == Spent("2026-11", 11.5, AT)
    new = datetime(2026, 12, 1, 0, 30, tzinfo=UTC)
    assert spent(Spent("2026-11", 10, new - seconds(3600)), new, 3) == Spent("2026-12", 1.5, new)


def test_while_the_cluster_was_down_no_machine_cost_anything() -> None:
    had = {"2026-11": {"cpu": MachineTime(3600, 3)}}
    before = outlasting(Memory(spent=Spent("2026-11", 10, AT, had, since=AT - seconds(3600)))).spent
    assert before is not None
    # In the same month, and in another.
    for later, usd in ((AT + timedelta(days=2), 10), (datetime(2026, 12, 2, tzinfo=UTC), 0)):
        back = with_machines(spent(before, later, 3), before, {"cpu": (1, 3)})
        assert back == Spent(f"{later:%Y-%m}", usd, later, had, since=AT - seconds(3600))
        hour = with_machines(spent(back, later + seconds(3600), 3), back, {"cpu": (1, 3)})
        assert hour.usd == usd + 3


def test_a_clock_that_goes_back_spends_nothing_twice() -> None:
    before = Spent("2026-11", 10, AT + seconds(60))
    assert spent(before, AT, 3) == before


@given(st.lists(st.integers(1, 90_000), max_size=20), st.floats(0, 100))
@settings(deadline=None, max_examples=50)
def test_looking_often_or_seldom_comes_to_the_same(steps: list[int], rate: float) -> None:
    often, at = Spent("2026-11", 0, AT), AT
    for step in steps:
        at += seconds(step)
        often = spent(often, at, rate)
    once = spent(Spent("2026-11", 0, AT), at, rate) if steps else often
    assert often.month == once.month
    assert often.usd == pytest.approx(once.usd)


def test_the_clusters_own_machines_cost_too() -> None:
    controller = {
        "infrastructure": {"name": "local", "price_usd_per_hour": 0.5},
        "accounting": {},
        "login_machines": 2,
    }
    of = spec(controller=controller)
    assert own_usd_per_hour(of) == 2
    assert kept(cluster_state(of=of)).projected_usd == pytest.approx(2 * LEFT_H)


def test_a_node_costs_until_its_jobs_time_limit_and_idle_behind_it() -> None:
    """The job has 3540 s still, the fleet's idle time-out is 300 s."""
    seen = cluster_state(node("cpu-1", "MIXED"), of=priced(), jobs=(running(1, "cpu-1"),))
    found = kept(seen)
    assert found.usd_per_hour == 2
    assert found.bound_usd == pytest.approx(2 * 3540 / 3600)
    assert found.committed_usd == pytest.approx(2 * 3840 / 3600)


def test_a_job_without_a_limit_binds_the_rest_of_the_month() -> None:
    seen = cluster_state(node("cpu-1", "MIXED"), of=priced(), jobs=(running(1, "cpu-1", time_limit_s=None),))
    assert kept(seen).committed_usd == pytest.approx(2 * LEFT_H)


def test_min_nodes_bind_the_rest_of_the_month() -> None:
    seen = cluster_state(node("cpu-1"), node("cpu-2"), of=priced(min_nodes=1))
    assert kept(seen).committed_usd == pytest.approx(2 * LEFT_H + 2 * 300 / 3600)


def test_no_node_costs_beyond_the_month() -> None:
    late = datetime(2026, 11, 30, 23, 0, tzinfo=UTC)
    assert node_usd(2, timedelta(hours=5), late) == 2
    assert node_usd(2, None, late) == 2
    assert node_usd(2, timedelta(minutes=30), late) == 1


def test_launching_again_is_no_cheaper_for_looking_twice() -> None:
    seen = cluster_state(of=priced(), jobs=(job(1, cpus=4),))
    first = decide(seen, Memory())
    assert first.memory.launches["cpu-1"].lasting_s == 3600
    second = decide(replace(seen, desired=first.desired), first.memory)
    assert second.cost.month_projected_usd == pytest.approx(2 * (3600 + 60 + 300) / 3600)


def test_what_may_be_launched_gets_less_as_it_is_launched() -> None:
    of = priced(10)
    capped = of.model_copy(update={"limits": of.limits.model_copy(update={"budget_usd_per_month": 50.0})})
    left = room(cluster_state(of=capped))
    first = left.more("cpu", 8, {}, time_limit_s=3600)
    assert first.nodes == 4
    assert first.usd_per_node == pytest.approx(11)
    assert left.more("cpu", 8, {"cpu": 2}, time_limit_s=3600, launched_usd=22).nodes == 2
    # Not counted by who asks: then they may cost all of the month.
    assert left.more("cpu", 8, {"cpu": 2}, time_limit_s=3600).nodes == 0
    assert left.with_launched({"cpu": 2}, 22).more("cpu", 8, {}, time_limit_s=3600).nodes == 2


def test_what_costs_nothing_is_not_kept_from_being_made_by_a_budget() -> None:
    of = spec(limits={"budget_usd_per_month": 0, "price_usd_per_hour": 0})
    assert room(cluster_state(of=of)).more("cpu", 8, {}, time_limit_s=None).nodes == 8


def test_a_fleet_that_there_is_none_of_gets_nothing() -> None:
    assert room(cluster_state()).more("gpu", 1, {}, time_limit_s=None).nodes == 0
