"""Facts of hosts and whose they are: read from what Redfish says of them, matched with what machines need. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tidepool.infrastructures.finding import gathered
from tidepool.infrastructures.machines import MachineKey

_CLAIM: Final = re.compile(
    r"tidepool:(?P<stack>[^/\s]+)/(?P<node>[^/\s]+)/(?P<id>[0-9a-f]{8})(?P<disk>/disk)?"
)


@dataclass(frozen=True, slots=True)
class Claim:
    """The AssetTag of a host that is a node: it says whose, which all stacks see. ``id`` tells it from the node's next.

    With ``on_disk`` it writes to a disk of the host, which is wiped before the host is anybody else's.
    """

    stack: str
    node: str
    id: str
    on_disk: bool = False

    @classmethod
    def read(cls, tag: str) -> Claim | None:
        """Return the claim that an AssetTag is; None where it is none of Tidepool's."""
        found = _CLAIM.fullmatch(tag)
        return cls(found["stack"], found["node"], found["id"], bool(found["disk"])) if found else None

    def __str__(self) -> str:
        return f"tidepool:{self.stack}/{self.node}/{self.id}{'/disk' if self.on_disk else ''}"

    def key(self, host: str) -> MachineKey:
        """The key of the machine that the host of that name is by it."""
        return MachineKey(self.stack, self.node, f"{host}/{self.id}")


@dataclass(frozen=True, slots=True)
class Facts:
    """A host as its BMC describes it. What it does not tell is None, or empty.

    ``memory_mib`` counts what is built in; ``boots_from`` are the targets that its firmware boots from when it is told to.
    ``attributes`` of the BIOS are None where it offers none.
    """

    power: str
    tag: str = ""
    cpus: int | None = None
    memory_mib: int | None = None
    model: str = ""
    serial: str = ""
    bios_version: str = ""
    health: str = ""
    media: tuple[str, ...] = ()
    boots_from: tuple[str, ...] = ()
    resets: tuple[str, ...] = ()
    macs: tuple[str, ...] = ()
    attributes: Mapping[str, Any] | None = None
    firmware: Mapping[str, str] = field(default_factory=dict)

    @property
    def claim(self) -> Claim | None:
        return Claim.read(self.tag)

    @property
    def is_on(self) -> bool:
        return self.power != "Off"


@dataclass(frozen=True, slots=True)
class Need:
    """Demands of a machine on its host. ``memory_mib`` is that of jobs and what there must be beside."""

    cpus: int
    memory_mib: int
    bios: Mapping[str, Any] = field(default_factory=dict)


#: By which of the firmware's targets a host boots from virtual media, the first that it has.
MEDIA_TARGETS: Final = ("UsbCd", "Cd")


def facts_of(
    system: Mapping[str, Any],
    *,
    media: Sequence[Mapping[str, Any]] = (),
    interfaces: Sequence[Mapping[str, Any]] = (),
    attributes: Mapping[str, Any] | None = None,
    threads: int | None = None,
    firmware: Mapping[str, str] | None = None,
) -> Facts:
    """Return the facts in documents of Redfish: of a system, its virtual media, its interfaces. ``threads`` are its processors' own count."""
    processors, memory = _part(system, "ProcessorSummary"), _part(system, "MemorySummary")
    boot, reset = _part(system, "Boot"), _part(_part(system, "Actions"), "#ComputerSystem.Reset")
    gib = memory.get("TotalSystemMemoryGiB")
    # `Count` is of sockets.
    cpus = processors.get("LogicalProcessorCount") or threads or processors.get("CoreCount")
    return Facts(
        power=str(system.get("PowerState") or "Unknown"),
        tag=str(system.get("AssetTag") or ""),
        cpus=int(cpus) if cpus else None,
        memory_mib=int(gib * 1024) if gib else None,
        model=" ".join(str(system[key]) for key in ("Manufacturer", "Model") if system.get(key)),
        serial=str(system.get("SerialNumber") or ""),
        bios_version=str(system.get("BiosVersion") or ""),
        health=str(_part(system, "Status").get("Health") or ""),
        media=tuple(kind for each in media for kind in each.get("MediaTypes") or ()),
        boots_from=tuple(boot.get("BootSourceOverrideTarget@Redfish.AllowableValues") or ()),
        resets=tuple(reset.get("ResetType@Redfish.AllowableValues") or ()),
        macs=tuple(str(each["MACAddress"]).lower() for each in interfaces if each.get("MACAddress")),
        attributes=attributes,
        firmware=dict(firmware or {}),
    )


def _part(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = document.get(key)
    return found if isinstance(found, Mapping) else {}


@gathered
def unfit(facts: Facts, need: Need) -> Iterator[str]:
    """Yield why a host cannot be a machine that needs so much, each with the remedy."""
    if facts.cpus is not None and facts.cpus < need.cpus:
        yield f"it has {facts.cpus} cpus, and the shape {need.cpus}: lower cpus of the shape, or name another host"
    if facts.memory_mib is not None and facts.memory_mib < need.memory_mib:
        yield (
            f"it has {facts.memory_mib} MiB of memory, and the shape with its overhead {need.memory_mib} MiB: lower memory of the "
            "shape, or name another host"
        )
    if not {"CD", "DVD"} & {*facts.media}:
        yield "its firmware has no virtual CD, which hosts boot from: update it, or its licence; or name another host"
    elif facts.boots_from and not {*MEDIA_TARGETS} & {*facts.boots_from}:
        yield (
            f"its firmware boots from {', '.join(facts.boots_from)} when it is told to, and from no CD: update it, or name another host"
        )
    if lacking := sorted({*need.bios} - {*(facts.attributes or {})}):
        offers = "offers no attributes" if facts.attributes is None else f"has no {', '.join(lacking)}"
        yield f"its BIOS {offers}: leave them out of bios, or write those that it has"


def taken(facts: Facts, free_tag: str) -> str:
    """Return why a host may not be claimed, with the remedy; empty where it may. ``free_tag`` is what it says when it is nobody's."""
    if (claim := facts.claim) is not None:
        return f"it is the node {claim.node} of the stack {claim.stack}: give it back there first, or name another host"
    if facts.tag != free_tag:
        return f"its AssetTag is {facts.tag!r}, which is not for us to overwrite: write it in asset_tag of the host, or clear it there"
    if facts.is_on:
        return f"it is {facts.power}, and no node of any stack: see who uses it, and switch it off"
    return ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The way to a host for a machine: the one that it has by its claim, else the ``candidates``, the best first.

    ``reasons`` say of each other host why it is none of them.
    """

    held: str = ""
    candidates: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


def plan(key: MachineKey, need: Need, hosts: Mapping[str, Facts | str], free_tags: Mapping[str, str]) -> Plan:
    """Plan the claim of a host for the node of ``key``. Of a host that does not answer, ``hosts`` has why.

    The smallest host that fits comes first, so that larger shapes find theirs.
    """
    fits: list[tuple[int, int, int, str]] = []
    reasons: dict[str, str] = {}
    for at, (name, facts) in enumerate(hosts.items()):
        if isinstance(facts, str):
            reasons[name] = facts
            continue
        claim = facts.claim
        if claim is not None and (claim.stack, claim.node) == (key.stack, key.node):
            return Plan(held=name)
        why = [each for each in (taken(facts, free_tags.get(name, "")), *unfit(facts, need)) if each]
        if why:
            reasons[name] = "; ".join(why)
        else:
            fits.append((facts.memory_mib or 0, facts.cpus or 0, at, name))
    return Plan("", tuple(name for *_, name in sorted(fits)), reasons)
