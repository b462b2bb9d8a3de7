"""Limits of launches: names that are left, backoffs, limits, caps of accounts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from tidepool.scaling.decide.allowance import Allowance, Grant
from tidepool.scaling.decide.packing.bins import Bins
from tidepool.scaling.memory import Backoff


class Purpose(NamedTuple):
    """The purpose of nodes, as far as limits ask for it. ``account`` is empty where it has no cap."""

    time_limit_s: int | None
    account: str = ""


class Spare(NamedTuple):
    """Spare machines of a converged pool: its machines that could come to Slurm, the first first; and why no others can."""

    names: tuple[str, ...]
    obstacle: str
    standing: Literal["limit", "setback"] = "limit"


@dataclass(frozen=True, slots=True)
class Closed:
    """Why the names of a fleet are not all to be had: its slots, how many are quarantined; and its own set-back.

    ``spare`` is a pool's, whose machines are there, and which no limit on nodes counts.
    """

    max_nodes: int
    quarantined: int = 0
    backoff: Backoff | None = None
    spare: Spare | None = None


class LaunchLimits:
    """Asked for each new node; counts what accounts with a cap were given."""

    def __init__(self, allowance: Allowance, closed: Mapping[str, Closed], at: datetime) -> None:
        self._allowance = allowance
        self._closed = closed
        self._at = at
        self._left = dict(allowance.capped_accounts)
        self._used: dict[str, set[str]] = {}
        self._launched_usd = 0.0
        self._pools = frozenset(name for name, each in closed.items() if each.spare is not None)

    def last_slot(self, fleet: str) -> int:
        """The number of a fleet's last slot."""
        return self._closed[fleet].max_nodes

    def granted(
        self,
        fleet: str,
        nodes: int,
        purpose: Purpose,
        bins: Bins,
        planned: Mapping[str, int],
        planned_usd: float = 0,
    ) -> Grant:
        """Return how many of ``nodes`` more may be launched, beside those that are taken and ``planned`` (by fleet)."""
        closed = self._closed[fleet]
        if closed.spare is not None:
            left = min(nodes, max(0, bins.vacant(fleet) - planned.get(fleet, 0)))
            return Grant(left, closed.spare.obstacle if left < nodes else "", closed.spare.standing)
        backoff = closed.backoff
        if backoff is not None and backoff.until > self._at:
            until = f"{backoff.until:%H:%M:%S} UTC"
            failed = "failure" if backoff.failures == 1 else "failures in a row"
            return Grant(
                0,
                f"fleet {fleet} is left alone until {until}, after {backoff.failures} {failed}: {backoff.text}",
                "setback",
            )
        vacant = bins.vacant(fleet) - planned.get(fleet, 0)
        if vacant <= 0:
            if closed.quarantined:
                reason = f"fleet {fleet} has no free slots: {closed.quarantined} failed and are left alone for a while"
                return Grant(0, reason, "setback")
            return Grant(0, f"fleet {fleet} has all its nodes (max_nodes is {closed.max_nodes})")
        launched = bins.launched
        if planned:
            launched = launched | {name: launched.get(name, 0) + count for name, count in planned.items()}
        if self._pools:
            launched = {name: count for name, count in launched.items() if name not in self._pools}
        grant = self._allowance.more(
            fleet,
            min(nodes, vacant),
            launched,
            time_limit_s=purpose.time_limit_s,
            account=purpose.account,
            launched_usd=self._launched_usd + planned_usd,
        )
        if vacant < nodes and grant.nodes == vacant:
            return Grant(vacant, f"fleet {fleet} has no more nodes (max_nodes is {closed.max_nodes})")
        return grant

    def launched(self, usd: float) -> None:
        """Count what launched nodes could cost."""
        self._launched_usd += usd

    def nodes_for(self, purpose: Purpose, nodes: int) -> int:
        """Return how many of ``nodes`` an account may have."""
        left = self._left.get(purpose.account) if purpose.account else None
        return nodes if left is None else max(0, min(nodes, left))

    def used(self, purpose: Purpose, names: Iterable[str]) -> None:
        """Count nodes that jobs of an account were given; each node once."""
        if purpose.account in self._left:
            seen = self._used.setdefault(purpose.account, set())
            new = set(names) - seen
            seen |= new
            self._left[purpose.account] -= len(new)
