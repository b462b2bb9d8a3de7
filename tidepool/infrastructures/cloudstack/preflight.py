"""Preflight of CloudStack: the demands of a spec, compared with what a zone has, in previews and by `tidepool doctor`.

CloudStack says most of it only to a deploy, one thing at a time. Hosts are an administrator's to see: to others nothing is
known of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidepool.cluster.failures import InfrastructureError, Permanent, marked
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.cloudstack.api import Api, ApiLocation, NotAllowed
from tidepool.infrastructures.cloudstack.demands import Demand, Demands, demands
from tidepool.infrastructures.cloudstack.machine import group_of
from tidepool.infrastructures.cloudstack.reading import read_options
from tidepool.infrastructures.cloudstack.service_offering import fitting, unfit
from tidepool.infrastructures.finding import Finding, Preflight, findings, gathered

if TYPE_CHECKING:
    from tidepool.resources.kind import Home

#: What images are made for.
_ARCHITECTURE: Final = "x86_64"
#: The least version: user data has names since.
LEAST: Final = (4, 18)

Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class HostCapacity:
    """A host, with what VMs have of it."""

    name: str
    cpus: int
    memory_mib: int
    free_mib: int
    arch: str = _ARCHITECTURE


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


def look(api: Api, demanded: Demands) -> There:
    """Ask for all of it; nothing is changed.

    Raises:
        InfrastructureError: it cannot be asked; the owner or the zone is not there.
    """
    zone = api.zone(demanded.zone)
    has = [each for each in api.own("listVirtualMachines") if each.get("group") == group_of(demanded.stack)]
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
        },
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
            str(each.get("arch") or _ARCHITECTURE),
        )
        for each in listed
        if each.get("resourcestate", "Enabled") == "Enabled"
    )


def _available(api: Api) -> Mapping[str, int]:
    """Return what quotas leave, of those that have an end."""
    if api.project:
        listed = [each for each in api.listed("listProjects", listall=True) if each["name"] == api.project]
    else:
        listed = api.listed("listAccounts", **api.owner)
        listed = [each for each in listed if each.get("name") == api.account] if api.account else listed[:1]
    if not listed:
        return {}
    said = {key: listed[0].get(f"{key}available") for key in ("vm", "cpu", "memory", "network")}
    return {key: int(value) for key, value in said.items() if value and str(value).lstrip("-").isdigit()}


@gathered
def lacks(there: There, demanded: Demands) -> Iterator[str]:
    """All that is missing, each with where it was asked for and the remedy."""
    yield from _of_zone(there, demanded)
    yield from _of_network(there, demanded)
    yield from _of_boots(there, demanded)
    for demand in demanded.demands:
        yield from _of_offering(there, demanded, demand)
        yield from _of_hosts(there, demand)
    yield from _of_capacity(there, demanded)


def _of_zone(there: There, demanded: Demands) -> Iterator[str]:
    version = str(there.capabilities.get("cloudstackversion", ""))
    numbers = tuple(int(number) for number in version.split(".")[:2] if number.isdigit())
    if numbers and numbers < LEAST:
        yield f"CloudStack is {version}, and user data has names since 4.18: upgrade it"
    if there.capabilities.get("allowuserexpungerecovervm") is False:
        yield (
            "these keys may not expunge VMs: one that is only destroyed keeps its name and its address for a day, and a node "
            "cannot have another machine; have an administrator set allow.user.expunge.recover.vm to true"
        )
    zone = there.zone
    if zone.get("allocationstate", "Enabled") != "Enabled":
        yield (
            f"{demanded.path}.zone: {zone['name']} is {zone['allocationstate']}, and takes no VMs; enable it, or name "
            "another zone"
        )
    if zone.get("networktype", "Advanced") != "Advanced":
        yield f"{demanded.path}.zone: {zone['name']} is a {zone['networktype']} zone, which has no isolated networks; name another"


def _of_network(there: There, demanded: Demands) -> Iterator[str]:
    path, name = f"{demanded.path}.network_offering", demanded.network_offering
    known = [each for each in there.network_offerings if each.get("state") == "Enabled"]
    offering = next((each for each in known if each["name"] == name), None)
    fit = [str(each["name"]) for each in known if bool(each.get("forvpc")) == bool(demanded.vpc)]
    if offering is None:
        yield f"{path}: there is no {name}, or it is not enabled; there are {', '.join(sorted(fit)) or 'none'}"
    elif name not in fit:
        yield f"{path}: {name} is {'not ' if demanded.vpc else ''}for VPCs; take one of {', '.join(sorted(fit)) or 'none'}"
    elif not demanded.vpc and offering.get("egressdefaultpolicy"):
        yield (
            f"{path}: by {name} machines reach everything outside, and rules would refuse it; take one whose default egress "
            "policy is to deny"
        )
    cidr = IPv4Network(demanded.cidr)
    own = group_of(demanded.stack)
    mine = next((each for each in there.networks if each["name"] == own), None)
    if mine is not None and mine.get("cidr") and IPv4Network(mine["cidr"]) != cidr:
        larger = "too small" if IPv4Network(mine["cidr"]).subnet_of(cidr) else "another"
        yield (
            f"network: {own} is there with {mine['cidr']}, which is {larger} for {cidr}: it is replaced with all of its machines; "
            "`tidepool down` first, or leave the network as it was"
        )
    if mine is None and there.available.get("network", 1) < 1:
        yield marked("the quota of networks is reached: delete one, or have it raised", "capacity")
    if demanded.vpc:
        yield from _of_vpc(there, demanded, cidr)


def _of_vpc(there: There, demanded: Demands, cidr: IPv4Network) -> Iterator[str]:
    vpc = next((each for each in there.vpcs if each["name"] == demanded.vpc), None)
    if vpc is None:
        known = ", ".join(sorted(str(each["name"]) for each in there.vpcs)) or "none"
        yield f"{demanded.path}.vpc: there is no VPC {demanded.vpc}; there are {known}"
        return
    if not cidr.subnet_of(IPv4Network(vpc["cidr"])):
        yield (
            f"network: {cidr} is not within {vpc['cidr']} of the VPC {demanded.vpc}, which is too small or elsewhere; write a "
            "network of it, or take a larger VPC"
        )
    for each in there.networks:
        is_other = each.get("vpcid") == vpc.get("id") and each["name"] != group_of(demanded.stack)
        if is_other and each.get("cidr") and cidr.overlaps(IPv4Network(each["cidr"])):
            yield f"network: the tier {each['name']} of the VPC {demanded.vpc} has {each['cidr']} of {cidr}; write another network"


def _of_boots(there: There, demanded: Demands) -> Iterator[str]:
    if not demanded.template:
        if demanded.os_type not in there.os_types:
            yield (
                f"{demanded.path}.os_type: CloudStack knows no {demanded.os_type}; write the description of one that "
                "`cs listOsTypes` shows"
            )
        return
    path, name = f"{demanded.path}.template", demanded.template
    zone = there.zone.get("id")
    found = [each for each in there.templates if each["name"] == name and each.get("zoneid") in (None, zone)]
    if not found:
        yield f"{path}: there is no template {name} in the zone {demanded.zone} that these keys may use"
        return
    template = found[0]
    if (arch := template.get("arch") or _ARCHITECTURE) != _ARCHITECTURE:
        yield f"{path}: {name} is for {arch}, and machines are {_ARCHITECTURE}; name another template"
    if template.get("hypervisor", demanded.hypervisor) != demanded.hypervisor:
        yield (
            f"{path}: {name} is for {template['hypervisor']}, and {demanded.path}.hypervisor is {demanded.hypervisor}; name "
            "another template"
        )
    if not template.get("isready"):
        yield f"{path}: {name} is not ready: {template.get('status') or 'CloudStack does not say why'}"


def _of_offering(there: There, demanded: Demands, demand: Demand) -> Iterator[str]:
    shape, needs = demand.shape, f"{demand.cpus} processors and {demand.memory_mib} MiB"
    if demanded.makes_offerings and not demand.offering:
        return
    if fitting(there.offerings, shape) is not None:
        return
    if demand.offering:
        named = next((each for each in there.offerings if each.get("name") == demand.offering), None)
        why = "; ".join(unfit(named, shape)) if named else "there is none of this name"
        yield f"{demand.path}.service_offering: machines cannot be of {demand.offering}: {why}; name another, or change the shape"
        return
    names = ", ".join(sorted(str(each["name"]) for each in there.offerings)[:8]) or "none"
    yield (
        f"{demand.path}: no service offering fits {needs}, of {names}: change the shape, have one made by an administrator, or "
        f"write {demanded.path}.make_offerings: true where the keys are an administrator's"
    )


def _of_hosts(there: There, demand: Demand) -> Iterator[str]:
    if not there.hosts:
        return
    fit = [host for host in there.hosts if host.arch == _ARCHITECTURE]
    if not fit:
        return
    cpus, memory = max(host.cpus for host in fit), max(host.memory_mib for host in fit)
    if not any(host.cpus >= demand.cpus and host.memory_mib >= demand.memory_mib for host in fit):
        yield (
            f"{demand.path}: a machine has {demand.cpus} processors and {demand.memory_mib} MiB, and no host is so large: they "
            f"have at most {cpus} and {memory} MiB; lower its shape"
        )
    elif demand.is_strict and demand.machines > len(fit):
        yield (
            f"{demand.path}.affinity: {demand.machines} machines are to be on hosts of their own, and there are {len(fit)}: "
            "write non-strict host anti-affinity, or have fewer"
        )


def _of_capacity(there: There, demanded: Demands) -> Iterator[str]:
    wanted = {
        "vm": sum(demand.machines for demand in demanded.demands),
        "cpu": sum(demand.machines * demand.cpus for demand in demanded.demands),
        "memory": sum(demand.machines * demand.memory_mib for demand in demanded.demands),
    }
    more = {key: count - there.had.get(key, 0) for key, count in wanted.items()}
    for key, what in (("vm", "VMs"), ("cpu", "processors"), ("memory", "MiB of memory")):
        if key in there.available and more[key] > there.available[key]:
            yield marked(
                f"the quota leaves {there.available[key]} {what}, and {more[key]} more are asked for at least: lower min_nodes, "
                "or have it raised",
                "capacity",
            )
    if there.hosts is None:
        return
    fit = [host for host in there.hosts if host.arch == _ARCHITECTURE]
    if not fit:
        known = ", ".join(sorted({host.arch for host in there.hosts})) or "none"
        yield (
            f"{demanded.path}.zone: {demanded.zone} has no {_ARCHITECTURE} host that is up and enabled, but {known}; name another "
            "zone"
        )
    elif more["memory"] > (free := sum(host.free_mib for host in fit)):
        yield marked(
            f"{demanded.path}.zone: {demanded.zone} has {free} MiB of memory left, and {more['memory']} MiB more are asked for at "
            "least: lower min_nodes, or name another zone",
            "capacity",
        )


def lacks_there(demanded: Demands, open: Callable[[ApiLocation], Api] = ApiLocation.open) -> Iterator[str]:
    """All that it lacks, each with the remedy; that it cannot be asked."""
    try:
        there = look(open(demanded.api), demanded)
    except NotAllowed as error:
        remedy = "check CLOUDSTACK_KEY and CLOUDSTACK_SECRET, or what the role may"
        yield f"{demanded.path}: {error}; {remedy}"
        return
    except Permanent as error:
        yield f"{demanded.path}: {error}"
        return
    except InfrastructureError as error:
        yield f"{demanded.path}: {error}; is the endpoint right? try: cs listCapabilities"
        return
    yield from lacks(there, demanded)


def checks_of(
    spec: ClusterSpec, stack: str, _data: Path, open: Callable[[ApiLocation], Api] = ApiLocation.open
) -> Iterator[Finding]:
    """Check the keys, the zone, and what the owner may have."""
    options = read_options(spec)
    found = lacks_there(demands(spec, stack, options), open)
    well = "it answers, and has all that is asked of it"
    return findings(f"CloudStack at {options.place.endpoint}", found, well)


def _missing(demanded: Demands, _home: Home) -> Iterator[str]:
    return lacks_there(demanded)


PREFLIGHT = Preflight(Demands, _missing)
