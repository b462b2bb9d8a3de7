"""Control groups for jobs: the controllers beyond those that machines need, by which slurmd holds a job to what it asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidepool.infrastructures.local.kernel.cgroup import Hierarchy, hierarchies
from tidepool.infrastructures.local.kernel.spec import DROPPED

#: What jobs are held to by each. Without memory and freezer there are no machines at all.
_HOLDS: Final = {"cpuset": "processors", "devices": "devices"}
#: What the kernel was built with that has it.
_OPTIONS: Final = {"cpuset": "CONFIG_CPUSETS", "devices": "CONFIG_CGROUP_DEVICE"}


@dataclass(frozen=True, slots=True)
class Unheld:
    """A ``controller`` that machines here do not have, what that means for jobs, and the remedy."""

    controller: str
    what: str
    remedy: str


def version() -> int:
    """Return the version of the control groups that machines see: 1 where that has the memory."""
    return 1 if any("memory" in each.controllers for each in _mounted()) else 2


def unheld() -> tuple[Unheld, ...]:
    """All that jobs on machines here cannot be held to."""
    return lacking_for_jobs(_mounted(), Path("/proc/cgroups").read_text())


def lacking_for_jobs(found: Sequence[Hierarchy], kernel: str) -> tuple[Unheld, ...]:
    """The same, by the hierarchies that are mounted and the text of /proc/cgroups."""
    if not any(each.version == 1 and each.controllers & {"memory", *_HOLDS} for each in found):
        unified = next((each.folder for each in found if each.version == 2), None)
        if unified is None or "cpuset" in (unified / "cgroup.controllers").read_text().split():
            return ()  # devices are of no controller there
        delegate = (
            "add Delegate=cpu cpuset memory to the systemd unit around this shell, or run outside of it"
        )
        return (_unheld("cpuset", f"is not delegated to {unified}", delegate),)
    mounted = {name for each in found if not each.is_read_only for name in each.controllers}
    enabled = {fields[0] for line in kernel.splitlines() if (fields := line.split())[-1] == "1"}
    return tuple(_of_version_1(name, enabled) for name in _HOLDS if name not in mounted)


def may_close_devices(pid: int) -> bool:
    """Return whether what a machine runs, whose first process has this ``pid``, can close devices to groups; also where it ended meanwhile."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    permitted = next(line.split()[1] for line in status.splitlines() if line.startswith("CapPrm:"))
    return bool(int(permitted, 16) >> DROPPED["sys_admin"] & 1)


def _of_version_1(name: str, enabled: set[str]) -> Unheld:
    if name not in enabled:
        return _unheld(name, "is not in this kernel", f"boot one with {_OPTIONS[name]}")
    folder = f"/sys/fs/cgroup/{name}"
    mount = f"mkdir -p {folder} && mount -t cgroup -o {name} cgroup {folder}"
    return _unheld(name, "is not mounted, or read-only", f"{mount} (in a container: on its host)")


def _unheld(name: str, why: str, remedy: str) -> Unheld:
    what = f"jobs are not held to their {_HOLDS[name]}: the control group controller {name} {why}"
    return Unheld(name, what, remedy)


def _mounted() -> tuple[Hierarchy, ...]:
    return tuple(hierarchies(Path("/proc/self/mountinfo").read_text()))
