"""The phase of a node, as Slurm, infrastructure and Pulumi's state together tell it."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """One of these holds for every slot of a fleet; `ledger` tells which, and what is done about it."""

    #: Only a slot. Nothing is there, nothing is wished.
    ABSENT = "absent"
    #: Wished; its machine is being made, boots, or registers.
    LAUNCHING = "launching"
    #: In service without jobs; in service with jobs.
    IDLE = "idle"
    BUSY = "busy"
    #: Drained by the scaler: with jobs that are still to end; empty.
    DRAINING = "draining"
    DRAINED = "drained"
    #: Somebody else's: drained by a person, reserved, in maintenance, rebooting. Never touched by us.
    HELD = "held"
    #: Not wished any more, and still there: an `up` takes it away.
    LEAVING = "leaving"
    #: Not as it should be: down, not responding, its machine gone, past its deadline, with too little memory.
    ILL = "ill"
    #: A machine that no record knows.
    STRAY = "stray"
    #: Something could not be seen: nothing is done.
    UNKNOWN = "unknown"
