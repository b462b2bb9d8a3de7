"""Control groups: the contract. What differs between version 1 and 2 of the kernel's interface is behind it.

A group's name is a path (``tidepool/1f2e3d4c-physics/cpu-17``), the same in all hierarchies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

#: What a machine's limits need. Version 2 has the freezer built in.
NEEDED: Final = ("cpu", "memory", "freezer")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a group's processes together. None is no limit."""

    cpus: float | None = None
    memory_mib: int | None = None


class Cgroups(Protocol):
    """Operations on groups. Each may be repeated; a group that is gone has no members and can be removed."""

    def for_containers(self) -> Cgroups:
        """The same, with all controllers that there are: for machines that run containers."""

    def create(self, group: str, limits: Limits) -> None:
        """Make the group where it is not there, and set its limits.

        Raises:
            LocalError: the kernel refused; says which file, and the remedy.
        """

    def entrances(self, group: str) -> tuple[str, ...]:
        """The files into which a process writes ``0`` to join the group."""

    def add(self, group: str, pid: int) -> None:
        """Move a process into the group; its children are born there."""

    def mounts(self) -> tuple[tuple[str, str, str], ...]:
        """Return the mounts below /sys/fs/cgroup by which a machine sees its own groups: folder, type, options."""

    @property
    def home(self) -> str:
        """Return the group, below its own, of a machine's processes, so that it can hand controllers down; "" where they need none."""

    def below(self, group: str) -> tuple[str, ...]:
        """The last parts of the names of the groups that are directly in it."""

    def members(self, group: str) -> frozenset[int]:
        """The processes in it, as the caller sees them."""

    def freeze(self, group: str) -> None:
        """Stop all of its processes where they are; returns when they stand still."""

    def thaw(self, group: str) -> None:
        """Let them go on."""

    def is_frozen(self, group: str) -> bool:
        """Return whether it is frozen, or about to be."""

    def memory_kills(self, group: str) -> int:
        """Return how many of its processes were killed because the group had no memory left.

        Version 1 forgets those of groups within that are gone: slurmd's for jobs, where it makes any.
        """

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
