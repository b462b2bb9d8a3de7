"""Control groups: the contract, behind which is what differs between version 1 and 2 of the kernel's interface; and their files.

A group's name is a path (``tidepool/1f2e3d4c-physics/cpu-17``), the same in all hierarchies.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from tidepool.infrastructures.local.kernel.errors import TimedOut

#: What a machine's limits need; with others it confines its jobs and containers. Version 2 has the freezer built in.
NEEDED: Final = ("cpu", "memory", "freezer")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a group's processes together. None is no limit."""

    cpus: float | None = None
    memory_mib: int | None = None


class Cgroups(ABC):
    """Operations on groups. Each may be repeated; a group that is gone has no members and can be removed."""

    __slots__ = ()
    #: The file of a group that freezes it, and its text where nothing is frozen.
    freezer: ClassVar[tuple[str, str]]

    @abstractmethod
    def folder_of(self, group: str) -> Path:
        """Return the group's folder in the hierarchy that can freeze it, where all of its processes are."""

    @abstractmethod
    def create(self, group: str, limits: Limits) -> None:
        """Make the group where it is not there, and set its limits.

        Raises:
            LocalError: the kernel refused; says which file, and the remedy.
        """

    @abstractmethod
    def entrances(self, group: str) -> tuple[str, ...]:
        """The files into which a process writes ``0`` to join the group."""

    @abstractmethod
    def add(self, group: str, pid: int) -> None:
        """Move a process into the group; its children are born there."""

    @abstractmethod
    def mounts(self) -> tuple[tuple[str, str, str], ...]:
        """Return the mounts below /sys/fs/cgroup by which a machine sees its own groups: folder, type, options."""

    @property
    @abstractmethod
    def home(self) -> str:
        """Return the group, below its own, of a machine's processes, so that it can hand controllers down; "" where they need none."""

    def below(self, group: str) -> tuple[str, ...]:
        """The last parts of the names of the groups that are directly in it."""
        try:
            return tuple(each.name for each in os.scandir(self.folder_of(group)) if each.is_dir())
        except FileNotFoundError:
            return ()

    def members(self, group: str) -> frozenset[int]:
        """The processes in it and in groups below it (slurmd makes some), as the caller sees them."""
        found: set[int] = set()
        for inner, _, files in os.walk(self.folder_of(group)):
            if "cgroup.procs" in files:
                # It may be removed while it is read.
                with suppress(FileNotFoundError):
                    found.update(map(int, read_file(Path(inner) / "cgroup.procs").split()))
        return frozenset(found)

    def thaw(self, group: str) -> None:
        """Let processes go on that somebody froze."""
        name, thawed = self.freezer
        with suppress(FileNotFoundError):
            write_file(self.folder_of(group) / name, thawed)

    def is_frozen(self, group: str) -> bool:
        """Return whether it is frozen, or about to be."""
        name, thawed = self.freezer
        try:
            return read_file(self.folder_of(group) / name).strip() != thawed
        except FileNotFoundError:
            return False

    @abstractmethod
    def memory_kills(self, group: str) -> int:
        """Return how many of its processes were killed because the group had no memory left.

        Version 1 forgets those of groups within that are gone: slurmd's for jobs, where it makes any.
        """

    @abstractmethod
    def bind(self, group: str, processors: Collection[int]) -> None:
        """Let processes of the group, and of those below it, run on these processors of the host alone.

        Raises:
            LocalError: the kernel does not bind groups to processors.
        """

    @abstractmethod
    def cpu_s(self, group: str) -> float:
        """Return the processor time that processes of the group, and of those below it, have used, in seconds.

        Raises:
            FileNotFoundError: the group is gone.
            LocalError: the kernel does not count it.
        """

    @abstractmethod
    def remove(self, group: str) -> None:
        """Remove the group, which must be empty, and the groups above it that become empty."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted hierarchy: version 1 has several, each with its controllers, version 2 has one."""

    folder: Path
    version: int
    controllers: frozenset[str]
    is_read_only: bool


def hierarchies(mountinfo: str) -> Iterator[Hierarchy]:
    """The hierarchies in ``/proc/self/mountinfo`` (proc(5)); of version 2 the controllers are not told there."""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        type, _, options = after.split(" ", 2)
        fields = before.split()
        if type == "cgroup":
            version, controllers = 1, frozenset(options.split(","))
        elif type == "cgroup2":
            version, controllers = 2, frozenset[str]()
        else:
            continue
        yield Hierarchy(Path(fields[4]), version, controllers, "ro" in fields[5].split(","))


_EMPTYING_S: Final = 5.0


def write_file(file: Path, text: str) -> None:
    """Write to a file of the kernel's: at once, and never making one."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from None  # what the kernel refused, and where
    finally:
        os.close(descriptor)


def read_file(file: Path) -> str:
    """Read a file of the kernel's.

    Raises:
        FileNotFoundError: its group is gone, or goes while it is read.
    """
    try:
        return file.read_text()
    except OSError as error:
        if error.errno == errno.ENODEV:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file)) from None
        raise


def processor_list(text: str) -> frozenset[int]:
    """Return the processors of a list as the kernel writes it: ``0-2,5``."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def processor_text(processors: Iterable[int]) -> str:
    """Write them for the kernel."""
    return ",".join(map(str, sorted(processors)))


def make_group(folder: Path) -> None:
    """Make a group's folder, and those above it, which another's :func:`remove_group` may be taking away."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileNotFoundError:
            continue
        return


def remove_group(hierarchy: Path, group: str) -> None:
    """Remove the group with those below it, then those above it that are empty.

    Raises:
        TimedOut: processes were still in it after some seconds.
    """
    for inner, _, _ in os.walk(hierarchy / group, topdown=False):
        _remove_when_empty(Path(inner))
    for above in list(Path(group).parents)[:-1]:
        try:
            (hierarchy / above).rmdir()
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
                raise
            return  # others are in it


def _remove_when_empty(folder: Path) -> None:
    """A process that ended counts for a moment longer, and the kernel has no event for it that all versions know."""
    deadline, pause = time.monotonic() + _EMPTYING_S, threading.Event()
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
                raise
            if time.monotonic() > deadline:
                raise TimedOut(
                    f"the control group {folder} did not become empty in {_EMPTYING_S:g} s"
                ) from None
            pause.wait(0.002)
        else:
            return
