"""Choice of the version of control groups that this machine has, and what keeps it from being used."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tidepool.infrastructures.local.kernel.cgroup import NEEDED, Cgroups, Hierarchy, hierarchies
from tidepool.infrastructures.local.kernel.cgroup_v1 import CgroupsV1
from tidepool.infrastructures.local.kernel.cgroup_v2 import CgroupsV2
from tidepool.infrastructures.local.kernel.errors import LocalError

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
_SPARE: Final = _CONTROLLERS - set(NEEDED)
_NEEDED_V2: Final = tuple(controller for controller in NEEDED if controller != "freezer")


def choose(mountinfo: Path = Path("/proc/self/mountinfo")) -> Cgroups:
    """The control groups that this machine has.

    Raises:
        LocalError: none that will do; all reasons, with their remedies.
    """
    found = tuple(hierarchies(mountinfo.read_text()))
    if reasons := lacking(found):
        raise LocalError("\n".join(reasons))
    if _has_v1(found):
        folders = {name: _folder(found, name) for name in NEEDED}
        also = tuple(each.folder for each in found if each.version == 2 or "name=systemd" in each.controllers)
        options = {each.folder: ",".join(sorted(each.controllers & _CONTROLLERS)) for each in found}
        spare = {
            name: each.folder
            for each in found
            for name in sorted(each.controllers & _SPARE)
            if not each.is_read_only
        }
        return CgroupsV1(
            folders, options, tuple(folder for folder in also if os.access(folder, os.W_OK)), spare
        )
    return CgroupsV2(next(each.folder for each in found if each.version == 2))


def lacking(found: Sequence[Hierarchy]) -> list[str]:
    """Why the hierarchies will not do: a sentence each, with its remedy. Empty where they will."""
    unified = next((each for each in found if each.version == 2), None)
    if _has_v1(found):
        return [
            f"the control group controller {name} is mounted read-only at {_folder(found, name)}: run outside "
            f"of the container, or start the container with its cgroups writable"
            for name in NEEDED
            if any(each.is_read_only for each in found if name in each.controllers)
        ]
    if any(each.version == 1 and set(NEEDED) & each.controllers for each in found):
        present = {name for each in found for name in each.controllers}
        return [
            f"the control group controller {name} is not mounted: "
            f"mkdir -p /sys/fs/cgroup/{name} && mount -t cgroup -o {name} cgroup /sys/fs/cgroup/{name}"
            for name in NEEDED
            if name not in present
        ]
    if unified is None:
        return ["no control groups are mounted: mount -t cgroup2 cgroup2 /sys/fs/cgroup"]
    if unified.is_read_only:
        remedy = "run outside of the container, or start it with --privileged --cgroupns=host"
        return [f"the control groups at {unified.folder} are mounted read-only: {remedy}"]
    present = set((unified.folder / "cgroup.controllers").read_text().split())
    handed_down = set((unified.folder / "cgroup.subtree_control").read_text().split())
    occupied = bool((unified.folder / "cgroup.procs").read_text().strip()) and not _is_real_root(
        unified.folder
    )
    reasons = [
        f"the control group controller {name} is not delegated to {unified.folder}: "
        f"add Delegate=cpu memory to the systemd unit around this shell, or run outside of it"
        for name in _NEEDED_V2
        if name not in present
    ]
    if occupied and not set(_NEEDED_V2) <= handed_down:
        reasons.append(
            f"processes sit in the control group {unified.folder} itself, so it cannot hand controllers down: "
            f"move them into one below it (mkdir {unified.folder}/init, then write each pid of "
            f"{unified.folder}/cgroup.procs to {unified.folder}/init/cgroup.procs)"
        )
    return reasons


def _has_v1(found: Sequence[Hierarchy]) -> bool:
    return all(any(name in each.controllers for each in found) for name in NEEDED)


def _folder(found: Sequence[Hierarchy], controller: str) -> Path:
    return next(each.folder for each in found if controller in each.controllers)


def _is_real_root(folder: Path) -> bool:
    return not (folder / "cgroup.type").exists()  # which every group but the kernel's root has
