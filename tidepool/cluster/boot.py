"""The boot of a machine: its mounts, folders, files and services. Frozen values, of no infrastructure. Pure.

A text may be something else than a `str` while nobody knows it: in programs, a Pulumi input (``T``). Each infrastructure
brings a boot to its machines in its own way: as a plan for PID 1, as user data, by Ansible.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeVar

T = TypeVar("T")  # of classes without slots: with them, ``File[str](...)`` fails in Python 3.11

#: Variables of a process, by their names; a map in a stack's state.
Variables = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Service:
    """A program that runs in a machine. Services start in their order, each when the one before is ready.

    ``ready`` says what makes it so: ``"started"``, ``"tcp:6818"`` (something listens), ``"unix:/run/x.socket"``
    (it accepts), ``"path:/run/x.pid"`` (it exists). A service that is not ready after ``ready_timeout_s``
    (0: never) is killed. A dead one is started again: at once, then after 0.1 s, 0.2 s, to 10 s; at once again
    after it had lived for 10 s. With ``restart="on-failure"`` one that exits 0 stays ended until it is asked for: by a file of
    its name in /run/tidepool/start, and SIGHUP to the first process (or by the file alone, where it is to end first). With
    ``once`` it is a command that must exit 0, and is ready when it did.
    On stopping it gets SIGTERM, and SIGKILL ``stop_timeout_s`` later. Output goes to the boot log.
    With ``begins`` (``"path:/etc/slurm/slurm.conf"``) it is started, the first time and after each death, only
    when that path exists in the machine; those after it wait as they do for its readiness.
    One with a ``role`` runs only while the machine has that role: while ``/var/lib/tidepool/roles/<role>`` exists there.
    The services of a role are an order of their own; they are stopped backwards, with all that they started.
    ``capabilities`` are those that it has besides what all of the machine have (``sys_ptrace``), where an infrastructure
    takes some away. One that ``binds`` what it runs to processors goes by hwloc: an infrastructure whose machines have the
    same ones gives it others in each.
    """

    name: str
    argv: tuple[str, ...]
    user: str = "root"
    environment: Variables = ()
    ready: str = "started"
    ready_timeout_s: float = 30.0
    stop_timeout_s: float = 5.0
    once: bool = False
    begins: str = ""
    role: str = ""
    restart: Literal["always", "on-failure"] = "always"
    capabilities: tuple[str, ...] = ()
    binds: bool = False


@dataclass(frozen=True)
class File(Generic[T]):
    """A file that is put into the machine at each boot, before its services start.

    ``mode`` is octal. ``owner`` and ``group`` are names or numbers of the image. ``content`` is text, or base64
    of bytes where ``is_base64`` is set; it is not printed.
    """

    path: str
    content: T = field(repr=False)
    mode: str = "0644"
    owner: str = "root"
    group: str = "root"
    is_base64: bool = False

    @property
    def data(self: File[str]) -> bytes:
        return base64.b64decode(self.content) if self.is_base64 else self.content.encode()


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that is made, or given this owner and mode, at each boot before files and services.

    One with a ``role`` is there when the machine has that role: its owner may be nobody in images that have another.
    """

    path: str
    mode: str = "0755"
    owner: str = "root"
    group: str = "root"
    role: str = ""


@dataclass(frozen=True)
class Mount(Generic[T]):
    """A volume, folder or file that the machine sees at ``target``: ``source`` is what the infrastructure gave for it.

    With a ``role`` the services of other roles do not see it, nor what they run, as pods.
    """

    source: T
    target: str
    read_only: bool = True
    role: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """A device file that Slurm is told of, such as ``/dev/nvidia0``: a node without it does not start.

    An infrastructure whose machines have no such device makes a stand-in, with these numbers: as they are, in the kernel's range
    for local use, where no driver answers. Each of a machine has its own, as by these Slurm closes devices to jobs.
    """

    path: str
    major: int = 60
    minor: int = 0
    mode: str = "0666"


@dataclass(frozen=True)
class Boot(Generic[T]):
    """All of it, in the order in which it is done: mounts, folders, files, services.

    ``capabilities`` are ones (``sys_admin``) that a machine of this machine's has beyond those of an ordinary container.
    ``containers`` is the role, if any, whose services run containers: an infrastructure that confines what runs in its
    machines lets those, and only those, do it.

    ``live_files`` are given to machines while they run, by who configures them. They are named here for infrastructures
    that start a service anew by themselves, where it has never been: the service that ``begins`` with one of them finds
    them there, and reads them again when it is sent SIGHUP.
    """

    services: tuple[Service, ...] = ()
    files: tuple[File[T], ...] = ()
    folders: tuple[Folder, ...] = ()
    mounts: tuple[Mount[T], ...] = ()
    devices: tuple[Device, ...] = ()
    containers: str = ""
    live_files: tuple[File[T], ...] = ()
    capabilities: tuple[str, ...] = ()


_HEAD: Final = "#cloud-config\n"


def cloud_config(said: Mapping[str, Any], indent: int | None = None) -> str:
    """``said`` such that both read the same.

    What JSON escapes as two halves of a letter, YAML reads as two letters that there are not: such letters stay as they are. All
    others beyond ASCII are escaped, for some of them are ends of lines to YAML.
    """
    text = json.dumps(said, indent=indent, ensure_ascii=False)
    return _HEAD + re.sub("[\x7f-\uffff]", lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"
