"""Budgets of accounts: what of each is used, which are spent, whose jobs wait for that, and what is told of it. Pure.

What is known last holds: while slurmdbd does not answer, and from one month to the next until it was asked again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.budget import month_end
from tidepool.scaling.decision import AccountBudget
from tidepool.scaling.memory import BudgetUse, Memory, Spent, located_fleet
from tidepool.scaling.usage import SECOND_US, AccountUsage

#: When it is told how much of a budget is used, in per cent.
WARNED_AT: Final = (80, 95, 100)
_HOUR_S: Final = 3600


def newest_usage(state: ClusterState, memory: Memory) -> AccountUsage | None:
    """Return what is known last of what accounts have used; None where none has a budget."""
    if not any(account.budget for account in state.spec.accounts):
        return None
    known = [each for each in (memory.usage, state.usage) if each is not None]
    return max(known, key=lambda each: each.until, default=None)


def account_budgets(
    state: ClusterState,
    usage: AccountUsage | None,
    spent: Spent | None,
    before: Mapping[str, BudgetUse] = FrozenDict(),
) -> Mapping[str, AccountBudget]:
    """Return the budget of each account that has one. ``spent`` says what machines have cost, ``before`` what was used.

    In a month what is used gets no less: not where the average price falls, nor where an account moves away.
    """
    budgets = {account.name: account.budget for account in state.spec.accounts if account.budget}
    if not budgets:
        return FrozenDict()
    had: defaultdict[str, Counter[str]] = defaultdict(Counter)
    node_s: Counter[str] = Counter()
    for name, way in accounts_above(state.spec, usage).items():
        for fleet, use in (usage.accounts.get(name, {}) if usage else {}).items():
            for account in way:
                had[account][fleet] += use.machine_us
                node_s[account] += use.node_s
    prices = {fleet: _price(state.spec, fleet, usage, spent) for fleets in had.values() for fleet in fleets}
    least = {name: use for name, use in before.items() if usage and use.month == usage.month}
    none = BudgetUse("")
    return FrozenDict(
        {
            name: AccountBudget(
                usd=max(
                    least.get(name, none).usd,
                    sum(us / SECOND_US / _HOUR_S * prices[fleet] for fleet, us in had[name].items()),
                ),
                usd_per_month=budget.usd_per_month,
                node_hours=max(least.get(name, none).node_hours, node_s[name] / _HOUR_S),
                node_hours_per_month=budget.node_hours_per_month,
                as_of=usage.until if usage else None,
                until=month_end(state.at),
            )
            for name, budget in budgets.items()
        }
    )


def _price(spec: ClusterSpec, fleet: str, usage: AccountUsage | None, spent: Spent | None) -> float:
    """Return what a machine of a fleet cost an hour, on average of the month; by the spec where none was counted."""
    counted = spent.machines.get(usage.month, {}) if spent and usage else {}
    times = [time for where, time in counted.items() if located_fleet(where) == fleet]
    seconds = sum(time.seconds for time in times)
    if seconds > 0:
        return sum(time.usd for time in times) / seconds * _HOUR_S
    entries = next((each.infrastructures for each in spec.fleets if each.name == fleet), ())
    return entries[0].price_usd_per_hour if entries else 0.0


def accounts_above(spec: ClusterSpec, usage: AccountUsage | None) -> Mapping[str, tuple[str, ...]]:
    """Return for each account, of the spec or made by somebody below one, itself and those above it, from below."""
    parents: dict[str, str | None] = {
        **(usage.parents if usage else {}),
        **{account.name: account.parent for account in spec.accounts},
    }
    found = {}
    for name in parents:
        way = [name]
        while above := parents.get(way[-1]):
            way.append(above)
        found[name] = tuple(way)
    return found


def spent_accounts(
    spec: ClusterSpec, usage: AccountUsage | None, budgets: Mapping[str, AccountBudget]
) -> Mapping[str, str]:
    """Return by account whose jobs may not begin why not, in words: its budget, or that of one above it, is spent."""
    found = {}
    for name, way in accounts_above(spec, usage).items() if budgets else ():
        spent = next((each for each in way if each in budgets and budgets[each].is_spent), None)
        if spent is not None:
            found[name] = spent_words(spent, budgets[spent])
    return found


def spent_words(account: str, budget: AccountBudget) -> str:
    """``the budget of the account physics is spent ($5.02 of $5.00, as of 12:00 UTC); it begins anew on 2026-12-01 UTC``."""
    if budget.as_of is None:
        return f"how much of the budget of the account {account} is used is not known yet: slurmdbd has not answered"
    return (
        f"the budget of the account {account} is spent ({budget.words}, as of {budget.as_of:%Y-%m-%d %H:%M} UTC); it "
        f"begins anew on {budget.until:%Y-%m-%d} UTC"
    )


def once_held(spec: ClusterSpec, uses: Mapping[str, BudgetUse]) -> frozenset[str]:
    """Return the accounts that Slurm may hold still for a budget that was spent, and that have none any more."""
    if spec.controller.accounting is None:
        return frozenset()
    have_one = {account.name for account in spec.accounts if account.budget}
    return frozenset(
        name for name, use in uses.items() if use.percent >= WARNED_AT[-1] and name not in have_one
    )


def warnings(
    spec: ClusterSpec, budgets: Mapping[str, AccountBudget], before: Mapping[str, BudgetUse]
) -> tuple[Mapping[str, BudgetUse], tuple[str, ...]]:
    """Return what is to be remembered of budgets, and which accounts are to be told of now.

    Of each month and account each of `WARNED_AT` is told once. Where a budget is raised, what is below again may come again.
    """
    now = {name: before[name] for name in once_held(spec, before)} | dict(_uses(budgets))
    told = {(account, use.month): use.percent for account, use in before.items()}
    news = tuple(account for account, use in now.items() if use.percent > told.get((account, use.month), 0))
    return FrozenDict(now), news


def _uses(budgets: Mapping[str, AccountBudget]) -> Iterator[tuple[str, BudgetUse]]:
    for account, budget in budgets.items():
        if budget.as_of is not None:
            reached = max((each for each in WARNED_AT if budget.percent >= each), default=0)
            yield account, BudgetUse(f"{budget.as_of:%Y-%m}", reached, budget.usd, budget.node_hours)


def warning_words(account: str, budget: AccountBudget) -> str:
    """``85 % of the budget of the account physics is used: $4.25 of $5.00``."""
    if budget.is_spent:
        return f"{spent_words(account, budget)}: no machine is made for it, and Slurm begins none of its jobs"
    return f"{budget.percent} % of the budget of the account {account} is used: {budget.words}"
