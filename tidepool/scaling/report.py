"""The report of a month, by account, user and fleet: what jobs had, what that cost, and what idle machines did. Pure.

Time of machines is in microseconds and money in millionths of a US dollar, whole numbers, so that all parts add up to what
the scaler's journal counted, to the last of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, NamedTuple, TypeVar

from tidepool.cluster.accounts import Account
from tidepool.scaling.memory import MachineTime, located_fleet
from tidepool.scaling.usage import SECOND_US, Key, Use

By = Literal["account", "user", "fleet", "month"]
Rule = Literal["use", "shares", "none"]
"""How idle time is shared: as each used the fleet, by fair shares, or not at all."""

_DOLLAR: Final = 1_000_000
_K = TypeVar("_K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Month:
    """``uses`` are of the whole month (``2026-11``), ``within`` of the time in which the journal counted ``machines``.

    Those are by `at_location`, empty for the cluster's own machines.
    """

    name: str
    uses: Mapping[Key, Use]
    within: Mapping[Key, Use]
    machines: Mapping[str, MachineTime]


class Row(NamedTuple):
    """A part of the report; what is empty is summed over, or idle and nobody's.

    Of idle time less than nothing was idle where jobs had machines that the journal did not count.
    """

    month: str = ""
    account: str = ""
    user: str = ""
    fleet: str = ""
    node_s: int = 0
    cpu_s: int = 0
    machine_us: int = 0
    micro_usd: int = 0
    idle_us: int = 0
    idle_micro_usd: int = 0

    def plus(self, other: Row) -> Row:
        """Return the sum, under this one's names."""
        return Row(*self[:4], *map(int.__add__, self[4:], other[4:]))


def rows(month: Month, rule: Rule, accounts: Sequence[Account]) -> list[Row]:
    """Return a row for each account, user and fleet; ``accounts`` are those whose fair shares count."""
    totals: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for where, time in month.machines.items():
        fleet = located_fleet(where)
        us, micro_usd = totals[fleet]
        totals[fleet] = us + round(time.seconds * SECOND_US), micro_usd + round(time.usd * _DOLLAR)
    found: defaultdict[Key, Row] = defaultdict(Row)
    for key, use in month.uses.items():
        found[key] = Row(month.name, *key, use.node_s, use.cpu_s)
    used: defaultdict[str, dict[Key, int]] = defaultdict(dict)
    for key, use in month.within.items():
        used[key[2]][key] = use.machine_us
    for fleet in sorted({*totals, *used}):
        had = used.get(fleet, {})
        # Of a fleet that the journal did not count nothing is known but what jobs had.
        us, micro_usd = totals.get(fleet, (sum(had.values()), 0))
        for key, own_us in had.items():
            cost = micro_usd * own_us // us if us else 0
            found[key] = found[key].plus(Row(machine_us=own_us, micro_usd=cost))
        idle_us = us - sum(had.values())
        idle_usd = micro_usd - sum(found[key].micro_usd for key in had)
        weights = _weights(rule, fleet, had, used, accounts)
        times, costs = split(idle_us, weights), split(idle_usd, weights)
        for key in weights:
            row = found[key] if key in found else Row(month.name, *key)
            found[key] = row.plus(Row(idle_us=times[key], idle_micro_usd=costs[key]))
    return [row for _, row in sorted(found.items()) if any(row[4:])]


def _weights(
    rule: Rule,
    fleet: str,
    had: Mapping[Key, int],
    used: Mapping[str, Mapping[Key, int]],
    accounts: Sequence[Account],
) -> Mapping[Key, int | Fraction]:
    """Return by whom a fleet's idle time is borne, and how much; by nobody: under empty names."""
    found: dict[Key, int | Fraction] = {}
    if rule == "use":
        # What no job had, and the cluster's own machines, were there for all.
        for (account, user, _), us in (
            had or {k: us for each in used.values() for k, us in each.items()}
        ).items():
            found[account, user, fleet] = found.get((account, user, fleet), 0) + us
    elif rule == "shares":
        found = {(account, user, fleet): share for (account, user), share in fair_shares(accounts).items()}
    return found if any(found.values()) else {("", "", fleet): 1}


def fair_shares(accounts: Sequence[Account]) -> dict[tuple[str, str], Fraction]:
    """Return by account and user the part of the whole that is theirs by their shares; of an account without users its own."""

    def below(parent: str | None, part: Fraction) -> Iterator[tuple[tuple[str, str], Fraction]]:
        children = [each for each in accounts if each.parent == parent]
        here = next((each for each in accounts if each.name == parent), None)
        users = here.users if here else ()
        whole = sum(each.shares for each in children) + sum(each.shares for each in users)
        if not whole:
            if parent is not None:
                yield (parent, ""), part
            return
        for user in users:
            yield (parent or "", user.name), part * user.shares / whole
        for child in children:
            yield from below(child.name, part * child.shares / whole)

    return {key: part for key, part in below(None, Fraction(1)) if part}


def split(amount: int, weights: Mapping[_K, int | Fraction]) -> dict[_K, int]:
    """Return ``amount`` in whole parts by weight, which add up to it: the largest remainders get one more."""
    whole = sum(weights.values())
    exact = {key: Fraction(amount) * weight / whole for key, weight in weights.items()}
    found = {key: part.__floor__() for key, part in exact.items()}
    left = amount - sum(found.values())
    for key in sorted(exact, key=lambda key: found[key] - exact[key])[:left]:
        found[key] += 1
    return found


def summed(parts: Iterable[Row], by: By) -> list[Row]:
    """Return the sums by account, user, fleet or month, in their order."""
    found: dict[str, Row] = {}
    for row in parts:
        name = getattr(row, by)
        found[name] = found.get(name, Row(**{by: name})).plus(row)
    return [found[name] for name in sorted(found)]


def label(row: Row, by: By) -> str:
    """Return the name of a row of `summed`, for people."""
    return getattr(row, by) or ("(the cluster's own)" if by == "fleet" else "(nobody)")


def total(parts: Iterable[Row]) -> Row:
    """Return the sum of all."""
    found = Row()
    for row in parts:
        found = found.plus(row)
    return found
