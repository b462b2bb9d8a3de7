"""Groups of jobs that are packed alike, and the limits on launching nodes for them.

What is in the way of a launch: names that are left, backoffs, limits, prices, the budget, caps of accounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from tidepool.scaling.decide.demand.layout import Layout, Part
from tidepool.scaling.decide.packing.bins import Bins, Option
from tidepool.scaling.memory import Backoff


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission to launch so many of the nodes that were asked for; where they are fewer, why, in words."""

    nodes: int
    reason: str = ""
    standing: Literal["limit", "setback"] = "limit"
    #: What each of them could cost of this month, in US dollars: until the end of the job, and idle behind it.
    usd_per_node: float = 0


class Allowance(Protocol):
    """Limits beside all that is there already. It answers and remembers nothing: the asker counts."""

    def more(
        self,
        fleet: str,
        nodes: int,
        launched: Mapping[str, int],
        *,
        time_limit_s: int | None,
        account: str,
        launched_usd: float | None = None,
    ) -> Grant:
        """Return how many of ``nodes`` more of ``fleet`` may be launched, beside those ``launched`` (by fleet) just now.

        They are for jobs of ``account`` that may run ``time_limit_s`` (None: without end). Granting fewer to more
        ``launched`` nodes, never more, is what the asker counts on. ``launched_usd`` is the sum of
        `Grant.usd_per_node` over those launched just now; None: not counted, and the most is assumed, which is what
        they could cost until the end of the month.
        """
        ...

    @property
    def capped_accounts(self) -> Mapping[str, int]:
        """The accounts that have a cap, and how many nodes more each may have for the jobs of it that wait."""
        ...


class Purpose(NamedTuple):
    """The purpose of nodes, as far as limits ask for it. ``account`` is empty where it has no cap."""

    time_limit_s: int | None
    account: str = ""


class Spare(NamedTuple):
    """Machines of a converged pool that could go to a side: the first first, as far as there may be more; and why no others."""

    names: tuple[str, ...]
    obstacle: str
    standing: Literal["limit", "setback"] = "limit"


@dataclass(frozen=True, slots=True)
class Closed:
    """Why the names of a fleet are not all to be had: its slots; how many are quarantined, or on silent hosts; its own backoff.

    ``spare`` is a pool's, whose machines are there, and which no limit on nodes counts.
    """

    max_nodes: int
    quarantined: int = 0
    silent: int = 0
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
        self._launched_usd: float | None = 0.0
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
            obstacles = []
            if closed.quarantined:
                obstacles.append(f"{closed.quarantined} failed and are left alone for a while")
            if closed.silent:
                obstacles.append(f"of {closed.silent} the hosts do not answer")
            if obstacles:
                return Grant(0, f"fleet {fleet} has no free slots: {', '.join(obstacles)}", "setback")
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
            launched_usd=None if self._launched_usd is None else self._launched_usd + planned_usd,
        )
        if vacant < nodes and grant.nodes == vacant:
            return Grant(vacant, f"fleet {fleet} has no more nodes (max_nodes is {closed.max_nodes})")
        return grant

    def launched(self, usd: float) -> None:
        """Count what launched nodes could cost."""
        if self._launched_usd is not None:
            self._launched_usd += usd

    def decided(self) -> None:
        """Count no costs any more, as there are nodes that were launched before: the most is assumed of all of them."""
        self._launched_usd = None

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


class Placement(NamedTuple):
    """``per_set`` jobs run on each of these sets of nodes. ``rank`` is the latest of the nodes' (`bins`)."""

    rank: int
    per_set: int
    sets: list[tuple[str, ...]]

    @property
    def jobs(self) -> int:
        """Return how many jobs these are."""
        return self.per_set * len(self.sets)


class Group(NamedTuple):
    """Jobs that ask for the same: for each component (one, but for heterogeneous jobs) the layouts it can have.

    ``size`` orders groups: how much of a node they take, and of how many. ``fresh``: only nodes that no job has
    anything of will do.
    """

    components: tuple[tuple[Layout, ...], ...]
    purpose: Purpose
    size: tuple[float, int] = (0, 0)
    fresh: bool = False

    @property
    def alike(self) -> tuple[Layout, ...]:
        """The layouts, where all nodes of a job are alike, and any that fit will do; else none."""
        (layouts, *others) = self.components
        simple = not others and all(
            len(layout.parts) == 1 and not layout.parts[0].names and not layout.in_a_row for layout in layouts
        )
        return layouts if simple else ()


def options(layout: Layout, part: Part) -> list[Option]:
    """The fleets of whose nodes a part may be."""
    return [Option(fleet, need, layout.sole) for fleet, need in part.needs]


def both(one: Grant | None, other: Grant) -> Grant:
    """Return the grant with what is in the way in either; a backoff where one of them is, for that ends by itself."""
    if one is None or not one.reason or one.reason == other.reason:
        return other
    reason = f"{one.reason}; {other.reason}" if other.reason else one.reason
    return Grant(0, reason, "setback" if "setback" in (one.standing, other.standing) else "limit")
