"""What `decide` gives: actions, and for every job that waits, why. Each says its reason in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from tidepool.cluster.hostlist import HostSet
from tidepool.infrastructure import MachineKey
from tidepool.scaling.memory import Memory
from tidepool.scaling.phase import Phase


@dataclass(frozen=True, slots=True)
class Launch:
    """Make these nodes of a fleet: they join the wish."""

    fleet: str
    nodes: tuple[str, ...]
    reason: str
    #: The jobs that they are for; of many, the first few.
    jobs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Drain:
    """Let no new jobs start on these nodes; they are taken away in a later cycle."""

    fleet: str
    nodes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Undrain:
    """Let jobs start again on nodes that the scaler itself drained."""

    fleet: str
    nodes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Take these nodes away: they leave the wish. They are drained and empty, or their machines are dead."""

    fleet: str
    nodes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Mend:
    """Look again at what is recorded of these nodes and make it so, without a change of the wish."""

    fleet: str
    nodes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """Delete a machine that no record knows and that provably runs nothing."""

    machine: MachineKey
    reason: str


@dataclass(frozen=True, slots=True)
class Forget:
    """Make slots again of nodes that Slurm still knows, and that have neither a machine nor a record."""

    fleet: str
    nodes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class PowerFailed:
    """Tell Slurm's power saving that these nodes do not come: they are set DOWN, and then power down."""

    fleet: str
    nodes: tuple[str, ...]
    reason: str


Action = Launch | Drain | Undrain | Remove | Mend | Sweep | Forget | PowerFailed

#: `never`: no machine that this cluster can have would run it. `held`: Slurm would not start it on any machine now.
#: `limit`: a limit of the spec or a budget. `setback`: a fleet backs off. `coming`: nodes are being made for it.
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


class NodeView(NamedTuple):
    """Where a node stands, and why it is kept, drained or taken away, in words."""

    phase: Phase
    reason: str


@dataclass(frozen=True, slots=True)
class Cost:
    """In US dollars: what runs costs an hour, what the month has cost, and what it would come to by its end."""

    usd_per_hour: float = 0
    month_usd: float = 0
    month_projected_usd: float = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """What should be done, what is left waiting, and what is to be remembered. The same input gives the same."""

    at: datetime
    actions: tuple[Action, ...]
    #: By job id (of an array that waits: the array's record), every job that is pending.
    waiting: Mapping[int, Waiting]
    #: By fleet: what should be there, when all actions are done.
    wish: Mapping[str, HostSet]
    #: Every node of the fleets that is more than a slot.
    nodes: Mapping[str, NodeView]
    memory: Memory
    cost: Cost = Cost()
