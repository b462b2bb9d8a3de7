"""The decision: actions, and for every job and pod that waits, why. Each says its reason in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Final, Literal, NamedTuple

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.roles import Role
from tidepool.infrastructures import MachineKey
from tidepool.scaling.memory import Memory


class Phase(StrEnum):
    """One of these holds for every slot of a fleet; the reconcile table tells which, and what is done about it."""

    #: Only a slot. Nothing is there, nothing is desired.
    ABSENT = "absent"
    #: A slot whose machine is suspended: the next node of the fleet goes on with it.
    SUSPENDED = "suspended"
    #: Desired; its machine is being made, boots, or registers.
    LAUNCHING = "launching"
    #: In service without jobs; in service with jobs.
    IDLE = "idle"
    BUSY = "busy"
    #: Drained by the scaler: with jobs that are still to end; empty.
    DRAINING = "draining"
    DRAINED = "drained"
    #: Somebody else's: drained by a person, reserved, in maintenance, rebooting. Never touched by us.
    HELD = "held"
    #: Not desired any more, and still there: an `up` takes it away.
    LEAVING = "leaving"
    #: Not as it should be: down, not responding, its machine gone, past its deadline, with too little memory.
    ILL = "ill"
    #: A machine that no record knows.
    STRAY = "stray"
    #: Something could not be seen: nothing is done.
    UNKNOWN = "unknown"


#: Those of slots without a node, which costs nothing but maybe disk.
NO_NODE: Final = frozenset({Phase.ABSENT, Phase.SUSPENDED})

_NOTHING: Final[FrozenDict[Any, Any]] = FrozenDict()


@dataclass(frozen=True, slots=True)
class Launch:
    """Make these nodes of a fleet: they are desired.

    ``location`` is where, the key of one of the fleet's infrastructures; empty where it has one.
    """

    fleet: str
    nodes: tuple[str, ...]
    reason: str
    #: The jobs that they are for; of many, the first few.
    jobs: tuple[int, ...] = ()
    location: str = field(default="", metadata={"stored_as": "place"})


@dataclass(frozen=True, slots=True)
class _OfNodes:
    fleet: str
    nodes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Drain(_OfNodes):
    """Let no new jobs start on these nodes; they are taken away in a later cycle."""


@dataclass(frozen=True, slots=True)
class Undrain(_OfNodes):
    """Let jobs start again on nodes that the scaler itself drained."""


@dataclass(frozen=True, slots=True)
class Remove(_OfNodes):
    """Take these nodes away: they are desired no more. They are drained and empty, or their machines are dead."""


@dataclass(frozen=True, slots=True)
class Suspend(_OfNodes):
    """Take these nodes away, which are drained and empty, and keep their machines: their memory on disk, for the next nodes."""


@dataclass(frozen=True, slots=True)
class Repair(_OfNodes):
    """Look again at what is recorded of these nodes and make it so, without a change of what is desired."""

    STORED_AS: ClassVar[str] = "Mend"


@dataclass(frozen=True, slots=True)
class DeleteOrphan:
    """Delete a machine that no record knows and that provably runs nothing."""

    STORED_AS: ClassVar[str] = "Sweep"

    machine: MachineKey
    reason: str


@dataclass(frozen=True, slots=True)
class ReleaseSlot(_OfNodes):
    """Make slots again of nodes that Slurm still knows, and that have neither a machine nor a record."""

    STORED_AS: ClassVar[str] = "Forget"


@dataclass(frozen=True, slots=True)
class PowerFailed(_OfNodes):
    """Tell Slurm's power saving that these nodes do not come: they are set DOWN, and then power down."""


@dataclass(frozen=True, slots=True)
class Convert:
    """Have these machines of a converged pool serve ``to``: gracefully, for they are idle; or go on with what was begun."""

    pool: str
    nodes: tuple[str, ...]
    to: Role
    reason: str
    #: The jobs, or the pods (``namespace/name``), that they are for; of many, the first few.
    jobs: tuple[int, ...] = ()
    pods: tuple[str, ...] = ()
    #: It goes on with what was begun and not brought to its end.
    repairs: bool = field(default=False, metadata={"stored_as": "mends"})

    @property
    def fleet(self) -> str:
        """The pool, which is a fleet to Slurm."""
        return self.pool


Action = (
    Launch | Drain | Undrain | Remove | Suspend | Repair | DeleteOrphan | ReleaseSlot | PowerFailed | Convert
)


def stored_name(kind: type[Any]) -> str:
    """Return the name of a class in the journal, in events and in metrics, which it keeps where it is renamed."""
    name: str = getattr(kind, "STORED_AS", kind.__name__)
    return name


#: `never`: no machine that this cluster can have would run it. `held`: Slurm would not start it on any machine now.
#: `limit`: a limit of the spec or a budget. `backoff`: a fleet backs off. `coming`: nodes are being made for it.
#: `room`: there is room on nodes that are up, and Slurm starts it.
Standing = Literal["never", "held", "limit", "setback", "coming", "room"]


class Waiting(NamedTuple):
    """Why a job does not run yet. ``nodes`` are those that it will run on as far as the scaler knows.

    A tuple, for there are as many as there are jobs.
    """

    job_id: int
    standing: Standing
    reason: str
    nodes: tuple[str, ...] = ()


class WaitingPod(NamedTuple):
    """Why a pod does not run yet, in the words that there are for jobs. ``pod`` is ``namespace/name``.

    Of ``nodes`` those that it will run on as far as the scaler knows: one, or none.
    """

    pod: str
    standing: Standing
    reason: str
    nodes: tuple[str, ...] = ()


#: `busy`: it has jobs or pods. `idle`: it has none, and could move. `needed`: it has none, and what waits will run on it.
#: `moving`: it is about to have another role, or on its way to it. `held`: somebody else has it in hand: drained,
#: cordoned, reserved. `ill`: it is not as it is recorded. `unknown`: it cannot be seen.
MachineStanding = Literal["busy", "idle", "needed", "moving", "held", "ill", "unknown"]


class MachineView(NamedTuple):
    """The standing of a machine of a converged pool, and why it stays or moves, in words.

    ``role`` is what it is now, None where it is nothing or that is not known; ``since`` when it has been so; ``to`` what
    it is to be, where it moves.
    """

    pool: str
    role: Role | None
    standing: MachineStanding
    reason: str
    to: Role | None = None
    since: datetime | None = None


class NodeView(NamedTuple):
    """The phase of a node, and why it is kept, drained or taken away, in words."""

    phase: Phase
    reason: str


@dataclass(frozen=True, slots=True)
class AccountBudget:
    """The budget of an account and all below it, and what of it is used this month; ``until`` is when that ends.

    ``as_of`` is when that was known; None where it is not known yet. A limit that it has not is None.
    """

    usd: float
    usd_per_month: float | None
    node_hours: float
    node_hours_per_month: float | None
    as_of: datetime | None
    until: datetime

    @property
    def percent(self) -> int:
        """The part of the budget that is used, in whole per cent; of two, the larger."""
        pairs = (self.usd, self.usd_per_month), (self.node_hours, self.node_hours_per_month)
        return max(int(100 * used / most) if most else 100 for used, most in pairs if most is not None)

    @property
    def is_spent(self) -> bool:
        """Return whether none of it is left, or how much is not known yet."""
        return self.as_of is None or self.percent >= 100

    @property
    def words(self) -> str:
        """``$4.10 of $5.00, 12.3 of 20 node-hours``."""
        told = [] if self.usd_per_month is None else [f"${self.usd:,.2f} of ${self.usd_per_month:,.2f}"]
        if self.node_hours_per_month is not None:
            told.append(f"{self.node_hours:,.2f} of {self.node_hours_per_month:,g} node-hours")
        return ", ".join(told)


@dataclass(frozen=True, slots=True)
class Cost:
    """In US dollars: what runs costs an hour, what the month has cost, and what it would come to by its end."""

    usd_per_hour: float = 0
    month_usd: float = 0
    month_projected_usd: float = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """All that should be done, that is left waiting, and what is to be remembered. The same input gives the same."""

    at: datetime
    actions: tuple[Action, ...]
    #: By job id (of an array that waits: the array's record), every job that is pending.
    waiting: Mapping[int, Waiting]
    #: By fleet: what should be there, when all actions are done.
    desired: Mapping[str, HostSet] = field(metadata={"stored_as": "wish"})
    #: Every node of the fleets that is more than a slot.
    nodes: Mapping[str, NodeView]
    memory: Memory
    cost: Cost = Cost()
    #: By `namespace/name`, every pod that waits for a node and that a machine of a pool could help, or could not, and why.
    #: Pods that no machine's room is in the way of are missing.
    waiting_pods: Mapping[str, WaitingPod] = field(default_factory=lambda: _NOTHING)
    #: By node name, every machine of every converged pool; they are not among ``nodes``.
    machines: Mapping[str, MachineView] = field(default_factory=lambda: _NOTHING)
    #: By account that has one.
    budgets: Mapping[str, AccountBudget] = field(default_factory=lambda: _NOTHING)
