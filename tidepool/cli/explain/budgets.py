"""Budgets of accounts, as `status`, `watch` and `why` tell of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidepool.cli.explain.lines import Cell, Line
from tidepool.cli.show import clock
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.decide.account_budgets import WARNED_AT, accounts_above
from tidepool.scaling.decision import AccountBudget, Decision


@dataclass(frozen=True, slots=True)
class BudgetView:
    """The part of an account's budget that is used, until when it holds, and when that was known; None: it is not known yet."""

    account: str
    percent: int
    words: str
    is_spent: bool
    as_of: datetime | None
    until: datetime

    def describe(self, now: datetime) -> str:
        """``85 %: $4.25 of $5.00, as of 12:00:04; anew on 2026-12-01 UTC``."""
        if self.as_of is None:
            return "not known yet: slurmdbd has not answered"
        return f"{self.percent} %: {self.words}, as of {clock(self.as_of, now)}; anew on {self.until:%Y-%m-%d} UTC"

    @property
    def style(self) -> str:
        return "red" if self.is_spent else "yellow" if self.percent >= WARNED_AT[0] else ""


def budget_views(decision: Decision | None) -> tuple[BudgetView, ...]:
    """Return all budgets, those first of which most is used."""
    budgets = decision.budgets if decision else {}
    found = [_view(account, budget) for account, budget in budgets.items()]
    return tuple(sorted(found, key=lambda each: (not each.is_spent, -each.percent, each.account)))


def budgets_over(spec: ClusterSpec | None, decision: Decision | None, account: str) -> Iterator[BudgetView]:
    """Yield the budgets that a job of ``account`` uses: its account's, and those of accounts above it."""
    if spec is None or decision is None:
        return
    for each in accounts_above(spec, decision.memory.usage).get(account, ()):
        if each in decision.budgets:
            yield _view(each, decision.budgets[each])


def budget_lines(views: Sequence[BudgetView], now: datetime) -> Iterator[Line]:
    """Yield a line for each."""
    width = max((len(each.account) for each in views), default=0)
    for each in views:
        yield Cell(f"  {each.account:<{width}}  "), Cell(each.describe(now), each.style)


def _view(account: str, budget: AccountBudget) -> BudgetView:
    return BudgetView(account, budget.percent, budget.words, budget.is_spent, budget.as_of, budget.until)
