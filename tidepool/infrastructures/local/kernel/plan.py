"""The plan of a boot: which steps PID 1 of a machine takes, in which order, before its services run.

Pure: from a specification to bytes. ``init/`` carries the steps out. A step is its name and its arguments, each
a netstring (``5:mount,1:/,``):

    mount SOURCE TARGET TYPE FLAGS OPTIONS      as mount(2)
    take SOURCE ... put TARGET FLAGS            a mount from the host: taken up before ``root``, put down after
    cable SWITCH START PORT MAC ADDRESS PREFIX_LENGTH GATEWAY   to the switch with this pid and start; before ``root``
    hide TARGET                                 takes a mount away from a role that it is not of
    root FOLDER                                 makes it the root, and takes the host's away
    link TARGET PATH
    device PATH MODE MAJOR MINOR                of characters
    folder PATH MODE OWNER GROUP
    file PATH MODE OWNER GROUP CONTENT
    hostname NAME
    cgroups                                     hides those that it is not in
    group PATH                                  goes into one of those that it sees; made where it is not there
    hand-down PATH                              that group's controllers to those below it (version 2)
    role NAME MARKER DROPPED LEAF GROUPC GROUP... PLAN
    service NAME ROLE USER CAPABILITIES ONCE ON_FAILURE BEGINS_PATH READY_KIND READY_VALUE READY_MS STOP_MS ARGC ARG... ENVC NAME=VALUE...
    drop CAPABILITY                             by its number; for all that runs in the machine
    confine CAPABILITY                          for services without a role, and commands that enter
    end

A role's services run in namespaces of their own (pid, mount, control group) within the machine's: what they start and
mount ends with them, by the kernel. PLAN are the steps that make those, each time anew; GROUP are its control groups, and
LEAF where its processes are below them; DROPPED is the set of capabilities, as a mask, that none of its processes has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tidepool.cluster.boot import Service
from tidepool.cluster.roles import marker
from tidepool.infrastructures.local.kernel.spec import DEFAULT_PATH, DROPPED, MachineSpec, readiness

# Of mount(2).
_READ_ONLY: Final = 1
_NO_SUID: Final = 2
_NO_DEVICES: Final = 4
_NO_EXEC: Final = 8
_REMOUNT: Final = 32
_BIND: Final = 4096
_RECURSIVE: Final = 16384
_PRIVATE: Final = 1 << 18
_SHARED: Final = 1 << 20

#: What whoever runs containers does not go without: it mounts, makes devices, and looks into processes of other users.
CONTAINERS_NEED: Final = frozenset({"sys_admin", "mknod", "sys_ptrace"})
#: What a machine's first process does not go without where it gives roles namespaces of their own, and enters those.
_ROLES_NEED: Final = frozenset({"sys_admin", "sys_ptrace"})
#: Where who runs containers keeps them: on a file system that an overlay can stand on.
CONTAINERS: Final = "/var/lib/containerd"
#: Settings of the whole host that a kubelet writes where they are otherwise: it finds them as it wants them.
KUBELET_WANTS: Final = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}

_DEVICES: Final = (("null", 3), ("zero", 5), ("full", 7), ("random", 8), ("urandom", 9))
#: Settings of the whole host, which root may write without any capability.
HOST_SETTINGS: Final = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
_TMPFS: Final = _NO_SUID | _NO_DEVICES
_TOPOLOGY: Final = "/run/tidepool/topology.xml"

Step = tuple[str | int | bytes, ...]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Parts of the host that a machine gets: its layers' folders, that with its network's ``hosts``, a cable."""

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
    #: Where below its group its own processes go, so that it can hand controllers down; "" where they need not.
    home_group: str = ""
    #: The folder for its containers; "" where it runs none.
    containers: str = ""
    #: What services that bind to processors find of them; "" where none does.
    topology: str = ""
    #: The numbers of the processors that its jobs are bound to; empty where none of its services binds.
    processors: tuple[int, ...] = ()


def encode(steps: Iterator[Step]) -> bytes:
    """The steps, and the end that tells a whole plan from one whose writer died."""
    fields = [_netstring(field) for step in steps for field in step]
    return b"".join((*fields, _netstring("end")))


def machine_steps(spec: MachineSpec, host: Surroundings) -> Iterator[Step]:
    """All that makes a machine of new namespaces."""
    yield "cable", *host.cable
    yield from overlay_steps(spec.image, host.upper, host.work, host.root)
    yield "take", host.hosts
    if spec.containers:
        yield "take", host.containers
    for mount in spec.mounts:
        yield "take", mount.source
    yield "root", host.root
    yield from _kernel_file_systems(host.host_settings)
    yield ("cgroups",)
    yield from _cgroup_file_systems(host.cgroups)
    if host.home_group:
        yield "group", f"{_cgroup_folder('')}/{host.home_group}"
        yield "hand-down", _cgroup_folder("")
    yield "put", "/run/network", _READ_ONLY | _NO_SUID | _NO_DEVICES | _NO_EXEC
    if spec.containers:
        yield "put", CONTAINERS, _NO_SUID
        # The host's log is not a machine's to read: as empty as /dev/null.
        yield "device", "/dev/kmsg", "0600", 1, 3
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
    if host.topology:
        yield "file", _TOPOLOGY, "0444", "root", "root", host.topology
    yield from _role_steps(spec, host)
    for service in spec.services:
        yield _service_step(service)
    kept = {*spec.capabilities, *_first_process_needs(spec)}
    kept.update(name for service in spec.services for name in service.capabilities)
    for name, number in DROPPED.items():
        if name not in kept:
            yield "drop", number
        elif name not in spec.capabilities:
            yield "confine", number


def _first_process_needs(spec: MachineSpec) -> frozenset[str]:
    if not spec.roles:
        return frozenset()
    return _ROLES_NEED | CONTAINERS_NEED if spec.containers else _ROLES_NEED


def _role_steps(spec: MachineSpec, host: Surroundings) -> Iterator[Step]:
    for role in spec.roles:
        runs_containers = role == spec.containers
        kept = {*spec.capabilities, *(CONTAINERS_NEED if runs_containers else ())}
        dropped = sum(1 << number for name, number in DROPPED.items() if name not in kept)
        groups = [f"{_cgroup_folder(name)}/{role}" for name, _, _ in host.cgroups]
        leaf = "services" if any(type == "cgroup2" for _, type, _ in host.cgroups) else ""
        steps = encode(_namespace_steps(spec, host, role))
        yield "role", role, marker(role), dropped, leaf, len(groups), *groups, steps


def _namespace_steps(spec: MachineSpec, host: Surroundings, role: str) -> Iterator[Step]:
    """Yield the steps by which services of a role see only themselves, and no mount of another role."""
    runs_containers = role == spec.containers
    closed = _NO_SUID | _NO_DEVICES | _NO_EXEC
    yield "mount", "none", "/", "none", _RECURSIVE | (_SHARED if runs_containers else _PRIVATE), ""
    for mount in spec.mounts:
        if mount.role not in ("", role):
            yield "hide", mount.target
    yield from _processes(host.host_settings)
    if not any(name for name, _, _ in host.cgroups):  # version 2 is not mounted over itself
        yield "mount", "tmpfs", _cgroup_folder(""), "tmpfs", closed, "mode=0755,size=64k"
    yield from _cgroup_file_systems(host.cgroups)
    if not runs_containers:
        return
    yield "mount", "/proc/sys/net", "/proc/sys/net", "none", _BIND, ""  # of the machine's own network
    yield "mount", "/proc/sys/net", "/proc/sys/net", "none", _BIND | _REMOUNT | closed, ""
    for name, value in KUBELET_WANTS.items():
        yield from _covered(f"/proc/sys/{name}", value + "\n")
    # It offers what it finds: the machine's limits, not the host's memory and processors.
    yield from _covered("/proc/meminfo", _meminfo(spec.memory_mib))
    for folder in ("/sys/devices/system/node", "/sys/devices/system/cpu"):
        yield "mount", "tmpfs", folder, "tmpfs", closed, "mode=0755"
    # As many as it may use, by the host's numbers: the kubelet confines pods to them.
    count = max(1, int(spec.cpus))
    numbers = host.processors[:count] if len(host.processors) >= count else tuple(range(count))
    online = ",".join(map(str, sorted(numbers)))
    yield "file", "/sys/devices/system/cpu/online", "0444", "root", "root", f"{online}\n"
    for number in sorted(numbers):
        topology = f"/sys/devices/system/cpu/cpu{number}/topology"
        yield "file", f"{topology}/core_id", "0444", "root", "root", f"{number}\n"
        yield "file", f"{topology}/physical_package_id", "0444", "root", "root", "0\n"


def _covered(path: str, text: str) -> Iterator[Step]:
    """Another text where one of the kernel's is."""
    beside = f"/run/tidepool/kernel{path}"
    yield "file", beside, "0444", "root", "root", text
    yield "mount", beside, path, "none", _BIND, ""


def _meminfo(memory_mib: int) -> str:
    kib = memory_mib << 10
    return f"MemTotal: {kib} kB\nMemFree: {kib} kB\nMemAvailable: {kib} kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"


def overlay_steps(lower: str, upper: str, work: str, root: str) -> Iterator[Step]:
    """A writable layer over an image, in mounts that the host does not see."""
    yield "mount", "none", "/", "none", _RECURSIVE | _PRIVATE, ""
    yield "mount", "overlay", root, "overlay", 0, f"lowerdir={lower},upperdir={upper},workdir={work}"


def switch_steps(root: str) -> Iterator[Step]:
    """A network's switch: a namespace tree over an empty root, where nothing runs."""
    yield "mount", "none", "/", "none", _RECURSIVE | _PRIVATE, ""
    yield "mount", "tmpfs", root, "tmpfs", _TMPFS | _NO_EXEC | _READ_ONLY, "size=4k"
    yield "root", root


def _processes(host_settings: tuple[str, ...]) -> Iterator[Step]:
    closed = _NO_SUID | _NO_DEVICES | _NO_EXEC
    yield "mount", "proc", "/proc", "proc", closed, ""
    for path in host_settings:
        yield "mount", path, path, "none", _BIND | _RECURSIVE, ""
        yield "mount", path, path, "none", _BIND | _REMOUNT | _READ_ONLY | closed, ""


def _kernel_file_systems(host_settings: tuple[str, ...]) -> Iterator[Step]:
    closed = _NO_SUID | _NO_DEVICES | _NO_EXEC
    yield from _processes(host_settings)
    yield "mount", "sysfs", "/sys", "sysfs", _READ_ONLY | closed, ""
    yield "mount", "tmpfs", "/run", "tmpfs", _TMPFS, "mode=0755"
    yield "mount", "tmpfs", "/dev", "tmpfs", _NO_SUID | _NO_EXEC, "mode=0755,size=1m"
    for name, minor in _DEVICES:
        yield "device", f"/dev/{name}", "0666", 1, minor
    yield "device", "/dev/tty", "0666", 5, 0
    terminals = "newinstance,ptmxmode=0666,mode=0620,gid=5"
    yield "mount", "devpts", "/dev/pts", "devpts", _NO_SUID | _NO_EXEC, terminals
    yield "mount", "tmpfs", "/dev/shm", "tmpfs", _TMPFS, "mode=1777"  # noqa: S108 (its name is fixed)
    yield "link", "pts/ptmx", "/dev/ptmx"
    yield "link", "/proc/self/fd", "/dev/fd"
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        yield "link", f"/proc/self/fd/{number}", f"/dev/{name}"


def _cgroup_file_systems(cgroups: tuple[tuple[str, str, str], ...]) -> Iterator[Step]:
    """For slurmd, which makes groups for its jobs, and does not start where there is no such file system."""
    closed = _NO_SUID | _NO_DEVICES | _NO_EXEC
    if any(name for name, _, _ in cgroups):
        yield "mount", "tmpfs", _cgroup_folder(""), "tmpfs", closed, "mode=0755,size=64k"
    for name, type, options in cgroups:
        yield "mount", type, _cgroup_folder(name), type, closed, options


def _cgroup_folder(name: str) -> str:
    return f"/sys/fs/cgroup/{name}".rstrip("/")


def _service_step(service: Service) -> Step:
    ready = readiness(service.ready)
    assert ready is not None, "checked when the service was made"
    environment = {"PATH": DEFAULT_PATH, "LANG": "C.UTF-8", **dict(service.environment)}
    if service.binds:
        environment["HWLOC_XMLFILE"] = _TOPOLOGY
    variables = [f"{name}={value}" for name, value in environment.items()]
    return (
        "service",
        service.name,
        service.role,
        service.user,
        sum(1 << DROPPED[name] for name in service.capabilities),
        int(service.once),
        int(service.restart == "on-failure"),
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
