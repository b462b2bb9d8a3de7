"""The memory that goes from one look to the next. Frozen: `decide` and `remember` give the next one.

It is kept in the journal as JSON, so that a daemon that was killed goes on from there. Times are in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.roles import Role
from tidepool.infrastructures import MachineKey
from tidepool.scaling.usage import AccountUsage

_NOTHING: Final[FrozenDict[Any, Any]] = FrozenDict()

#: Why something did not work: no such machine to be had; it may work in a while; it will not; it never came up.
Cause = Literal["capacity", "transient", "permanent", "boot"]


def at_location(fleet: str, location: str) -> str:
    """A fleet; where it is on several infrastructures, it on one of them, by that one's key."""
    return f"{fleet}@{location}" if location else fleet


def suspending_at(fleet: str) -> str:
    """Return that for which machines of a fleet back off that could not be suspended."""
    return f"{fleet}@suspending"


def located_fleet(where: str) -> str:
    """Return the fleet of an `at_location`."""
    return where.partition("@")[0]


@dataclass(frozen=True, slots=True)
class Launch:
    """A node that is being made: since when, and until when it has to be up. Then it is replaced, and shown."""

    since: datetime
    deadline: datetime
    #: Jobs that it is for, the first few of them, for people.
    jobs: tuple[int, ...] = ()
    #: How long they may run; None: without end. For the budget.
    lasting_s: int | None = 0
    #: When an `up` began to make it; for people.
    begun: datetime | None = None


@dataclass(frozen=True, slots=True)
class Drained:
    """A node that the scaler drained, when and why. ``reason`` is Slurm's text of it, by which it is known as ours."""

    since: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Backoff:
    """Failures in a row, and until when it is left alone. ``text`` is the last failure's, for people.

    ``location`` is where a node failed, the key of one of its fleet's infrastructures; empty where there is one.
    """

    cause: Cause
    failures: int
    until: datetime
    text: str
    location: str = field(default="", metadata={"stored_as": "place"})

    @property
    def is_of_no_machine(self) -> bool:
        """Return whether it says that nothing was made: no answer was lost, and nothing is half-made."""
        return self.cause in ("capacity", "permanent")


class MachineTime(NamedTuple):
    """The time of machines that were there, and what they cost in US dollars."""

    seconds: float = 0
    usd: float = 0


@dataclass(frozen=True, slots=True)
class Spent:
    """The costs of this calendar month's machines until ``until``, in US dollars. ``month`` is ``2026-11``."""

    month: str
    usd: float
    until: datetime
    #: By month, and by `at_location`, empty for the cluster's own machines: since ``since``, of two years at most.
    machines: Mapping[str, Mapping[str, MachineTime]] = field(default_factory=lambda: _NOTHING)
    since: datetime | None = None
    #: The cluster was down when it was looked at last: from ``until`` to the next look there is no machine that costs.
    is_down: bool = False


class BudgetUse(NamedTuple):
    """The most of a month's budget that was known to be used, and the part that was told last: 80, 95 or 100 per cent; 0: none."""

    month: str
    percent: int = 0
    usd: float = 0
    node_hours: float = 0


@dataclass(frozen=True, slots=True)
class Moving:
    """A machine of a pool that is to have another role: since when, until when that is waited for, and for whom.

    ``jobs`` and ``pods`` (``namespace/name``) are the first few of them, for people.
    """

    to: Role
    since: datetime
    until: datetime
    jobs: tuple[int, ...] = ()
    pods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolMemory:
    """The memory of converged pools; by node name, where nothing else is said."""

    #: Without a job or a pod, on the side that it serves.
    idle_since: Mapping[str, datetime] = field(default_factory=lambda: _NOTHING)
    moving: Mapping[str, Moving] = field(default_factory=lambda: _NOTHING)
    #: Machines whose conversion failed, or was given up, are left alone for a while.
    backoffs: Mapping[str, Backoff] = field(
        default_factory=lambda: _NOTHING, metadata={"stored_as": "setbacks"}
    )
    #: Conversions that nobody drives, and since when.
    abandoned: Mapping[str, datetime] = field(default_factory=lambda: _NOTHING)
    #: By a pod's uid: since when there seems to be room for it, while Kubernetes says that there is none.
    has_room_since: Mapping[str, datetime] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True)
class Memory:
    """All that `decide` knows of the past."""

    #: By node.
    idle_since: Mapping[str, datetime] = field(default_factory=lambda: _NOTHING)
    launches: Mapping[str, Launch] = field(default_factory=lambda: _NOTHING)
    drains: Mapping[str, Drained] = field(default_factory=lambda: _NOTHING)
    #: Undrains that Slurm does not show yet, and since when.
    undrained: Mapping[str, datetime] = field(default_factory=lambda: _NOTHING)
    #: Nodes for which an `up` was asked, to take them away or to repair them, and until when it may take.
    awaited: Mapping[str, datetime] = field(default_factory=lambda: _NOTHING)
    #: Nodes whose machines an `up` suspends, since when.
    suspending: Mapping[str, datetime] = field(default_factory=lambda: _NOTHING)
    #: By `at_location` and `suspending_at`: it backs off alone. By node name: quarantined, so that another name is taken.
    fleet_backoffs: Mapping[str, Backoff] = field(
        default_factory=lambda: _NOTHING, metadata={"stored_as": "fleet_setbacks"}
    )
    node_backoffs: Mapping[str, Backoff] = field(
        default_factory=lambda: _NOTHING, metadata={"stored_as": "node_setbacks"}
    )
    #: By node of a fleet on several infrastructures: the key of that which it is on, or is to be made on.
    locations: Mapping[str, str] = field(default_factory=lambda: _NOTHING, metadata={"stored_as": "places"})
    #: Machines that no record knows, and since when they are seen.
    strays: Mapping[MachineKey, datetime] = field(default_factory=lambda: _NOTHING)
    #: Nodes that are not as they should be (down, not responding, gone), and since when.
    ill_since: Mapping[str, datetime] = field(default_factory=lambda: _NOTHING)
    #: Jobs for which there is room on nodes that are up, and since when: Slurm may see it otherwise.
    has_room_since: Mapping[int, datetime] = field(default_factory=lambda: _NOTHING)
    spent: Spent | None = None
    #: What accounts have used, as it was known last; where some have budgets.
    usage: AccountUsage | None = None
    #: By account that has one, or has none any more and is still held for one that was spent.
    budgets: Mapping[str, BudgetUse] = field(
        default_factory=lambda: _NOTHING, metadata={"stored_as": "warned"}
    )
    pools: PoolMemory = field(default_factory=PoolMemory)


def outlasting(memory: Memory) -> Memory:
    """Return what of ``memory`` is true of a cluster that was taken down: what it cost, and what of budgets is used."""
    spent = replace(memory.spent, is_down=True) if memory.spent else None
    return Memory(spent=spent, usage=memory.usage, budgets=memory.budgets)
