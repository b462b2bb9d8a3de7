"""The words of the ledger: how a node is seen, what is recorded, wished and asked for, and what is to be done."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from tidepool.scaling.phase import Phase


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
    #: Take it into the wish.
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
        """Return whether ``cell`` is one of them."""
        return all(value in values for value, values in zip(cell, self[:6], strict=True))
