"""Faults of machines of this machine: a power cut, and a hang."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Final

from tidepool.infrastructures.local.kernel import NoSuchMachine, TimedOut
from tidepool.infrastructures.local.kernel.cgroup import Cgroups, read_file, write_file
from tidepool.infrastructures.local.kernel.cgroup_versions import CgroupsV1, choose
from tidepool.infrastructures.local.kernel.layout import machine_paths
from tidepool.infrastructures.local.kernel.lifeline import end_all
from tidepool.infrastructures.local.kernel.machine import running_machine
from tidepool.infrastructures.local.kernel.record import load

_FREEZING_S: Final = 10.0


def pull_plug(data: Path, stack: str, name: str) -> None:
    """End a machine at once, as a power cut does. Its disk stays."""
    place = machine_paths(data, stack, name)
    if not place.folder.is_dir():
        raise NoSuchMachine(f"there is no machine {name} in stack {stack}")
    end_all(choose(), place.cgroup, load(place.record).lifeline)


def freeze_machine(data: Path, stack: str, name: str) -> None:
    """Stop all of a machine's processes where they are; it keeps its address and answers nothing."""
    running_machine(data, stack, name)
    freeze(choose(), machine_paths(data, stack, name).cgroup)


def thaw_machine(data: Path, stack: str, name: str) -> None:
    """Let a machine go on after `freeze_machine`."""
    running_machine(data, stack, name)
    choose().thaw(machine_paths(data, stack, name).cgroup)


def freeze(cgroups: Cgroups, group: str) -> None:
    """Return when all processes of the group stand still."""
    folder = cgroups.folder_of(group)
    if isinstance(cgroups, CgroupsV1):
        file, text, tells, frozen = folder / "freezer.state", "FROZEN", folder / "freezer.state", "FROZEN"
    else:
        file, text, tells, frozen = folder / "cgroup.freeze", "1", folder / "cgroup.events", "frozen 1"
    deadline, pause = time.monotonic() + _FREEZING_S, threading.Event()
    while frozen not in read_file(tells).splitlines():
        if time.monotonic() > deadline:
            cgroups.thaw(group)
            raise TimedOut(f"{tells}: not frozen after {_FREEZING_S:g} s; thawed again")
        write_file(file, text)  # again: a process that forks can slip through
        pause.wait(0.001)
