"""Specifications of networks and machines, as frozen values that JSON can hold.

A value is checked when it is made; all its mistakes are told at once (:class:`~tidepool.infrastructures.local.kernel.errors.BadSpec`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from tidepool.cluster.boot import Device, File, Folder, Mount, Service
from tidepool.infrastructures.local.kernel.errors import BadSpec

#: A host name (RFC 1123), in lower case; also a folder's and a control group's.
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_MAC: Final = re.compile(r"[0-9a-f][02468ace](:[0-9a-f]{2}){5}")
_MODE: Final = re.compile(r"0?[0-7]{3,4}")

#: Fields of a :class:`MachineSpec` that a machine never changes, and those that change while it runs.
IDENTITY: Final = ("stack", "name", "network", "address", "mac", "image")
_LIVE: Final = (*IDENTITY, "cpus", "memory_mib", "aliases")

#: When a service that ended is started again.
RESTARTS: Final = ("always", "on-failure")

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

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    """A network of a stack: a switch that its machines, and nothing else, are plugged into.

    ``cidr`` is the range of its addresses (``10.77.0.0/16``). The switch itself has the last one, so that
    commands of the host which are run in the network's namespace reach the machines.
    """

    stack: str
    name: str
    cidr: str

    def __post_init__(self) -> None:
        _refuse(f"network {self.name!r}", _network_mistakes(self))

    @property
    def prefix_length(self) -> int:
        return ipaddress.IPv4Network(self.cidr).prefixlen

    @property
    def switch_address(self) -> str:
        """The switch's own address: the last of the range (10.77.255.254)."""
        return str(ipaddress.IPv4Network(self.cidr)[-2])

    @property
    def fingerprint(self) -> str:
        return _digest(asdict(self))


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """A machine: processes of their own in namespaces, over an image's root, with limits.

    ``image`` is the folder of a root file system; it is never written to. ``network`` is the name of a network
    of the same stack, ``address`` (without prefix length) and ``mac`` are the machine's there. ``cpus`` is how
    many processors' time it may use at most, ``memory_mib`` how much memory: where it needs more, processes in
    it, and nowhere else, are killed. ``aliases`` are more names that the network's other machines know it by.
    These may change while it runs; what follows ``memory_mib``, else, is of a boot; and what is before ``cpus``
    makes it this machine.
    ``capabilities`` are ones (``sys_admin``) that it has beyond those of an ordinary container.
    ``containers`` is the role, if any, whose services run containers: they alone may mount, and make groups and devices.
    """

    stack: str
    name: str
    network: str
    address: str
    mac: str
    image: str
    cpus: float
    memory_mib: int
    services: tuple[Service, ...] = ()
    files: tuple[File[str], ...] = ()
    folders: tuple[Folder, ...] = ()
    mounts: tuple[Mount[str], ...] = ()
    aliases: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ()
    containers: str = ""

    def __post_init__(self) -> None:
        _refuse(f"machine {self.name!r}", _machine_mistakes(self))

    @property
    def fingerprint(self) -> str:
        """Tells this specification from every other; contents of files go in as digests."""
        return _digest(self.public())

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(service.role for service in self.services if service.role))

    @property
    def identity(self) -> dict[str, str]:
        """Return the parts that make it this machine: with another one of these it would be another."""
        return {name: getattr(self, name) for name in IDENTITY}

    def public(self) -> dict[str, Any]:
        """The specification as JSON, with digests in the place of files' contents."""
        public: dict[str, Any] = asdict(self)
        for file, told_file in zip(self.files, public["files"], strict=True):
            told_file["content"] = "sha256:" + hashlib.sha256(file.data).hexdigest()
            del told_file["is_base64"]
        return public


def boot_fingerprint(public: Mapping[str, Any]) -> str:
    """Tells what a machine takes at its boot from every other: services, files and so on.

    ``public`` is as :meth:`MachineSpec.public` gives it, or as JSON gave it back.
    """
    return _digest({name: value for name, value in public.items() if name not in _LIVE})


def is_name(text: str) -> bool:
    """Return whether it may be the name of a stack, a network, a machine."""
    return _NAME.fullmatch(text) is not None


#: The field that it is in, and what it is.
_Mistake = tuple[str, str]
Readiness = Literal["started", "tcp", "unix", "path"]


def readiness(ready: str) -> tuple[Readiness, str] | None:
    """A service's ``ready`` in its two parts; None where it cannot be understood."""
    kind, _, value = ready.partition(":")
    match kind:
        case "started" if not value:
            return "started", ""
        case "tcp" if value.isdecimal() and 0 < int(value) < 65536:
            return "tcp", value
        case "unix" if value.startswith("/"):
            return "unix", value
        case "path" if value.startswith("/"):
            return "path", value
    return None


def _refuse(what: str, mistakes: Iterable[_Mistake]) -> None:
    if found := tuple(mistakes):
        raise BadSpec("\n".join(f"{what}: {said}" for _, said in found), found)


def _names(**names: str) -> Iterator[_Mistake]:
    for key, name in names.items():
        if not is_name(name):
            allowed = "allowed are lower-case letters, digits and '-' within, at most 63 of them"
            yield key, f"{key} is {name!r}; {allowed}"


def _network_mistakes(spec: NetworkSpec) -> Iterator[_Mistake]:
    yield from _names(stack=spec.stack, name=spec.name)
    try:
        network = ipaddress.IPv4Network(spec.cidr)
    except ValueError as error:
        yield "cidr", f"cidr is {spec.cidr!r} ({error}); wanted is an IPv4 range such as '10.77.0.0/16'"
    else:
        if network.prefixlen > 29:
            yield "cidr", f"cidr {spec.cidr} has no room for machines; a /29 is the smallest"


def _machine_mistakes(spec: MachineSpec) -> Iterator[_Mistake]:
    yield from _names(stack=spec.stack, name=spec.name, network=spec.network)
    for alias in spec.aliases:
        yield from _names(alias=alias)
    try:
        ipaddress.IPv4Address(spec.address)
    except ValueError:
        yield "address", f"address is {spec.address!r}; wanted is an IPv4 address such as '10.77.0.17'"
    if not _MAC.fullmatch(spec.mac):
        yield "mac", f"mac is {spec.mac!r}; wanted is a unicast one in lower case such as '02:00:0a:4d:00:11'"
    if not spec.image.startswith("/") or set(spec.image) & set(",:\\"):
        yield "image", f"image is {spec.image!r}; wanted is an absolute path without ',', ':' and '\\'"
    if not spec.cpus >= 0.01:
        yield "cpus", f"cpus is {spec.cpus}; wanted is at least 0.01"
    if spec.memory_mib < 4:
        yield "memory_mib", f"memory_mib is {spec.memory_mib}; wanted is at least 4"
    if spec.containers and spec.containers not in (roles := spec.roles):
        allowed = f"allowed are {', '.join(map(repr, roles)) or 'none here'}, or nothing"
        yield "containers", f"containers is {spec.containers!r}, which is the role of no service; {allowed}"
    yield from (("", said) for said in _boot_mistakes(spec))


def _boot_mistakes(spec: MachineSpec) -> Iterator[str]:
    seen: set[str] = set()
    for service in spec.services:
        yield from _service_mistakes(service)
        if service.name in seen:
            yield f"two services are named {service.name!r}"
        seen.add(service.name)
    made: tuple[File[str] | Folder | Device, ...] = (*spec.files, *spec.folders, *spec.devices)
    for thing in made:
        if not thing.path.startswith("/"):
            yield f"the path {thing.path!r} is not absolute"
        if not _MODE.fullmatch(thing.mode):
            yield f"the mode of {thing.path} is {thing.mode!r}; wanted is an octal one such as '0600'"
    yield from _capability_mistakes("the machine", spec.capabilities)
    for device in spec.devices:
        if not device.path.startswith("/dev/"):
            yield f"the device {device.path!r} is not below /dev"
    for file in spec.files:
        if file.is_base64 and not _is_base64(file.content):
            yield f"the content of {file.path} is not base64"
    for mount in spec.mounts:
        if not (mount.source.startswith("/") and mount.target.startswith("/")):
            yield f"the mount of {mount.source!r} at {mount.target!r} needs absolute paths"
        if mount.role and mount.role not in spec.roles:
            allowed = ", ".join(map(repr, spec.roles)) or "none here"
            yield (
                f"the mount at {mount.target!r} is of the role {mount.role!r}, which no service has; allowed are {allowed}"
            )


def _service_mistakes(service: Service) -> Iterator[str]:
    if not re.fullmatch(r"[A-Za-z0-9_.@-]{1,64}", service.name):
        yield f"a service is named {service.name!r}; allowed are letters, digits, '_', '.', '@' and '-'"
    if not service.argv or not service.argv[0].startswith("/"):
        yield f"service {service.name}: argv is {list(service.argv)!r}; it begins with an absolute path"
    if any(
        "\0" in text for text in (*service.argv, *(part for pair in service.environment for part in pair))
    ):
        yield f"service {service.name}: an argument or variable holds a NUL"
    if readiness(service.ready) is None:
        yield (
            f"service {service.name}: ready is {service.ready!r}; "
            "allowed are 'started', 'tcp:PORT', 'unix:/PATH' and 'path:/PATH'"
        )
    if service.role and not is_name(service.role):
        yield (
            f"service {service.name}: role is {service.role!r}; allowed are lower-case letters, digits and '-' within"
        )
    if service.restart not in RESTARTS:
        allowed = " and ".join(map(repr, RESTARTS))
        yield f"service {service.name}: restart is {service.restart!r}; allowed are {allowed}"
    yield from _capability_mistakes(f"service {service.name}", service.capabilities)
    if service.begins and not service.begins.startswith("path:/"):
        yield f"service {service.name}: begins is {service.begins!r}; allowed is 'path:/PATH', or nothing"


def _capability_mistakes(whose: str, capabilities: tuple[str, ...]) -> Iterator[str]:
    for name in capabilities:
        if name not in DROPPED:
            allowed = f"allowed are those that machines go without: {', '.join(DROPPED)}"
            yield f"{whose}: capability {name!r}; {allowed}"


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return True


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
