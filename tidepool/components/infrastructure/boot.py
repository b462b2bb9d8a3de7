"""What a machine does when it boots: services, files, folders, mounts. Frozen values, of no infrastructure.

Texts may be Pulumi outputs, and secret. Each infrastructure brings them to its machines in its own way: as a plan
for PID 1, as user data, in an Ignition file.
"""

from __future__ import annotations

from dataclasses import dataclass

from pulumi import Input


@dataclass(frozen=True, slots=True)
class Service:
    """A program that runs in a machine, and is started again when it ends.

    Services start in their order, each when the one before is ``ready``: ``"started"``, ``"tcp:6818"`` (something
    listens), ``"unix:/run/x.socket"`` (it accepts), ``"path:/run/x.pid"`` (it exists). With ``once`` it is a command
    that must exit 0, and is ready when it did. With ``begins`` (``"path:/etc/slurm/slurm.conf"``) it is started only
    when that path exists; those after it wait meanwhile. It has ``stop_timeout_s`` to stop by itself.
    """

    name: str
    argv: tuple[str, ...]
    user: str = "root"
    ready: str = "started"
    stop_timeout_s: float = 5.0
    once: bool = False
    begins: str = ""


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
    """A volume that the machine sees at ``target``: ``source`` is what the infrastructure gave for it."""

    source: Input[str]
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Boot:
    """All of it, in the order in which it is done: mounts, folders, files, services.

    ``devices`` are paths of device files that Slurm is told of, such as ``/dev/nvidia0``. An infrastructure whose
    machines have no such devices makes stand-ins, so that nodes start.
    """

    services: tuple[Service, ...]
    files: tuple[File, ...] = ()
    folders: tuple[Folder, ...] = ()
    mounts: tuple[Mount, ...] = ()
    devices: tuple[str, ...] = ()
