"""Layout of the data folder. Nothing outside of it, but the control groups, is ever written.

<data>/init-<digest>                    the compiled first process
<data>/<stack>/networks/<name>/         record.json, uplink.json, init.log, status, root/, hosts/hosts
<data>/<stack>/networks/<name>.lock
<data>/processors.lock
<data>/<stack>/machines/<name>/         record.json, processors, boot.log, status, root/, upper/, work/
<data>/<stack>/machines/<name>.lock
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tidepool.infrastructures.local.kernel.errors import BadSpec
from tidepool.infrastructures.local.kernel.spec import is_name


@dataclass(frozen=True, slots=True)
class Paths:
    """The folder, the lock and the control group of a machine or of a network."""

    folder: Path
    cgroup: str

    @property
    def lock(self) -> Path:
        """Held by whoever changes it."""
        return self.folder.with_name(self.folder.name + ".lock")

    @property
    def inner_cgroup(self) -> str:
        """Return the group that the machine sees as the root of control groups. It may change it, so its limits are not there."""
        return f"{self.cgroup}/inside"

    @property
    def exists(self) -> bool:
        return self.folder.is_dir() or self.lock.exists()

    @property
    def record(self) -> Path:
        return self.folder / "record.json"

    @property
    def log(self) -> Path:
        """Return the log of its first process and its services; kept over boots."""
        return self.folder / "boot.log"

    @property
    def status(self) -> Path:
        """The table of services that its first process keeps."""
        return self.folder / "status"

    @property
    def root(self) -> Path:
        """Return the folder in which the root file system is put together; seen from the host, it is empty."""
        return self.folder / "root"

    @property
    def upper(self) -> Path:
        return self.folder / "upper"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def containers(self) -> Path:
        """Return the folder for those who run containers in the machine: no overlay can stand on an overlay."""
        return self.folder / "containers"

    @property
    def processors(self) -> Path:
        """The numbers of the processors that a machine's jobs are bound to; there where they are."""
        return self.folder / "processors"

    @property
    def uplink(self) -> Path:
        """Return the record of a network's uplink; there where it has one."""
        return self.folder / "uplink.json"

    @property
    def hosts(self) -> Path:
        """Return a network's folder with the ``hosts`` file that all of its machines see."""
        return self.folder / "hosts"


def cgroup_of(data: Path, stack: str, kind: str) -> str:
    """The control group that those of a stack's ``machines`` or ``networks`` are in."""
    _checked(data, stack)
    # Two data folders may have stacks of one name, and the kernel's control groups are one for all.
    folder_digest = hashlib.sha256(str(data.resolve()).encode()).hexdigest()[:8]
    return f"tidepool/{folder_digest}-{stack}/{kind}"


def machine_paths(data: Path, stack: str, name: str) -> Paths:
    """Return the paths of a machine."""
    return _paths(data, stack, "machines", name)


def network_paths(data: Path, stack: str, name: str) -> Paths:
    """Return the paths of a network."""
    return _paths(data, stack, "networks", name)


def names_in(data: Path, stack: str, kind: str) -> tuple[str, ...]:
    """The names of a stack's ``machines`` or ``networks``, sorted."""
    folder = _checked(data, stack) / kind
    if not folder.is_dir():
        return ()
    # One whose deletion was cut short may have left no more than its lock.
    return tuple(sorted({each.name.removesuffix(".lock") for each in folder.iterdir()}))


def _paths(data: Path, stack: str, kind: str, name: str) -> Paths:
    folder = _checked(data, stack, name) / kind / name
    return Paths(folder, f"{cgroup_of(data, stack, kind)}/{name}")


def _checked(data: Path, stack: str, *names: str) -> Path:
    for name in (stack, *names):
        if not is_name(name):
            raise BadSpec(f"{name!r} is no name; allowed are lower-case letters, digits and '-' within")
    return data.resolve() / stack
