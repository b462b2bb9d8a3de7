"""The plan of a boot: which steps PID 1 of a machine takes, in which order, before its services run.

Pure: from a specification to bytes. ``init/`` carries the steps out. A step is its name and its arguments, each
a netstring (``5:mount,1:/,``):

    mount SOURCE TARGET TYPE FLAGS OPTIONS      as mount(2)
    take SOURCE ... put TARGET FLAGS            a mount from the host: taken up before ``root``, put down after
    cable SWITCH START PORT MAC ADDRESS PREFIX_LENGTH   to the switch with this pid and start; before ``root``
    root FOLDER                                 makes it the root, and takes the host's away
    link TARGET PATH
    device PATH MODE MAJOR MINOR                of characters
    folder PATH MODE OWNER GROUP
    file PATH MODE OWNER GROUP CONTENT
    hostname NAME
    cgroups                                     hides those that it is not in
    service NAME USER ONCE BEGINS_PATH READY_KIND READY_VALUE READY_MS STOP_MS ARGC ARG... ENVC NAME=VALUE...
    drop CAPABILITY                             by its number; for all that runs in the machine
    end
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tidepool.local.spec import DEFAULT_PATH, MachineSpec, Service, readiness

# Of mount(2).
_READ_ONLY: Final = 1
_NO_SUID: Final = 2
_NO_DEVICES: Final = 4
_NO_EXEC: Final = 8
_REMOUNT: Final = 32
_BIND: Final = 4096
_RECURSIVE: Final = 16384
_PRIVATE: Final = 1 << 18

#: What root in a machine must not do to the host, and so is dropped: what containers drop elsewhere too.
#: Numbers are those of linux/capability.h.
DROPPED: Final = {
    "dac_read_search": 2,  # opens files of the host's file system by handle
    "linux_immutable": 9,
    "ipc_lock": 14,
    "sys_module": 16,
    "sys_rawio": 17,
    "sys_ptrace": 19,  # would reach PID 1
    "sys_pacct": 20,
    "sys_admin": 21,  # mounts: the host's devices too
    "sys_boot": 22,
    "sys_time": 25,
    "sys_tty_config": 26,
    "mknod": 27,
    "lease": 28,
    "audit_control": 30,
    "mac_override": 32,
    "mac_admin": 33,
    "syslog": 34,
    "wake_alarm": 35,
    "block_suspend": 36,
    "audit_read": 37,
    "perfmon": 38,
    "bpf": 39,
    "checkpoint_restore": 40,
}

_DEVICES: Final = (("null", 3), ("zero", 5), ("full", 7), ("random", 8), ("urandom", 9))
#: Settings of the whole host, which root may write without any capability.
HOST_SETTINGS: Final = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
_TMPFS: Final = _NO_SUID | _NO_DEVICES

Step = tuple[str | int | bytes, ...]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a machine gets of the host: its layers' folders, that with its network's ``hosts``, a cable."""

    root: str
    upper: str
    work: str
    hosts: str
    #: To its network: the arguments of the step.
    cable: tuple[str | int, ...]
    #: Those of :data:`HOST_SETTINGS` that this kernel has.
    host_settings: tuple[str, ...] = HOST_SETTINGS
    #: The control groups that it sees below /sys/fs/cgroup: folder ("" is that one itself), type, options.
    cgroups: tuple[tuple[str, str, str], ...] = ()


def encode(steps: Iterator[Step]) -> bytes:
    """The steps, and the end that tells a whole plan from one whose writer died."""
    fields = [_netstring(field) for step in steps for field in step]
    return b"".join((*fields, _netstring("end")))


def machine_steps(spec: MachineSpec, host: Surroundings) -> Iterator[Step]:
    """All that makes a machine of new namespaces."""
    yield "cable", *host.cable
    yield from overlay_steps(spec.image, host.upper, host.work, host.root)
    yield "take", host.hosts
    for mount in spec.mounts:
        yield "take", mount.source
    yield "root", host.root
    yield from _kernel_file_systems(host.host_settings)
    yield from _cgroup_file_systems(host.cgroups)
    yield "put", "/run/network", _READ_ONLY | _NO_SUID | _NO_DEVICES | _NO_EXEC
    for mount in spec.mounts:
        yield "put", mount.target, _NO_SUID * mount.read_only | _NO_DEVICES | _READ_ONLY * mount.read_only
    for device in spec.devices:
        yield "device", device.path, device.mode, device.major, device.minor
    yield "hostname", spec.name
    yield "file", "/etc/hostname", "0644", "root", "root", spec.name + "\n"
    yield "link", "/run/network/hosts", "/etc/hosts"
    for folder in spec.folders:
        yield "folder", folder.path, folder.mode, folder.owner, folder.group
    for file in spec.files:
        yield "file", file.path, file.mode, file.owner, file.group, file.data
    for service in spec.services:
        yield _service_step(service)
    for name, number in DROPPED.items():
        if name not in spec.capabilities:
            yield "drop", number


def overlay_steps(lower: str, upper: str, work: str, root: str) -> Iterator[Step]:
    """A writable layer over an image, in mounts that the host does not see."""
    yield "mount", "none", "/", "none", _RECURSIVE | _PRIVATE, ""
    yield "mount", "overlay", root, "overlay", 0, f"lowerdir={lower},upperdir={upper},workdir={work}"


def switch_steps(root: str) -> Iterator[Step]:
    """A network's switch: a namespace tree over an empty root, where nothing runs."""
    yield "mount", "none", "/", "none", _RECURSIVE | _PRIVATE, ""
    yield "mount", "tmpfs", root, "tmpfs", _TMPFS | _NO_EXEC | _READ_ONLY, "size=4k"
    yield "root", root


def _kernel_file_systems(host_settings: tuple[str, ...]) -> Iterator[Step]:
    closed = _NO_SUID | _NO_DEVICES | _NO_EXEC
    yield "mount", "proc", "/proc", "proc", closed, ""
    for path in host_settings:
        yield "mount", path, path, "none", _BIND | _RECURSIVE, ""
        yield "mount", path, path, "none", _BIND | _REMOUNT | _READ_ONLY | closed, ""
    yield "mount", "sysfs", "/sys", "sysfs", _READ_ONLY | closed, ""
    yield "mount", "tmpfs", "/run", "tmpfs", _TMPFS, "mode=0755"
    yield "mount", "tmpfs", "/dev", "tmpfs", _NO_SUID | _NO_EXEC, "mode=0755,size=1m"
    for name, minor in _DEVICES:
        yield "device", f"/dev/{name}", "0666", 1, minor
    yield "device", "/dev/tty", "0666", 5, 0
    yield (
        "mount",
        "devpts",
        "/dev/pts",
        "devpts",
        _NO_SUID | _NO_EXEC,
        "newinstance,ptmxmode=0666,mode=0620,gid=5",
    )
    yield "mount", "tmpfs", "/dev/shm", "tmpfs", _TMPFS, "mode=1777"  # noqa: S108 (its name is fixed)
    yield "link", "pts/ptmx", "/dev/ptmx"
    yield "link", "/proc/self/fd", "/dev/fd"
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        yield "link", f"/proc/self/fd/{number}", f"/dev/{name}"


def _cgroup_file_systems(cgroups: tuple[tuple[str, str, str], ...]) -> Iterator[Step]:
    """For slurmd, which makes groups for its jobs, and does not start where there is no such file system."""
    closed = _NO_SUID | _NO_DEVICES | _NO_EXEC
    folder = "/sys/fs/cgroup"
    yield ("cgroups",)
    if any(name for name, _, _ in cgroups):
        yield "mount", "tmpfs", folder, "tmpfs", closed, "mode=0755,size=64k"
    for name, type, options in cgroups:
        yield "mount", type, f"{folder}/{name}".rstrip("/"), type, closed, options


def _service_step(service: Service) -> Step:
    ready = readiness(service.ready)
    assert ready is not None, "checked when the service was made"
    environment = {"PATH": DEFAULT_PATH, "LANG": "C.UTF-8", **dict(service.environment)}
    variables = [f"{name}={value}" for name, value in environment.items()]
    return (
        "service",
        service.name,
        service.user,
        int(service.once),
        service.begins.removeprefix("path:"),
        *ready,
        int(service.ready_timeout_s * 1000),
        int(service.stop_timeout_s * 1000),
        len(service.argv),
        *service.argv,
        len(variables),
        *variables,
    )


def _netstring(field: str | int | bytes) -> bytes:
    data = field if isinstance(field, bytes) else str(field).encode()
    return b"%d:%b," % (len(data), data)
