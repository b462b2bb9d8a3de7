"""Nodes of Ironic and whose they are: read from its documents, matched with what machines need. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tidepool.infrastructures.finding import gathered
from tidepool.infrastructures.machines import MachineKey

#: Keys in a node's `extra`: whose it is, or was last; and which stack enrolled it.
EXTRA, ENROLLED = "tidepool", "tidepool_enrolled"
_CLAIM: Final = re.compile(r"(?P<stack>[^/\s]+)/(?P<node>[^/\s]+)/(?P<instance>[0-9a-f-]{36})")

ACTIVE, AVAILABLE, ERROR = "active", "available", "error"
#: From these Ironic comes back only when it is told something else.
FAILED: Final = ("deploy failed", ERROR)
ON, OFF = "power on", "power off"
#: By which boot interfaces a node boots from a URL of an ISO.
VIRTUAL_MEDIA: Final = "virtual-media"
#: The deploy interface by which a node boots an ISO.
RAMDISK: Final = "ramdisk"
#: It wants a port of Neutron for each of the node's, which nobody makes here.
_NEUTRON: Final = "neutron"


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of a stack on a node of Ironic: its instance UUID, which one claim alone can have, and in `extra` whose that is."""

    stack: str
    node: str
    instance: str

    @classmethod
    def read(cls, text: str) -> Claim | None:
        """Return the claim that a text of `extra` is; None where it is none."""
        found = _CLAIM.fullmatch(text)
        return cls(**found.groupdict()) if found else None

    def __str__(self) -> str:
        return f"{self.stack}/{self.node}/{self.instance}"

    @property
    def key(self) -> MachineKey:
        return MachineKey(self.stack, self.node, self.instance)


@dataclass(frozen=True, slots=True)
class Host:
    """A node of Ironic, which would be a machine: it is called a host here, as Slurm has nodes of its own.

    What Ironic does not know is None, or empty. ``marked`` is what stands in its `extra`, whether it is so still or not.
    """

    uuid: str
    name: str = ""
    state: str = AVAILABLE
    power: str = ""
    instance: str = ""
    marked: str = ""
    enrolled_by: str = ""
    is_in_maintenance: bool = False
    maintenance_reason: str = ""
    fault: str = ""
    is_retired: bool = False
    last_error: str = ""
    resource_class: str = ""
    traits: tuple[str, ...] = ()
    driver: str = ""
    cpus: int | None = None
    memory_mib: int | None = None
    boot_interface: str = ""
    network_interface: str = ""
    info: Mapping[str, Any] = field(default_factory=dict)
    ports: tuple[Port, ...] = ()

    @property
    def called(self) -> str:
        return self.name or self.uuid

    @property
    def claim(self) -> Claim | None:
        """The claim that it is a machine by. One that could not be torn down is one still, unless it is off: it may run."""
        found = Claim.read(self.marked)
        if found is None:
            return None
        may_run = self.state == ERROR and not self.instance and self.power != OFF
        return found if found.instance == self.instance or may_run else None

    @property
    def is_on(self) -> bool:
        return self.state == ACTIVE and self.power == ON


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a node: its hardware address, and which of the site's networks it is in, where Ironic knows."""

    mac: str
    physical_network: str = ""
    is_pxe_enabled: bool = True


@dataclass(frozen=True, slots=True)
class Need:
    """Demands of a machine on its host. ``memory_mib`` is that of jobs and what there must be beside."""

    cpus: int
    memory_mib: int
    resource_class: str = ""
    traits: tuple[str, ...] = ()
    #: Of the port that is in the cluster's network.
    physical_network: str = ""


def hosts_of(nodes: Iterable[Mapping[str, Any]], ports: Iterable[Mapping[str, Any]]) -> tuple[Host, ...]:
    """Return the hosts in documents of Ironic's API: of nodes, and of all their ports."""
    by_node: dict[str, list[Port]] = {}
    for each in ports:
        port = Port(
            str(each["address"]).lower(),
            str(each.get("physical_network") or ""),
            bool(each.get("pxe_enabled", True)),
        )
        by_node.setdefault(str(each["node_uuid"]), []).append(port)
    return tuple(host_of(node, by_node.get(str(node["uuid"]), ())) for node in nodes)


def host_of(node: Mapping[str, Any], ports: Sequence[Port] = ()) -> Host:
    """Return the host in a document of Ironic's API."""
    properties, extra = node.get("properties") or {}, node.get("extra") or {}
    text: Mapping[str, str] = {key: str(node.get(key) or "") for key in _TEXTS}
    return Host(
        uuid=str(node["uuid"]),
        name=text["name"],
        state=text["provision_state"],
        power=text["power_state"],
        instance=text["instance_uuid"],
        marked=str(extra.get(EXTRA) or ""),
        enrolled_by=str(extra.get(ENROLLED) or ""),
        is_in_maintenance=bool(node.get("maintenance")),
        maintenance_reason=text["maintenance_reason"],
        fault=text["fault"],
        is_retired=bool(node.get("retired")),
        last_error=text["last_error"],
        resource_class=text["resource_class"],
        traits=tuple(node.get("traits") or ()),
        driver=text["driver"],
        cpus=_number(properties.get("cpus")),
        memory_mib=_number(properties.get("memory_mb")),
        boot_interface=text["boot_interface"],
        network_interface=text["network_interface"],
        info=dict(node.get("instance_info") or {}),
        ports=tuple(ports),
    )


_TEXTS: Final = (
    "name",
    "provision_state",
    "power_state",
    "instance_uuid",
    "maintenance_reason",
    "fault",
    "last_error",
    "resource_class",
    "driver",
    "boot_interface",
    "network_interface",
)


def _number(said: object) -> int | None:
    """Return a property that people write as a text or as a number."""
    try:
        return int(str(said)) if said else None
    except ValueError:
        return None


def mac_of(host: Host, physical_network: str) -> str:
    """Return the hardware address of the port in the cluster's network; empty where it is not known which one that is."""
    there = [port for port in host.ports if physical_network in ("", port.physical_network)]
    if len(there) > 1:
        there = [port for port in there if port.is_pxe_enabled]
    return there[0].mac if len(there) == 1 else ""


@gathered
def unfit(host: Host, need: Need) -> Iterator[str]:
    """Yield why a host cannot be a machine that needs so much, each with the remedy."""
    name = host.called
    if need.resource_class not in ("", host.resource_class):
        yield f"its resource class is {host.resource_class or 'none'}, and {need.resource_class} is asked for"
    if lacking := [each for each in need.traits if each not in host.traits]:
        yield f"it has no trait {', '.join(lacking)}"
    if host.cpus is not None and host.cpus < need.cpus:
        yield f"it has {host.cpus} cpus, and the shape {need.cpus}: lower cpus of the shape, or name another host"
    if host.memory_mib is not None and host.memory_mib < need.memory_mib:
        yield (
            f"it has {host.memory_mib} MiB of memory, and the shape with its overhead {need.memory_mib} MiB: lower memory of the "
            "shape, or name another host"
        )
    if VIRTUAL_MEDIA not in host.boot_interface:
        yield (
            f"its boot interface is {host.boot_interface or 'none'}, and hosts boot from virtual media: baremetal node set {name} "
            "--boot-interface redfish-virtual-media, or name another host"
        )
    if host.network_interface == _NEUTRON:
        yield (
            "its network interface is neutron, which wants ports that nobody makes here: baremetal node set "
            f"{name} --network-interface noop (or flat)"
        )
    if not mac_of(host, need.physical_network):
        yield _no_port(host, need.physical_network)


def _no_port(host: Host, physical_network: str) -> str:
    where = f" in the physical network {physical_network}" if physical_network else ""
    if not any(physical_network in ("", port.physical_network) for port in host.ports):
        return (
            f"it has no port{where}, by whose address it knows its interface: baremetal port create MAC --node "
            f"{host.called}{f' --physical-network {physical_network}' if physical_network else ''}"
        )
    return (
        f"several of its ports{where} may be that in the cluster's network: name the physical network of it in physical_network, or "
        "have PXE enabled on that one alone"
    )


def taken(host: Host) -> str:
    """Return why a host may not be claimed, with the remedy; empty where it may."""
    if (claim := host.claim) is not None:
        return f"it is the node {claim.node} of the stack {claim.stack}: give it back there first, or name another host"
    if host.instance:
        return f"it has the instance {host.instance}, which is none of Tidepool's: see whose it is"
    if host.is_in_maintenance:
        why = host.maintenance_reason or host.fault or "nobody says why"
        return (
            f"it is in maintenance ({why}): baremetal node maintenance unset {host.called}, when it is well"
        )
    if host.is_retired:
        return "it is retired: name another host"
    if host.state != AVAILABLE:
        said = f" ({host.last_error})" if host.last_error else ""
        return f"it is {host.state}{said}, and not available{_REMEDIES.get(host.state, '')}"
    return ""


_REMEDIES: Final[Mapping[str, str]] = {
    "enroll": ": baremetal node manage, and then provide",
    "manageable": ": baremetal node provide",
    "clean failed": ": see why, then baremetal node manage, maintenance unset, and provide",
    "inspect failed": ": see why, then baremetal node manage, and provide",
    ERROR: ": see why, then baremetal node undeploy",
    "cleaning": " yet",
    "clean wait": " yet",
    "deleting": " yet",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """The way to a host for a machine: those that it has by its claims, else the ``candidates``, the best first.

    ``reasons`` say of each other host why it is none of them.
    """

    held: tuple[Host, ...] = ()
    candidates: tuple[Host, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


def named(host: Host, names: Sequence[str]) -> bool:
    """Return whether a host is one of those names and UUIDs; all are, where there are none."""
    return not names or host.name in names or host.uuid in names


def plan(key: MachineKey, need: Need, hosts: Iterable[Host], names: Sequence[str] = ()) -> Plan:
    """Plan the claim of a host for the node of ``key``, one of those ``names``.

    The smallest host that fits comes first, so that larger shapes find theirs; last those of which nobody knows how large they are.
    """
    held: list[Host] = []
    fits: list[Host] = []
    reasons: dict[str, str] = {}
    for host in hosts:
        claim = host.claim
        if claim is not None and (claim.stack, claim.node) == (key.stack, key.node):
            held.append(host)
        elif named(host, names):
            why = [each for each in (taken(host), *unfit(host, need)) if each]
            if why:
                reasons[host.called] = "; ".join(why)
            else:
                fits.append(host)
    fits.sort(key=lambda host: (not host.memory_mib, host.memory_mib or 0, host.cpus or 0, host.called))
    return Plan(tuple(held), tuple(fits), reasons)
