"""Budgets of accounts: which are spent, whose jobs are no demand, what is told of them, and what machines had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import runs
from tests.scaling.decide.cluster_states import AT, cluster_state, fleet, job, seconds, spec
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.account_budgets import account_budgets, warnings
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decision import AccountBudget, Decision, Launch
from tidepool.scaling.memory import BudgetUse, MachineTime, Memory, Spent
from tidepool.scaling.usage import SECOND_US, AccountUsage, Use

ACCOUNTS: list[dict[str, Any]] = [
    {"name": "physics", "budget": {"usd_per_month": 10, "node_hours_per_month": 100}},
    {"name": "optics", "parent": "physics"},
    {"name": "biology", "budget": {"node_hours_per_month": 5}},
    {"name": "free"},
]
HOUR = 3600


def usage(until: datetime = AT, **hours: float) -> AccountUsage:
    """What accounts had, in hours of whole machines of the fleet `cpu`."""
    found = {
        account: {"cpu": Use(int(each * HOUR), int(each * HOUR), int(each * HOUR * SECOND_US))}
        for account, each in hours.items()
    }
    return AccountUsage(f"{until:%Y-%m}", until, found)


def seen(known: AccountUsage | None, *accounts: str, usd: float = 2, **changes: Any) -> ClusterState:
    """One job waits of each of these accounts."""
    told = spec(
        fleet(infrastructures=[{"name": "local", "price_usd_per_hour": usd}]),
        controller={"accounting": {}},
        accounts=ACCOUNTS,
    )
    jobs = tuple(job(number, account=account) for number, account in enumerate(accounts, 1))
    return replace(cluster_state(of=told, jobs=jobs), usage=known, **changes)


SPEC = seen(None).spec


def launched(decision: Decision) -> int:
    return sum(len(action.nodes) for action in decision.actions if isinstance(action, Launch))


def test_nothing_is_launched_for_an_account_whose_budget_or_whose_parents_is_spent() -> None:
    decision = decide(seen(usage(optics=5), "physics", "optics"), Memory())
    assert launched(decision) == 0
    assert decision.budgets["physics"].is_spent
    for each in decision.waiting.values():
        assert each.standing == "limit"
        assert each.reason == (
            "the budget of the account physics is spent ($10.00 of $10.00, 5.00 of 100 node-hours, as of 2026-11-21 12:00 UTC); "
            "it begins anew on 2026-12-01 UTC"
        )
    assert launched(decide(seen(usage(optics=4.99), "physics", "optics"), Memory())) == 1
    others = decide(seen(usage(optics=5), "optics", "biology", "free"), Memory())
    assert others.waiting[1].standing == "limit"
    assert {others.waiting[number].standing for number in (2, 3)} == {"coming"}


def test_an_account_that_somebody_made_below_one_uses_its_budget() -> None:
    known = replace(usage(theirs=5), parents={"theirs": "optics", "optics": "physics"})
    decision = decide(seen(known, "theirs", "optics", "free"), Memory())
    assert {number: each.standing for number, each in decision.waiting.items()} == {
        1: "limit",
        2: "limit",
        3: "coming",
    }


def test_node_hours_are_a_budget_too() -> None:
    assert decide(seen(usage(biology=5)), Memory()).budgets["biology"].is_spent
    assert not decide(seen(usage(physics=4, optics=0.9)), Memory()).budgets["physics"].is_spent


def test_a_component_of_a_heterogeneous_job_holds_all_of_it() -> None:
    state = seen(usage(biology=5), usd=2)
    jobs = tuple(
        job(number, account=account, het_job_id=1) for number, account in ((1, "free"), (2, "biology"))
    )
    decision = decide(replace(state, jobs=jobs), Memory())
    assert launched(decision) == 0
    assert "biology" in decision.waiting[1].reason


def test_what_is_known_last_holds_and_of_what_nothing_is_known_no_job_begins() -> None:
    unknown = decide(seen(None, "optics", "free"), Memory())
    assert "is not known yet" in unknown.waiting[1].reason
    assert unknown.waiting[2].standing == "coming"
    kept = decide(seen(usage(optics=5)), Memory()).memory
    # slurmdbd does not answer: a daemon that was just started, and in the next month.
    assert launched(decide(seen(None, "optics"), kept)) == 0
    december = datetime(2026, 12, 1, 0, 5, tzinfo=UTC)
    assert launched(decide(seen(None, "optics", at=december), kept)) == 0
    assert launched(decide(seen(usage(december), "optics", at=december), kept)) == 1
    # What was seen before is no news.
    assert decide(seen(usage(AT - seconds(60)), "optics"), kept).budgets["physics"].is_spent


def test_money_is_what_machines_cost_on_average_of_the_month() -> None:
    spent = Spent(
        "2026-11", 40, AT, {"2026-11": {"cpu@aws": MachineTime(HOUR, 4), "cpu@local": MachineTime(HOUR, 0)}}
    )
    decision = decide(seen(usage(optics=3), usd=100), Memory(spent=spent))
    assert decision.budgets["physics"].usd == pytest.approx(6)


def at_price(usd_per_hour: float) -> Spent:
    """What machines cost on average of the month."""
    return Spent("2026-11", 0, AT, {"2026-11": {"cpu": MachineTime(HOUR, usd_per_hour)}})


@given(st.lists(st.tuples(st.floats(0, 8), st.floats(0, 3)), min_size=1, max_size=20))
@runs()
def test_what_is_spent_stays_so_whatever_prices_do_and_each_warning_is_told_once(
    looks: list[tuple[float, float]],
) -> None:
    known: Mapping[str, BudgetUse] = {}
    told, percent = [], 0
    for hours, usd in looks:
        had = usage(physics=hours, biology=hours)
        found = account_budgets(seen(had), had, at_price(usd), known)
        assert found["physics"].percent >= percent
        assert found["physics"].percent >= int(100 * hours * usd / 10) - 1
        known, news = warnings(SPEC, found, known)
        percent = found["physics"].percent
        told += [known[account].percent for account in news if account == "physics"]
        if percent >= 80:
            assert told[-1] == max(each for each in (80, 95, 100) if percent >= each)
    assert len(told) == len(set(told))


def test_what_was_used_of_a_budget_is_not_of_the_next_month() -> None:
    december = datetime(2026, 12, 1, 0, 5, tzinfo=UTC)
    before = decide(seen(usage(optics=5)), Memory())
    assert before.budgets["physics"].is_spent
    # A cheaper machine makes the month's average less.
    cheap = replace(before.memory, spent=at_price(0.1))
    assert decide(seen(usage(optics=5)), cheap).budgets["physics"].is_spent
    assert decide(seen(usage(december), at=december), cheap).budgets["physics"].usd == 0


def test_a_new_month_is_told_of_anew() -> None:
    told = {"physics": BudgetUse("2026-11", 95)}
    at = datetime(2026, 12, 21, tzinfo=UTC)
    used = AccountBudget(97, 100, 0, None, at, at + timedelta(days=30))
    assert warnings(SPEC, {"physics": used}, told)[1] == ("physics",)
    assert warnings(SPEC, {"physics": replace(used, as_of=AT)}, told)[1] == ()


def test_of_a_budget_that_was_raised_each_part_is_told_again() -> None:
    at = datetime(2026, 11, 21, tzinfo=UTC)
    used = AccountBudget(97, 100, 0, None, at, at + timedelta(days=30))
    known, _ = warnings(
        SPEC, {"physics": replace(used, usd_per_month=1000)}, {"physics": BudgetUse("2026-11", 95)}
    )
    assert warnings(SPEC, {"physics": used}, known)[1] == ("physics",)


def test_machine_time_is_counted_by_month_and_place() -> None:
    state = seen(usage(optics=1), "optics")
    first = decide(state, Memory())
    assert first.memory.spent is not None
    assert first.memory.spent.since == AT
    later = replace(state, at=datetime(2026, 12, 1, 1, tzinfo=UTC), desired=first.desired)
    spent = decide(later, first.memory).memory.spent
    assert spent is not None
    # One node, and the cluster's own three machines, which have no price.
    assert spent.machines["2026-11"] == {
        "": MachineTime(3 * 228 * HOUR, 0),
        "cpu": MachineTime(228 * HOUR, 456),
    }
    assert spent.machines["2026-12"] == {"": MachineTime(3 * HOUR, 0), "cpu": MachineTime(HOUR, 2)}
    assert spent.usd == pytest.approx(2)


def test_who_was_held_and_has_no_budget_any_more_is_remembered_while_there_is_a_slurmdbd() -> None:
    held = decide(seen(usage(biology=5)), Memory()).memory
    assert held.budgets["biology"].percent == 100
    accounts = [{"name": "physics", "budget": {"node_hours_per_month": 10}}, {"name": "biology"}]
    without = spec(fleet(), controller={"accounting": {}}, accounts=accounts)
    after = decide(replace(seen(usage()), spec=without), held).memory
    assert {name: use.percent for name, use in after.budgets.items()} == {"physics": 0, "biology": 100}
    assert decide(replace(seen(None), spec=spec(fleet())), held).memory.budgets == {}
