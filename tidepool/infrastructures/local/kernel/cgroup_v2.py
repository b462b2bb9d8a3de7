"""Version 2: one hierarchy for all. Controllers are handed down from group to group.

Source: the kernel's Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tidepool.infrastructures.local.kernel.cgroup import Limits
from tidepool.infrastructures.local.kernel.cgroup_files import (
    make_group,
    members_of,
    names_below,
    read,
    remove_group,
    write,
)
from tidepool.infrastructures.local.kernel.errors import TimedOut

_PERIOD_US: Final = 100_000
_FREEZING_S: Final = 10.0
_CONTAINERS_NEED: Final = ("cpuset", "io", "pids", "hugetlb")
#: A group that hands controllers down has no processes of its own.
_HOME: Final = "machine"


@dataclass(frozen=True, slots=True)
class CgroupsV2:
    """``folder`` is the hierarchy; ``controllers`` are those that groups get."""

    folder: Path
    controllers: tuple[str, ...] = ("cpu", "memory")
    home: str = ""

    def for_containers(self) -> CgroupsV2:
        there = set(read(self.folder / "cgroup.controllers").split())
        more = tuple(name for name in _CONTAINERS_NEED if name in there)
        return replace(self, controllers=(*self.controllers, *more), home=_HOME)

    def create(self, group: str, limits: Limits) -> None:
        inner = self.folder / group
        make_group(inner)
        for above in reversed(inner.relative_to(self.folder).parents):
            control = self.folder / above / "cgroup.subtree_control"
            handed_down = set(control.read_text().split())
            for controller in self.controllers:
                if controller not in handed_down:
                    write(control, f"+{controller}")
        if "cpu" in self.controllers:
            quota = "max" if limits.cpus is None else str(max(1000, round(limits.cpus * _PERIOD_US)))
            write(inner / "cpu.max", f"{quota} {_PERIOD_US}")
        if "memory" in self.controllers:
            write(inner / "memory.max", "max" if limits.memory_mib is None else str(limits.memory_mib << 20))
            swap = inner / "memory.swap.max"
            if swap.exists():  # not where the kernel has no swap
                write(swap, "max" if limits.memory_mib is None else "0")

    def entrances(self, group: str) -> tuple[str, ...]:
        home = self.folder / group / _HOME
        return (str((home if home.is_dir() else self.folder / group) / "cgroup.procs"),)

    def add(self, group: str, pid: int) -> None:
        write(self.folder / group / "cgroup.procs", str(pid))

    def mounts(self) -> tuple[tuple[str, str, str], ...]:
        return (("", "cgroup2", ""),)

    def below(self, group: str) -> tuple[str, ...]:
        return names_below(self.folder / group)

    def members(self, group: str) -> frozenset[int]:
        return members_of(self.folder / group)

    def freeze(self, group: str) -> None:
        write(self.folder / group / "cgroup.freeze", "1")
        events = self.folder / group / "cgroup.events"
        deadline, pause = time.monotonic() + _FREEZING_S, threading.Event()
        while "frozen 1" not in read(events).splitlines():
            if time.monotonic() > deadline:
                self.thaw(group)
                raise TimedOut(f"{events}: not frozen after {_FREEZING_S:g} s; thawed again")
            pause.wait(0.001)

    def thaw(self, group: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            write(self.folder / group / "cgroup.freeze", "0")

    def is_frozen(self, group: str) -> bool:
        try:
            return read(self.folder / group / "cgroup.freeze").strip() == "1"
        except FileNotFoundError:
            return False

    def memory_kills(self, group: str) -> int:
        text = read(self.folder / group / "memory.events")
        return int(dict(line.split() for line in text.splitlines())["oom_kill"])

    def remove(self, group: str) -> None:
        remove_group(self.folder, group)
