"""Words of the reconcile table: how a node is seen, what is recorded, desired and asked for, and what is to be done.

Of them the status in Slurm is read here, from a node's state, its flags and its reason.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from tidepool.clients.slurm import Node, NodeBase, NodeFlag
from tidepool.scaling.decision import Phase


class SlurmStatus(StrEnum):
    """The state of a node in Slurm."""

    UNLISTED = "not listed"
    SLOT = "slot"
    #: Powered down by Slurm's power saving; being powered up.
    OFF = "powered down"
    BOOTING = "powering up"
    UP = "up"
    #: Drained with a reason of the scaler's, or of the provider's.
    OURS = "drained by us"
    #: Drained, set down, reserved, in maintenance, rebooting: somebody else's.
    THEIRS = "somebody's"
    #: It does not respond, and Slurm has not given it up yet.
    SILENT = "not responding"
    DOWN = "down"
    #: It registered with less than its shape, or slurmctld drained it after a failure.
    UNFIT = "unfit"
    #: A state that says nothing.
    STRANGE = "strange"


class Power(StrEnum):
    """The state of a node's machine in the infrastructure."""

    RUNNING = "running"
    STOPPED = "stopped"
    NOT_LISTED = "not listed"
    UNKNOWN = "unknown"


class Record(StrEnum):
    """The record of a node in Pulumi's state."""

    NONE = "nothing"
    MACHINE = "machine"
    BOTH = "machine and node"
    PENDING = "cut off"
    UNKNOWN = "unknown"


class RequestStatus(StrEnum):
    """The request for a node, and whether its time is over."""

    NONE = "nothing"
    UNDER_WAY = "under way"
    LAUNCH = "launch"
    LATE_LAUNCH = "late launch"
    UP = "up"
    LATE_UP = "late up"
    #: The last `up` could not make it, and it is left alone for a while.
    FAILED = "failed"


class NodeAction(StrEnum):
    """The action on a node."""

    NOTHING = "nothing"
    #: Something was asked for and has time still, or more has to be known first.
    WAIT = "wait"
    #: Jobs may have it, and when it is idle for long enough it is drained.
    SERVE = "serve"
    #: Jobs may have it, and it stays, for something cannot be seen.
    KEEP = "keep"
    #: From now on it is desired.
    ADOPT = "adopt"
    #: Make it, with a deadline.
    MAKE = "make"
    REPAIR = "repair"
    DRAIN = "drain"
    #: Undrain it when a job needs it; remove it when it is empty.
    LEAVE = "leave"
    REMOVE = "remove"
    #: It is desired no more, and nothing is there that an `up` could take away.
    DROP = "drop"
    #: Remove it, count it as a failure of its fleet, and take another name for a while.
    REPLACE = "replace"
    DELETE_ORPHAN = "delete orphan"
    RELEASE_SLOT = "release slot"
    #: Tell Slurm's power saving that it does not come.
    FAIL = "fail"


class Cell(NamedTuple):
    """One combination."""

    slurm: SlurmStatus
    jobs: bool
    power: Power
    record: Record
    desired: bool
    request: RequestStatus


class Row(NamedTuple):
    """Combinations that come to the same. Of ``phase``, IDLE with jobs is BUSY, DRAINED with jobs DRAINING."""

    slurm: frozenset[SlurmStatus]
    jobs: frozenset[bool]
    power: frozenset[Power]
    record: frozenset[Record]
    desired: frozenset[bool]
    request: frozenset[RequestStatus]
    phase: Phase
    action: NodeAction
    why: str

    def fits(self, cell: Cell) -> bool:
        return all(value in values for value, values in zip(cell, self[:6], strict=True))


#: What the scaler's drains, and the provider's, begin with. Everything else is a person's.
OURS: Final = "tidepool:"

#: The provider's, when an operation takes a node away (`tidepool.provider.retirement`).
PROVIDERS: Final = "tidepool: leaves the cluster"

#: Somebody else has it in hand.
_THEIRS: Final = frozenset(
    {
        NodeFlag.BLOCKED,
        NodeFlag.EXTERNAL,
        NodeFlag.FAIL,
        NodeFlag.MAINTENANCE,
        NodeFlag.REBOOT_ISSUED,
        NodeFlag.REBOOT_REQUESTED,
        NodeFlag.RESERVED,
    }
)
_OFF: Final = frozenset(
    {NodeFlag.POWERED_DOWN, NodeFlag.POWERING_DOWN, NodeFlag.POWER_DOWN, NodeFlag.POWER_DRAIN}
)
_BOOTING: Final = frozenset({NodeFlag.POWERING_UP, NodeFlag.POWER_UP})
_KNOWN: Final = frozenset(NodeFlag)
_UP: Final = frozenset({NodeBase.IDLE, NodeBase.ALLOCATED, NodeBase.MIXED})
_PLAIN: Final = frozenset({NodeFlag.DYNAMIC_NORM, NodeFlag.CLOUD, NodeFlag.PLANNED, NodeFlag.COMPLETING})

#: How slurmctld begins the reasons that it sets by itself. In lower case.
_TOO_LITTLE: Final = (
    "low realmemory",
    "low cpus",
    "low sockets",
    "low socket",
    "low cores",
    "low threads",
    "low tmpdisk",
    "gres/",
)
#: For which slurmctld drains a node, without a person. A drain that it would never end is replaced with its machine.
_FAILED: Final = (
    "batch job complete failure",
    "duplicate jobid",
    "epilog error",
    "kill task failed",
    "prolog error",
)
#: What a machine itself writes when it was told that it is taken back (`tidepool.infrastructures.aws.guest.spot`). It goes, whoever wants it.
_TAKEN_BACK: Final = ("spot: ",)
_DIED: Final = (
    "not responding",
    "node unexpectedly rebooted",
    "resumetimeout reached",
    "suspendtimeout reached",
    "no network address found",
    "node registration",
    "boot failed",
    "scheduled reboot",
    "none",
)


def slurm_status(node: Node | None) -> SlurmStatus:
    """One word for it. Of two that hold, what keeps hands off goes first."""
    if node is None:
        return SlurmStatus.UNLISTED
    base, flags = node.state.base, node.state.flags
    if base is NodeBase.FUTURE:
        return SlurmStatus.SLOT
    if base in _UP and flags <= _PLAIN:
        return SlurmStatus.UP
    if not flags <= _KNOWN or base in (NodeBase.ERROR, NodeBase.UNKNOWN):
        # A newer Slurm's word, or one that says nothing.
        return SlurmStatus.STRANGE
    if flags & _THEIRS or _is_somebodys(node):
        return SlurmStatus.THEIRS
    if flags & _BOOTING:
        return SlurmStatus.BOOTING
    if flags & _OFF:
        return SlurmStatus.OFF
    if NodeFlag.INVALID_REG in flags or _is_unfit(node):
        return SlurmStatus.UNFIT
    if base is NodeBase.DOWN:
        return SlurmStatus.DOWN
    if NodeFlag.NOT_RESPONDING in flags:
        return SlurmStatus.SILENT
    return SlurmStatus.OURS if node.state.is_draining else SlurmStatus.UP


def without_mark(reason: str) -> str:
    """Return the reason of a drain of ours for people, without what marks it as ours."""
    return reason.removeprefix(OURS).strip()


def holder(node: Node) -> str:
    """Return who holds a node that is somebody's, and why, in words."""
    flags = ", ".join(sorted(node.state.flags & _THEIRS))
    by = f" by {node.reason.user}" if node.reason and node.reason.user else ""
    why = f": {node.reason.text}" if node.reason and node.reason.text else ""
    return f"{flags or ('down' if node.state.base is NodeBase.DOWN else 'drained')}{by}{why}"


def _is_somebodys(node: Node) -> bool:
    """Drained or set down by a person."""
    written = node.reason.text if node.reason else ""
    if written.startswith(OURS) or _is_unfit(node):
        return False
    if node.state.base is NodeBase.DOWN and not node.state.is_draining:
        by_slurm = node.reason is not None and node.reason.user == "slurm"
        return bool(written) and not by_slurm and not _begins(node, _DIED)
    return node.state.is_draining


def is_taken_back(node: Node | None) -> bool:
    """Return whether its infrastructure takes its machine back, and has said so before."""
    return (
        node is not None
        and node.reason is not None
        and node.reason.user in ("", "root")
        and node.state.is_draining
        and _begins(node, _TAKEN_BACK)
    )


def _is_unfit(node: Node) -> bool:
    by_slurm = node.reason is not None and node.reason.user in ("", "root", "slurm")
    return _begins(node, _TOO_LITTLE) or (by_slurm and _begins(node, _FAILED)) or is_taken_back(node)


def _begins(node: Node, texts: tuple[str, ...]) -> bool:
    return node.reason is not None and node.reason.text.lower().startswith(texts)
