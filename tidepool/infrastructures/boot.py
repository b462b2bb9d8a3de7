"""What a machine does when it boots: services, files, folders, mounts. Frozen values, of no infrastructure.

Texts may be Pulumi outputs, and secret. Each infrastructure brings them to its machines in its own way: as a plan
for PID 1, as user data, in an Ignition file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pulumi import Input


@dataclass(frozen=True, slots=True)
class Service:
    """A program that runs in a machine, and is started again when it ends; ``on-failure``: unless it exited 0.

    Services start in their order, each when the one before is ``ready``: ``"started"``, ``"tcp:6818"`` (something
    listens), ``"unix:/run/x.socket"`` (it accepts), ``"path:/run/x.pid"`` (it exists). With ``once`` it is a command
    that must exit 0, and is ready when it did. With ``begins`` (``"path:/etc/slurm/slurm.conf"``) it is started only
    when that path exists; those after it wait meanwhile. It has ``stop_timeout_s`` to stop by itself.
    One with a ``role`` runs only while the machine has that role; those of a role are an order of their own, and are
    stopped backwards, with all that they started.
    """

    name: str
    argv: tuple[str, ...]
    user: str = "root"
    ready: str = "started"
    stop_timeout_s: float = 5.0
    once: bool = False
    begins: str = ""
    role: str = ""
    restart: Literal["always", "on-failure"] = "always"


@dataclass(frozen=True, slots=True)
class File:
    """A file that is there before the services start. ``mode`` is octal, owner and group are names of the image.

    ``content`` is text, or base64 of bytes where ``is_base64`` is set.
    """

    path: str
    content: Input[str]
    mode: str = "0644"
    owner: str = "root"
    group: str = "root"
    is_base64: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that is made, or given this owner and mode, before the files."""

    path: str
    mode: str = "0755"
    owner: str = "root"
    group: str = "root"


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume that the machine sees at ``target``: ``source`` is what the infrastructure gave for it.

    With a ``role``, services of other roles do not see it, nor what they run, as pods.
    """

    source: Input[str]
    target: str
    read_only: bool = False
    role: str = ""


@dataclass(frozen=True, slots=True)
class Boot:
    """All of it, in the order in which it is done: mounts, folders, files, services.

    ``devices`` are paths of device files that Slurm is told of, such as ``/dev/nvidia0``. An infrastructure whose
    machines have no such devices makes stand-ins, so that nodes start. ``containers`` is the role, if any, whose services
    run containers: an infrastructure that confines what runs in its machines lets those, and only those, do it.

    ``live_files`` are given to machines while they run, by who configures them. They are told here for infrastructures
    that start a service anew by themselves, where it has never been: the service that ``begins`` with one of them finds
    them there, and reads them again when it is sent SIGHUP.
    """

    services: tuple[Service, ...]
    files: tuple[File, ...] = ()
    folders: tuple[Folder, ...] = ()
    mounts: tuple[Mount, ...] = ()
    devices: tuple[str, ...] = ()
    containers: str = ""
    live_files: tuple[File, ...] = ()
