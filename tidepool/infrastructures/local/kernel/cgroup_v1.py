"""Version 1: a hierarchy for each controller, and the freezer is one of them.

Source: the kernel's Documentation/admin-guide/cgroup-v1.
"""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
_SYSTEMD: Final = "none,name=systemd"
_FREEZING_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class CgroupsV1:
    """``folders`` are the hierarchies by controller, ``options`` what they are mounted with; ``also`` are those that a machine's processes join besides.

    The latter are systemd's: else a machine would be stopped together with the service that made it. ``spare`` are the
    controllers that only machines need which run containers, and ``containers`` says that this is for those.
    """

    folders: Mapping[str, Path]
    options: Mapping[Path, str]
    also: tuple[Path, ...] = ()
    spare: Mapping[str, Path] = field(default_factory=dict)
    containers: bool = False

    @property
    def home(self) -> str:
        return ""

    def for_containers(self) -> CgroupsV1:
        return replace(self, folders={**self.folders, **self.spare}, spare={}, containers=True)

    def create(self, group: str, limits: Limits) -> None:
        for folder in self._all(group):
            make_group(folder)
        if self.containers:
            self._open_processors(group)
            self._close_disks(group)
        quota = -1 if limits.cpus is None else max(1000, round(limits.cpus * _PERIOD_US))
        cpu, memory = self.folders["cpu"] / group, self.folders["memory"] / group
        hierarchy = memory / "memory.use_hierarchy"
        if hierarchy.read_text().strip() != "1":  # before Linux 5.11, groups within were not limited by it
            write(hierarchy, "1")
        write(cpu / "cpu.cfs_period_us", str(_PERIOD_US))
        write(cpu / "cpu.cfs_quota_us", str(quota))
        size = "-1" if limits.memory_mib is None else str(limits.memory_mib << 20)
        # Memory with swap may not be less than memory: growing, it goes first, shrinking, last.
        swap = memory / "memory.memsw.limit_in_bytes"
        files = [memory / "memory.limit_in_bytes", *([swap] if swap.exists() else [])]
        try:
            for file in files:
                write(file, size)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            for file in reversed(files):
                write(file, size)

    def entrances(self, group: str) -> tuple[str, ...]:
        return tuple(str(folder / "cgroup.procs") for folder in self._all(group))

    def add(self, group: str, pid: int) -> None:
        for entrance in self.entrances(group):
            write(Path(entrance), str(pid))

    def mounts(self) -> tuple[tuple[str, str, str], ...]:
        # By this one slurmd tells which version there is.
        systemd = tuple(("systemd", "cgroup", _SYSTEMD) for folder in self.also if folder.name == "systemd")
        if self.containers:  # who runs them looks for each controller under its own name
            named = tuple((name, "cgroup", self.options[folder]) for name, folder in self.folders.items())
            return (*named, *systemd)
        together: dict[Path, list[str]] = {}
        for controller, folder in self.folders.items():
            together.setdefault(folder, []).append(controller)
        # A hierarchy can only be mounted with all of its controllers: /sys/fs/cgroup/cpu,cpuacct.
        mounts = [(names[0], "cgroup", self.options[folder]) for folder, names in together.items()]
        return (*mounts, *systemd)

    def below(self, group: str) -> tuple[str, ...]:
        return names_below(self.folders["freezer"] / group)

    def members(self, group: str) -> frozenset[int]:
        return members_of(self.folders["freezer"] / group)

    def freeze(self, group: str) -> None:
        state = self._freezer(group)
        deadline, pause = time.monotonic() + _FREEZING_S, threading.Event()
        while read(state).strip() != "FROZEN":
            if time.monotonic() > deadline:
                write(state, "THAWED")
                raise TimedOut(f"{state}: not frozen after {_FREEZING_S:g} s; thawed again")
            write(state, "FROZEN")  # again: a process that forks can slip through
            pause.wait(0.001)

    def thaw(self, group: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            write(self._freezer(group), "THAWED")

    def is_frozen(self, group: str) -> bool:
        try:
            return read(self._freezer(group)).strip() != "THAWED"
        except FileNotFoundError:
            return False

    def memory_kills(self, group: str) -> int:
        folder = self.folders["memory"] / group
        controls = [folder / "memory.oom_control", *folder.rglob("memory.oom_control")]
        texts = [read(control) for control in dict.fromkeys(controls)]
        return sum(int(dict(line.split() for line in text.splitlines())["oom_kill"]) for text in texts)

    def remove(self, group: str) -> None:
        for hierarchy in dict.fromkeys((*self._hierarchies(), *self.spare.values())):
            remove_group(hierarchy, group)

    def _open_processors(self, group: str) -> None:
        """A new group of this controller has no processors, and takes no process until it has some."""
        if (top := self.folders.get("cpuset")) is None:
            return
        for above in [*reversed(Path(group).parents), Path(group)][1:]:
            folder = top / above
            write(folder / "cgroup.clone_children", "1")
            for name in ("cpuset.cpus", "cpuset.mems"):
                if not read(folder / name).strip():
                    write(folder / name, read(folder.parent / name).strip())

    def _close_disks(self, group: str) -> None:
        """Deny the host's disks, which could be opened by whoever makes devices."""
        if devices := self.folders.get("devices"):
            write(devices / group / "devices.deny", "b *:* rw")

    def _freezer(self, group: str) -> Path:
        return self.folders["freezer"] / group / "freezer.state"

    def _hierarchies(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys((*self.folders.values(), *self.also)))

    def _all(self, group: str) -> tuple[Path, ...]:
        return tuple(hierarchy / group for hierarchy in self._hierarchies())
