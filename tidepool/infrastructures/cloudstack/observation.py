"""Observation of a CloudStack: what it has of all that a spec may demand. Nothing is changed.

Hosts and capacities are an administrator's to see: to others nothing is known of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tidepool.infrastructures.cloudstack.api import Api, NotAllowed
from tidepool.infrastructures.cloudstack.demands import Demands
from tidepool.infrastructures.cloudstack.machine import group_of

#: What images are made for.
ARCHITECTURE: Final = "x86_64"
GIB: Final = 1024**3
#: Quotas by CloudStack's names.
_QUOTAS: Final = ("vm", "cpu", "memory", "network", "volume", "primarystorage")
#: CloudStack's number of the capacity of primary storage, as what is allocated of it.
_STORAGE: Final = 3
Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class HostCapacity:
    """A host, with what VMs have of it."""

    name: str
    cpus: int
    memory_mib: int
    free_mib: int
    arch: str = ARCHITECTURE


@dataclass(frozen=True, slots=True)
class There:
    """Observation of a CloudStack. ``hosts`` is None where the keys may not see them.

    ``available`` is what the owner may still have, by CloudStack's names; ``had`` what the stack has of that already.
    """

    zone: Item
    capabilities: Item
    network_offerings: Sequence[Item]
    vpcs: Sequence[Item]
    networks: Sequence[Item]
    offerings: Sequence[Item]
    templates: Sequence[Item]
    os_types: Sequence[str]
    hosts: Sequence[HostCapacity] | None = None
    available: Mapping[str, int] = field(default_factory=dict)
    had: Mapping[str, int] = field(default_factory=dict)
    disk_offerings: Sequence[Item] = ()
    #: What primary storage of the zone has left, in GiB; None where the keys may not see it.
    free_gib: int | None = None


def look(api: Api, demanded: Demands) -> There:
    """Ask for all of it; nothing is changed.

    Raises:
        InfrastructureError: it cannot be asked; the owner or the zone is not there.
    """
    zone = api.zone(demanded.zone)
    own = group_of(demanded.stack)
    has = [each for each in api.own("listVirtualMachines") if each.get("group") == own]
    ids = {each["id"] for each in has}
    volumes = [
        each
        for each in api.own("listVolumes")
        if each.get("virtualmachineid") in ids or each.get("name") == f"{own}-store"
    ]
    return There(
        zone,
        api.call("listCapabilities").get("capability", {}),
        api.listed("listNetworkOfferings"),
        api.own("listVPCs") if demanded.vpc else (),
        api.own("listNetworks"),
        api.listed("listServiceOfferings"),
        api.own("listTemplates", templatefilter="executable", name=demanded.template)
        if demanded.template
        else (),
        () if demanded.template else [str(each.get("description")) for each in api.listed("listOsTypes")],
        _hosts(api, str(zone["id"])),
        _available(api),
        {
            "vm": len(has),
            "cpu": sum(int(each.get("cpunumber") or 0) for each in has),
            "memory": sum(int(each.get("memory") or 0) for each in has),
            "volume": len(volumes),
            "primarystorage": sum(int(each.get("size") or 0) // GIB for each in volumes),
        },
        api.listed("listDiskOfferings") if demanded.store_gib else (),
        _free_gib(api, str(zone["id"])),
    )


def _hosts(api: Api, zone: str) -> Sequence[HostCapacity] | None:
    try:
        listed = api.listed("listHosts", type="Routing", zoneid=zone, state="Up")
    except NotAllowed:
        return None
    mib = 1024**2
    return tuple(
        HostCapacity(
            str(each["name"]),
            int(each["cpunumber"]),
            int(each["memorytotal"]) // mib,
            (int(each["memorytotal"]) - int(each.get("memoryallocatedbytes") or 0)) // mib,
            str(each.get("arch") or ARCHITECTURE),
        )
        for each in listed
        if each.get("resourcestate", "Enabled") == "Enabled"
    )


def _free_gib(api: Api, zone: str) -> int | None:
    try:
        listed = api.listed("listCapacity", type=_STORAGE, zoneid=zone)
    except NotAllowed:
        return None
    free = sum(int(each["capacitytotal"]) - int(each.get("capacityused") or 0) for each in listed)
    return free // GIB if listed else None


def _available(api: Api) -> Mapping[str, int]:
    """Return what quotas leave, of those that have an end."""
    if api.project:
        listed = [each for each in api.listed("listProjects", listall=True) if each["name"] == api.project]
    else:
        listed = api.listed("listAccounts", **api.owner)
        listed = [each for each in listed if each.get("name") == api.account] if api.account else listed[:1]
    if not listed:
        return {}
    said = {key: listed[0].get(f"{key}available") for key in _QUOTAS}
    return {key: int(value) for key, value in said.items() if value and str(value).lstrip("-").isdigit()}
