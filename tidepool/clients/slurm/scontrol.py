"""Nodes, and the slots that are nodes in state FUTURE, partitions and reservations: as scontrol lists them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple, Self

from tidepool.clients.slurm.quantities import duration_s, moment, text, tres


class NodeBase(StrEnum):
    """A node's base state. DRAINED and DOWN* are not among them: they are a base state with flags."""

    DOWN = "DOWN"
    IDLE = "IDLE"
    ALLOCATED = "ALLOCATED"
    ERROR = "ERROR"
    MIXED = "MIXED"
    FUTURE = "FUTURE"
    UNKNOWN = "UNKNOWN"


class NodeFlag(StrEnum):
    """Flags that may stand beside the base state: those of 22.05, and what releases up to 25.11 added."""

    BLOCKED = "BLOCKED"
    CLOUD = "CLOUD"
    COMPLETING = "COMPLETING"
    DRAIN = "DRAIN"
    DYNAMIC_FUTURE = "DYNAMIC_FUTURE"
    DYNAMIC_NORM = "DYNAMIC_NORM"
    EXTERNAL = "EXTERNAL"
    FAIL = "FAIL"
    INVALID_REG = "INVALID_REG"
    MAINTENANCE = "MAINTENANCE"
    NOT_RESPONDING = "NOT_RESPONDING"
    PERFCTRS = "PERFCTRS"
    PLANNED = "PLANNED"
    POWERED_DOWN = "POWERED_DOWN"
    POWERING_DOWN = "POWERING_DOWN"
    POWERING_UP = "POWERING_UP"
    POWER_DOWN = "POWER_DOWN"
    POWER_DRAIN = "POWER_DRAIN"
    POWER_UP = "POWER_UP"
    REBOOT_ISSUED = "REBOOT_ISSUED"
    REBOOT_REQUESTED = "REBOOT_REQUESTED"
    RESERVED = "RESERVED"
    RESUME = "RESUME"


@dataclass(frozen=True, slots=True)
class NodeState:
    """The base state and all flags, as ``scontrol show node`` writes them: ``IDLE+DRAIN+POWERED_DOWN``.

    Flags are compared with `NodeFlag`; one that a newer Slurm made up stays as text.
    """

    base: NodeBase
    flags: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, written: str) -> Self:
        """Read ``IDLE+DRAIN``.

        Raises:
            ValueError: the base state is not known.
        """
        base, *flags = written.split("+")
        return cls(NodeBase(base), frozenset(flags))

    def __str__(self) -> str:
        return "+".join([self.base, *sorted(self.flags)])

    @property
    def is_slot(self) -> bool:
        """Declared, but there is no such node yet, or no more: FUTURE, or powered down in the cloud."""
        return self.base is NodeBase.FUTURE or self.flags >= _SWITCHED_OFF

    @property
    def is_draining(self) -> bool:
        """It takes no new jobs; those that it has go on."""
        return NodeFlag.DRAIN in self.flags

    @property
    def runs_jobs(self) -> bool:
        """It has jobs, or what is left of one that is completing."""
        return self.base in _BUSY or NodeFlag.COMPLETING in self.flags

    @property
    def is_drained(self) -> bool:
        """It takes no new jobs and has none: what must hold before its machine may go."""
        return self.is_draining and not self.runs_jobs

    @property
    def takes_jobs(self) -> bool:
        """It is up, and nothing keeps jobs from starting on it when there is room."""
        return self.base in _UP and not self.flags & _UNFIT


_SWITCHED_OFF: Final = frozenset({NodeFlag.CLOUD, NodeFlag.POWERED_DOWN})
_BUSY: Final = frozenset({NodeBase.ALLOCATED, NodeBase.MIXED})
_UP: Final = frozenset({NodeBase.IDLE, NodeBase.ALLOCATED, NodeBase.MIXED})
_UNFIT: Final = frozenset(
    {
        NodeFlag.DRAIN,
        NodeFlag.FAIL,
        NodeFlag.INVALID_REG,
        NodeFlag.MAINTENANCE,
        NodeFlag.NOT_RESPONDING,
        NodeFlag.POWERED_DOWN,
        NodeFlag.POWERING_DOWN,
        NodeFlag.POWERING_UP,
        NodeFlag.POWER_DOWN,
        NodeFlag.POWER_DRAIN,
        NodeFlag.REBOOT_ISSUED,
        NodeFlag.REBOOT_REQUESTED,
    }
)


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why a node is not in service, by whom it was said, and when."""

    text: str
    user: str = ""
    time: datetime | None = None


_NO_TRES: Final = tres("")


class Node(NamedTuple):
    """A node as slurmctld sees it. A tuple, for ten thousands of them are made at a time.

    ``cpus`` counts what Slurm calls CPUs (hardware threads), ``memory_mib`` is RealMemory; ``gres`` and
    ``features`` are what it is configured with. A node that never registered has no ``boot_time``.
    """

    name: str
    state: NodeState
    address: str = ""
    hostname: str = ""
    cpus: int = 1
    cpus_alloc: int = 0
    memory_mib: int = 1
    memory_alloc_mib: int = 0
    features: tuple[str, ...] = ()
    active_features: tuple[str, ...] = ()
    gres: str = ""
    sockets: int = 1
    cores_per_socket: int = 1
    threads_per_core: int = 1
    weight: int = 1
    partitions: tuple[str, ...] = ()
    reason: Reason | None = None
    boot_time: datetime | None = None
    slurmd_start_time: datetime | None = None
    last_busy_time: datetime | None = None
    tres: Mapping[str, str] = _NO_TRES
    tres_alloc: Mapping[str, str] = _NO_TRES
    version: str = ""
    comment: str = ""
    extra: str = ""


_KEY = re.compile(r"(?:^| )([A-Z][A-Za-z_]*)=")
#: Written last, and by people: what looks like another key inside of them is theirs.
_FREE = re.compile(r" +(?=(?:Reason|Comment|Extra|InstanceId|ReservationName)=)")
_BY_WHOM = re.compile(r"(?P<text>.*) \[(?P<user>[^\[\]@]*)@(?P<time>\d+)\](?P<more>.*)", re.DOTALL)


def parse_node(line: str) -> Node:
    """One line of ``scontrol --oneliner show node``.

    Raises:
        KeyError, ValueError: it is not one.
    """
    head, *free = _FREE.split(line)
    values = _values(head)
    # Only at the beginning, so that nobody's comment passes for a reason written before it.
    notes: dict[str, str] = {}
    for piece in free:
        key, _, value = piece.partition("=")
        notes.setdefault(key, value.strip())
    return Node(
        name=values["NodeName"],
        state=NodeState.parse(values["State"]),
        address=text(values.get("NodeAddr", "")),
        hostname=text(values.get("NodeHostName", "")),
        cpus=int(values["CPUTot"]),
        cpus_alloc=int(values["CPUAlloc"]),
        memory_mib=int(values["RealMemory"]),
        memory_alloc_mib=int(values["AllocMem"]),
        features=_names(values["AvailableFeatures"]),
        active_features=_names(values["ActiveFeatures"]),
        gres=text(values["Gres"]),
        sockets=int(values["Sockets"]),
        cores_per_socket=int(values["CoresPerSocket"]),
        threads_per_core=int(values["ThreadsPerCore"]),
        weight=int(values["Weight"]),
        partitions=_names(values.get("Partitions", "")),
        reason=_reason(notes.get("Reason", "")),
        boot_time=moment(values["BootTime"]),
        slurmd_start_time=moment(values["SlurmdStartTime"]),
        last_busy_time=moment(values.get("LastBusyTime", "")),
        tres=tres(values["CfgTRES"]),
        tres_alloc=tres(values["AllocTRES"]),
        version=values.get("Version", ""),
        comment=notes.get("Comment", ""),
        extra=notes.get("Extra", ""),
    )


def _values(line: str) -> dict[str, str]:
    """Read ``Key=value`` by key."""
    parts = _KEY.split(line)
    return dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))


def _names(written: str) -> tuple[str, ...]:
    return tuple(text(written).split(",")) if text(written) else ()


def _reason(written: str) -> Reason | None:
    if not written:
        return None
    found = _BY_WHOM.fullmatch(written)
    if not found:
        return Reason(written)
    # Of a reason of several lines, only the first is followed by who and when.
    more = " ".join(found["more"].split())
    return Reason(f"{found['text']} {more}".strip(), found["user"], moment(found["time"]))


class PartitionState(StrEnum):
    """States of a partition: it takes jobs (UP, DOWN), it starts them (UP, DRAIN)."""

    UP = "UP"
    DOWN = "DOWN"
    DRAIN = "DRAIN"
    INACTIVE = "INACTIVE"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition. ``nodes`` is a hostlist and, as ``total_nodes``, counts no node in state FUTURE."""

    name: str
    state: PartitionState
    is_default: bool
    nodes: str
    total_nodes: int
    total_cpus: int
    max_time_s: int | None
    default_time_s: int | None
    max_nodes: int | None
    priority_tier: int
    oversubscribe: str
    allow_accounts: tuple[str, ...]
    tres: Mapping[str, str]


def parse_partition(line: str) -> Partition:
    """One line of ``scontrol --oneliner show partition``.

    Raises:
        KeyError, ValueError: it is not one.
    """
    values = _values(line)
    accounts = values.get("AllowAccounts", "ALL")
    return Partition(
        name=values["PartitionName"],
        state=PartitionState(values["State"]),
        is_default=values["Default"] == "YES",
        nodes=text(values["Nodes"]),
        total_nodes=int(values["TotalNodes"]),
        total_cpus=int(values["TotalCPUs"]),
        max_time_s=duration_s(values["MaxTime"]),
        default_time_s=duration_s(values["DefaultTime"]),
        max_nodes=None if values["MaxNodes"] == "UNLIMITED" else int(values["MaxNodes"]),
        priority_tier=int(values["PriorityTier"]),
        oversubscribe=values["OverSubscribe"],
        allow_accounts=() if accounts == "ALL" else tuple(accounts.split(",")),
        tres=tres(values.get("TRES", "")),
    )


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation. ``nodes`` is a hostlist; ``flags`` are Slurm's (MAINT, IGNORE_JOBS, SPEC_NODES, ...)."""

    name: str
    start_time: datetime
    end_time: datetime
    nodes: str
    node_count: int
    flags: frozenset[str]
    users: tuple[str, ...]
    accounts: tuple[str, ...]
    is_active: bool
    partition: str
    features: str
    licenses: Mapping[str, str]
    tres: Mapping[str, str]


def parse_reservation(line: str) -> Reservation:
    """One line of ``scontrol --oneliner show reservation``.

    Raises:
        KeyError, ValueError: it is not one.
    """
    values = _values(line)
    start, end = moment(values["StartTime"]), moment(values["EndTime"])
    if start is None or end is None:
        raise ValueError("a reservation has a start and an end")
    return Reservation(
        name=values["ReservationName"],
        start_time=start,
        end_time=end,
        nodes=text(values["Nodes"]),
        node_count=int(values["NodeCnt"]),
        flags=frozenset(_names(values["Flags"])),
        users=_names(values["Users"]),
        accounts=_names(values["Accounts"]),
        is_active=values["State"] == "ACTIVE",
        partition=text(values["PartitionName"]),
        features=text(values["Features"]),
        licenses=tres(values["Licenses"]),
        tres=tres(values.get("TRES", "")),
    )
