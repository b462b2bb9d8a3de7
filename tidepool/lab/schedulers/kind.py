"""`SchedulerKind`: what is known of a scheduler before it is opened: which machines it needs, and what is missing for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from tidepool.cluster.roles import Role
from tidepool.lab.schedulers.contract import Scheduler
from tidepool.lab.testbed import Testbed

Family = Literal["slurm", "kubernetes", "flux"]


@dataclass(frozen=True, slots=True)
class SchedulerKind:
    """A scheduler as a laboratory's file names it.

    Attributes:
        name: the word in the laboratory's file.
        family: those of one family run jobs the same way, and differ in who decides.
        side: the role that the pool's machines have while it has them.
        missing: returns sentences, each with its remedy, of what this machine or the stack lacks for it; empty where nothing. It is
            asked before the stack is brought up, when what is not up yet is no lack, and again when it is up.
        open: returns the scheduler, given its options in the laboratory's file; raises `tidepool.lab.errors.LabError`
            for options that it does not have.
    """

    name: str
    family: Family
    side: Role
    missing: Callable[[Testbed], tuple[str, ...]]
    open: Callable[[Testbed, Mapping[str, object]], Scheduler]
