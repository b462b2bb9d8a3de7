"""Removal of what is left of a machine or a network."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import Final

from tidepool.infrastructures.local.kernel.cgroup import Cgroups
from tidepool.infrastructures.local.kernel.errors import TimedOut
from tidepool.infrastructures.local.kernel.layout import Paths
from tidepool.infrastructures.local.kernel.lifeline import Lifeline

_ENDING_S: Final = 20.0


def end_all(cgroups: Cgroups, group: str, lifeline: Lifeline | None) -> None:
    """Kill all that runs there, and wait until it is gone. The end of a first process is the end of all its own.

    The control group is asked too: it knows what no record does, when a creator died or a record was lost.

    Raises:
        TimedOut: something is still there after some seconds.
    """
    if lifeline is not None:
        lifeline.signal(signal.SIGKILL)
    deadline, pause = time.monotonic() + _ENDING_S, threading.Event()
    while members := cgroups.members(group):
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        cgroups.thaw(group)  # what is frozen does not die
        if time.monotonic() > deadline:
            raise TimedOut(f"processes {sorted(members)} of {group} do not end, though killed")
        pause.wait(0.002)
    if lifeline is not None:
        lifeline.wait_gone(_ENDING_S)


def remove_lock(place: Paths) -> None:
    """Remove the lock, which the caller holds, and the folders above where they are empty."""
    place.lock.unlink(missing_ok=True)
    for folder in (place.lock.parent, place.lock.parent.parent):
        with contextlib.suppress(OSError):  # not empty, or another one was faster
            folder.rmdir()
