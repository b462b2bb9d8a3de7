"""What growth has to do with: the nodes that there are for jobs, and how many more may be made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from typing import Final

from tidepool.scaling.decision import Standing
from tidepool.slurm import Node

_HOUR_S: Final = 3600.0
#: US dollars that are no sum of money: what is left of adding up many small ones.
_DUST: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Supply:
    """Nodes that jobs can have without a new one being made, each once, in the order in which they are preferred."""

    #: They take jobs; what is allocated of them is in them.
    up: tuple[Node, ...] = ()
    #: They are wished and not up yet: all of their shape is free when they are.
    coming: tuple[Node, ...] = ()
    #: Drained by the scaler: they take jobs again when they are undrained.
    drained: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Room:
    """How many more nodes of a fleet may be made, and what keeps it from being more, in words."""

    nodes: int
    standing: Standing = "limit"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FleetAllowance:
    """What one fleet may grow by."""

    #: The names that may be taken, in the order in which they are: none that is quarantined, none of a machine that
    #: somebody still has to take away. So many at most.
    names: tuple[str, ...]
    price_usd_per_hour: float = 0
    #: What a node is there for beside the job that it is made for: until it is up, and idle behind it.
    beside_job: timedelta = timedelta()
    #: Why there are no more names than that.
    standing: Standing = "limit"
    reason: str = ""


@dataclass(slots=True)
class Allowance:
    """How many nodes may be made, in one decision: it becomes less as nodes are taken. None: without a limit.

    It is the one thing that changes while a decision is made; each decision begins with its own.
    """

    fleets: Mapping[str, FleetAllowance]
    nodes_left: int | None = None
    usd_per_hour_left: float | None = None
    #: Of the month's budget, with what runs until the end of its jobs already taken off.
    usd_left: float | None = None
    month_left: timedelta = timedelta(days=31)
    #: By account that has a cap: how many nodes its waiting jobs may be given, those that are coming included. What
    #: its running jobs have is taken off. Whoever packs counts a node once for each account that it gives a place on
    #: it; a place on a node that is up counts for none, for there Slurm starts the job anyhow.
    accounts_left: Mapping[str, int] = field(default_factory=dict)
    _taken: dict[str, int] = field(default_factory=dict)

    def room(self, fleet: str, lasting_s: float | None) -> Room:
        """How many more nodes of ``fleet`` may be made for a job that may last so long; None: for ever."""
        allowance = self.fleets.get(fleet)
        if allowance is None:
            return Room(0, "limit", f"there is no fleet {fleet}")
        left = len(allowance.names) - self._taken.get(fleet, 0)
        rooms = [Room(left, allowance.standing, allowance.reason)]
        if self.nodes_left is not None:
            rooms.append(Room(self.nodes_left, "limit", "limits.max_nodes is reached"))
        price = allowance.price_usd_per_hour
        if self.usd_per_hour_left is not None and price > 0:
            rooms.append(
                Room(
                    _times(self.usd_per_hour_left, price),
                    "limit",
                    f"limits.price_usd_per_hour is reached: a node of {fleet} costs {price:g} an hour, and "
                    f"{max(0.0, self.usd_per_hour_left):.2f} are left",
                )
            )
        cost = self.cost_usd(fleet, lasting_s)
        if self.usd_left is not None and cost > 0:
            rooms.append(
                Room(
                    _times(self.usd_left, cost),
                    "limit",
                    f"limits.budget_usd_per_month is reached: a node of {fleet} could cost {cost:.2f} until the job's "
                    f"time limit, and {max(0.0, self.usd_left):.2f} are left of this month",
                )
            )
        return min(rooms, key=lambda room: room.nodes)

    def take(self, fleet: str, nodes: int, lasting_s: float | None) -> tuple[str, ...]:
        """Take so many nodes, no more than `room` says; gives their names."""
        allowance, before = self.fleets[fleet], self._taken.get(fleet, 0)
        self._taken[fleet] = before + nodes
        if self.nodes_left is not None:
            self.nodes_left -= nodes
        if self.usd_per_hour_left is not None:
            self.usd_per_hour_left -= nodes * allowance.price_usd_per_hour
        if self.usd_left is not None:
            self.usd_left -= nodes * self.cost_usd(fleet, lasting_s)
        return allowance.names[before : before + nodes]

    def lengthen(self, fleet: str, lasting_s: float | None, longer_s: float | None) -> bool:
        """A node that was taken for ``lasting_s`` gets a job of ``longer_s`` as well: whether the budget allows it.

        Where it does, it is taken off.
        """
        if self.usd_left is None:
            return True
        more = self.cost_usd(fleet, longer_s) - self.cost_usd(fleet, lasting_s)
        if more > 0 and more > self.usd_left + _DUST:
            return False
        self.usd_left -= max(0.0, more)
        return True

    def cost_usd(self, fleet: str, lasting_s: float | None) -> float:
        """What a new node could cost of this month, in US dollars."""
        allowance = self.fleets[fleet]
        longest_s = self.month_left.total_seconds()
        there_s = (inf if lasting_s is None else lasting_s) + allowance.beside_job.total_seconds()
        return allowance.price_usd_per_hour * min(there_s, longest_s) / _HOUR_S


def _times(left: float, each: float) -> int:
    return max(0, int((left + _DUST) / each))
