"""A machine as jobs of Nomad make it: what it has, and what runs in it. Frozen, and without a secret: only where one is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Daemon:
    """A program that runs in a machine; as `tidepool.infrastructures.boot.Service` has it.

    What it starts goes on with ``leaves_children`` when it is started anew: jobs, of slurmd.
    """

    name: str
    argv: tuple[str, ...]
    user: str = "root"
    ready: str = "started"
    stop_timeout_s: float = 5
    once: bool = False
    begins: str = ""
    restart: Literal["always", "on-failure"] = "always"
    leaves_children: bool = False

    @property
    def port(self) -> int | None:
        """The port that it listens on, where it says so."""
        kind, _, number = self.ready.partition(":")
        return int(number) if kind == "tcp" else None


@dataclass(frozen=True, slots=True)
class MachineFile:
    """A file of a machine: its text, or None where a variable of Nomad has it.

    ``is_base64`` is of the text that the variable has.
    """

    path: str
    text: str | None = None
    mode: str = "0644"
    owner: str = "root"
    group: str = "root"
    is_base64: bool = False

    @property
    def item(self) -> str:
        """Return the name of the file in a variable."""
        return re.sub(r"[^A-Za-z0-9]+", "_", self.path).strip("_")


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that is made, or given this owner and mode."""

    path: str
    mode: str = "0755"
    owner: str = "root"
    group: str = "root"


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder of the host that the machine sees at ``target``."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """Machines that are alike.

    ``live`` are files that are changed while it runs: who begins with one of them reads them again.
    """

    daemons: tuple[Daemon, ...]
    files: tuple[MachineFile, ...] = ()
    live: tuple[MachineFile, ...] = ()
    folders: tuple[Folder, ...] = ()
    mounts: tuple[Mount, ...] = ()
