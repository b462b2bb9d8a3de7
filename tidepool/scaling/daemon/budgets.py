"""Budgets of accounts in a turn of the daemon: what is told of them, and accounts that Slurm holds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.decide.account_budgets import warning_words
from tidepool.scaling.decision import AccountBudget
from tidepool.scaling.observe.observe import Observer


def warn(say: Callable[..., None], budgets: Mapping[str, AccountBudget], accounts: Iterable[str]) -> None:
    """Tell how much of the budgets of ``accounts`` is used."""
    for account in accounts:
        budget = budgets[account]
        say(
            "account-budget",
            account=account,
            percent=budget.percent,
            text=warning_words(account, budget),
        )


def hold(
    say: Callable[..., None],
    observer: Observer,
    spec: ClusterSpec,
    budgets: Mapping[str, AccountBudget],
    former: Collection[str],
) -> Collection[str]:
    """Have Slurm begin no job of accounts whose budget is spent, and those of the others again.

    Returns those of ``former``, which had a budget, that Slurm does not hold any more.
    """
    spent = {account for account, budget in budgets.items() if budget.is_spent}
    held, freed, let_go = observer.hold_accounts(spec, spent, former)
    for account in held:
        say("account-held", account=account, text=f"Slurm begins no job of the account {account} any more")
    for account in freed:
        say("account-freed", account=account, text=f"Slurm begins jobs of the account {account} again")
    return let_go
