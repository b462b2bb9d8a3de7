"""The two versions of control groups, and the choice of the one that this machine has.

Version 1 has a hierarchy for each controller, and the freezer is one of them; version 2 has one for all, and controllers are handed
down from group to group. Sources: the kernel's Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from tidepool.infrastructures.local.kernel.cgroup import (
    NEEDED,
    Cgroups,
    Hierarchy,
    Limits,
    hierarchies,
    make_group,
    processor_list,
    processor_text,
    read_file,
    remove_group,
    write_file,
)
from tidepool.infrastructures.local.kernel.errors import LocalError

_PERIOD_US: Final = 100_000
_SYSTEMD: Final = "none,name=systemd"


@dataclass(frozen=True, slots=True)
class CgroupsV1(Cgroups):
    """``folders`` are the hierarchies by controller, ``options`` what they are mounted with; ``also`` are those that a machine's processes join besides.

    The latter are systemd's: else a machine would be stopped together with the service that made it.
    """

    freezer: ClassVar = ("freezer.state", "THAWED")

    folders: Mapping[str, Path]
    options: Mapping[Path, str]
    also: tuple[Path, ...] = ()

    @property
    def home(self) -> str:
        return ""

    def folder_of(self, group: str) -> Path:
        return self.folders["freezer"] / group

    def create(self, group: str, limits: Limits) -> None:
        for folder in self._all(group):
            make_group(folder)
        self._open_processors(group)
        self._close_disks(group)
        quota = -1 if limits.cpus is None else max(1000, round(limits.cpus * _PERIOD_US))
        cpu, memory = self.folders["cpu"] / group, self.folders["memory"] / group
        hierarchy = memory / "memory.use_hierarchy"
        if hierarchy.read_text().strip() != "1":  # before Linux 5.11, groups within were not limited by it
            write_file(hierarchy, "1")
        write_file(cpu / "cpu.cfs_period_us", str(_PERIOD_US))
        write_file(cpu / "cpu.cfs_quota_us", str(quota))
        size = "-1" if limits.memory_mib is None else str(limits.memory_mib << 20)
        # Memory with swap may not be less than memory: growing, it goes first, shrinking, last.
        swap = memory / "memory.memsw.limit_in_bytes"
        files = [memory / "memory.limit_in_bytes", *([swap] if swap.exists() else [])]
        try:
            for file in files:
                write_file(file, size)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            for file in reversed(files):
                write_file(file, size)

    def entrances(self, group: str) -> tuple[str, ...]:
        return tuple(str(folder / "cgroup.procs") for folder in self._all(group))

    def add(self, group: str, pid: int) -> None:
        for entrance in self.entrances(group):
            write_file(Path(entrance), str(pid))

    def mounts(self) -> tuple[tuple[str, str, str], ...]:
        # By this one slurmd tells which version there is.
        systemd = tuple(("systemd", "cgroup", _SYSTEMD) for folder in self.also if folder.name == "systemd")
        # slurmd and the kubelet look for each controller under its own name.
        named = tuple((name, "cgroup", self.options[folder]) for name, folder in self.folders.items())
        return (*named, *systemd)

    def memory_kills(self, group: str) -> int:
        folder = self.folders["memory"] / group
        controls = [folder / "memory.oom_control", *folder.rglob("memory.oom_control")]
        texts = [read_file(control) for control in dict.fromkeys(controls)]
        return sum(int(dict(line.split() for line in text.splitlines())["oom_kill"]) for text in texts)

    def bind(self, group: str, processors: Collection[int]) -> None:
        if (top := self.folders.get("cpuset")) is None:
            raise LocalError(
                "the control group controller cpuset is not mounted, so no machine is bound to processors; "
                "mount it: mkdir -p /sys/fs/cgroup/cpuset && mount -t cgroup -o cpuset cgroup /sys/fs/cgroup/cpuset"
            )
        # A group has no processor that the one above it has not: those below give theirs up first.
        for inner, _, _ in os.walk(top / group, topdown=False):
            file = Path(inner) / "cpuset.cpus"
            try:
                had = processor_list(read_file(file))
                write_file(file, processor_text(had & frozenset(processors) or processors))
            except FileNotFoundError:
                continue  # a job's, which ended meanwhile

    def cpu_s(self, group: str) -> float:
        if (top := self.folders.get("cpuacct")) is None:
            raise LocalError(
                "the control group controller cpuacct is not mounted; mount it as the others are"
            )
        return int(read_file(top / group / "cpuacct.usage")) / 1e9

    def remove(self, group: str) -> None:
        for hierarchy in self._hierarchies():
            remove_group(hierarchy, group)

    def _open_processors(self, group: str) -> None:
        """A new group of this controller has no processors, and takes no process until it has some."""
        if (top := self.folders.get("cpuset")) is None:
            return
        for above in [*reversed(Path(group).parents), Path(group)][1:]:
            folder = top / above
            write_file(folder / "cgroup.clone_children", "1")
            for name in ("cpuset.cpus", "cpuset.mems"):
                if not read_file(folder / name).strip():
                    write_file(folder / name, read_file(folder.parent / name).strip())

    def _close_disks(self, group: str) -> None:
        """Deny the host's disks, which could be opened by whoever makes devices."""
        if devices := self.folders.get("devices"):
            write_file(devices / group / "devices.deny", "b *:* rw")

    def _hierarchies(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys((*self.folders.values(), *self.also)))

    def _all(self, group: str) -> tuple[Path, ...]:
        return tuple(hierarchy / group for hierarchy in self._hierarchies())


#: With them jobs and containers are confined.
_MORE_V2: Final = ("cpuset", "io", "pids", "hugetlb")
#: A group that hands controllers down has no processes of its own.
_HOME: Final = "machine"


@dataclass(frozen=True, slots=True)
class CgroupsV2(Cgroups):
    """``folder`` is the hierarchy; ``controllers`` are those that groups get."""

    freezer: ClassVar = ("cgroup.freeze", "0")

    folder: Path
    controllers: tuple[str, ...] = ("cpu", "memory")
    home: str = _HOME

    def folder_of(self, group: str) -> Path:
        return self.folder / group

    def create(self, group: str, limits: Limits) -> None:
        inner = self.folder / group
        make_group(inner)
        for above in reversed(inner.relative_to(self.folder).parents):
            control = self.folder / above / "cgroup.subtree_control"
            handed_down = set(control.read_text().split())
            for controller in self.controllers:
                if controller not in handed_down:
                    write_file(control, f"+{controller}")
        if "cpu" in self.controllers:
            quota = "max" if limits.cpus is None else str(max(1000, round(limits.cpus * _PERIOD_US)))
            write_file(inner / "cpu.max", f"{quota} {_PERIOD_US}")
        if "memory" in self.controllers:
            write_file(
                inner / "memory.max", "max" if limits.memory_mib is None else str(limits.memory_mib << 20)
            )
            swap = inner / "memory.swap.max"
            if swap.exists():  # not where the kernel has no swap
                write_file(swap, "max" if limits.memory_mib is None else "0")

    def entrances(self, group: str) -> tuple[str, ...]:
        home = self.folder / group / _HOME
        return (str((home if home.is_dir() else self.folder / group) / "cgroup.procs"),)

    def add(self, group: str, pid: int) -> None:
        write_file(self.folder / group / "cgroup.procs", str(pid))

    def mounts(self) -> tuple[tuple[str, str, str], ...]:
        return (("", "cgroup2", ""),)

    def memory_kills(self, group: str) -> int:
        text = read_file(self.folder / group / "memory.events")
        return int(dict(line.split() for line in text.splitlines())["oom_kill"])

    def bind(self, group: str, processors: Collection[int]) -> None:
        if "cpuset" not in self.controllers:
            raise LocalError(
                "the control group controller cpuset is not delegated, so no machine is bound to processors; "
                "add Delegate=cpu cpuset memory to the systemd unit around this shell, or run outside of it"
            )
        # Groups below have what they had of it.
        write_file(self.folder / group / "cpuset.cpus", processor_text(processors))

    def cpu_s(self, group: str) -> float:
        text = read_file(self.folder / group / "cpu.stat")
        return int(dict(line.split() for line in text.splitlines())["usage_usec"]) / 1e6

    def remove(self, group: str) -> None:
        remove_group(self.folder, group)


#: Of version 1; among a hierarchy's mount options are others.
_CONTROLLERS: Final = frozenset(
    (
        *NEEDED,
        "cpuacct",
        "cpuset",
        "blkio",
        "devices",
        "hugetlb",
        "net_cls",
        "net_prio",
        "perf_event",
        "pids",
        "rdma",
    )
)
_NEEDED_V2: Final = tuple(controller for controller in NEEDED if controller != "freezer")


def choose(mountinfo: Path = Path("/proc/self/mountinfo")) -> Cgroups:
    """The control groups that this machine has.

    Raises:
        LocalError: none that will do; all reasons, with their remedies.
    """
    found = tuple(hierarchies(mountinfo.read_text()))
    if reasons := lacking(found):
        raise LocalError("\n".join(f"{what}: {remedy}" for what, remedy in reasons))
    if _has_v1(found):
        also = tuple(each.folder for each in found if each.version == 2 or "name=systemd" in each.controllers)
        folders = {name: _folder(found, name) for name in NEEDED}
        for each in found:
            if not each.is_read_only:
                folders |= dict.fromkeys(
                    sorted((each.controllers & _CONTROLLERS) - folders.keys()), each.folder
                )
        options = {each.folder: ",".join(sorted(each.controllers & _CONTROLLERS)) for each in found}
        return CgroupsV1(folders, options, tuple(folder for folder in also if os.access(folder, os.W_OK)))
    unified = next(each.folder for each in found if each.version == 2)
    there = read_file(unified / "cgroup.controllers").split()
    return CgroupsV2(unified, (*_NEEDED_V2, *(name for name in _MORE_V2 if name in there)))


def lacking(found: Sequence[Hierarchy]) -> list[tuple[str, str]]:
    """Return what keeps the hierarchies from being used, each with its remedy. Empty where they will do."""
    unified = next((each for each in found if each.version == 2), None)
    if _has_v1(found):
        return [
            (
                f"the control group controller {name} is mounted read-only at {_folder(found, name)}",
                "run outside of the container, or start the container with its cgroups writable",
            )
            for name in NEEDED
            if any(each.is_read_only for each in found if name in each.controllers)
        ]
    if any(each.version == 1 and set(NEEDED) & each.controllers for each in found):
        present = {name for each in found for name in each.controllers}
        return [
            (
                f"the control group controller {name} is not mounted",
                f"mkdir -p /sys/fs/cgroup/{name} && mount -t cgroup -o {name} cgroup /sys/fs/cgroup/{name}",
            )
            for name in NEEDED
            if name not in present
        ]
    if unified is None:
        return [("no control groups are mounted", "mount -t cgroup2 cgroup2 /sys/fs/cgroup")]
    if unified.is_read_only:
        remedy = "run outside of the container, or start it with --privileged --cgroupns=host"
        return [(f"the control groups at {unified.folder} are mounted read-only", remedy)]
    present = set((unified.folder / "cgroup.controllers").read_text().split())
    handed_down = set((unified.folder / "cgroup.subtree_control").read_text().split())
    occupied = bool((unified.folder / "cgroup.procs").read_text().strip()) and not _is_real_root(
        unified.folder
    )
    reasons = [
        (
            f"the control group controller {name} is not delegated to {unified.folder}",
            "add Delegate=cpu memory to the systemd unit around this shell, or run outside of it",
        )
        for name in _NEEDED_V2
        if name not in present
    ]
    if occupied and not set(_NEEDED_V2) <= handed_down:
        top = unified.folder
        remedy = f"mkdir {top}/init, then write each pid of {top}/cgroup.procs to {top}/init/cgroup.procs"
        what = f"processes sit in the control group {top} itself, so it cannot hand controllers down"
        reasons.append((what, f"move them into one below it ({remedy})"))
    return reasons


def _has_v1(found: Sequence[Hierarchy]) -> bool:
    return all(any(name in each.controllers for each in found) for name in NEEDED)


def _folder(found: Sequence[Hierarchy], controller: str) -> Path:
    return next(each.folder for each in found if controller in each.controllers)


def _is_real_root(folder: Path) -> bool:
    return not (folder / "cgroup.type").exists()  # which every group but the kernel's root has
