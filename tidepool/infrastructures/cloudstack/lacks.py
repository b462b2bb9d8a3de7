"""Demands of a spec, compared with what a CloudStack has: all that is missing, each with where it was asked for and the remedy.

CloudStack says most of it only to a deploy, one thing at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network
from typing import Final

from tidepool.cluster.failures import marked
from tidepool.infrastructures.cloudstack.demands import Demand, Demands
from tidepool.infrastructures.cloudstack.machine import group_of
from tidepool.infrastructures.cloudstack.observation import ARCHITECTURE, GIB, HostCapacity, There
from tidepool.infrastructures.cloudstack.service_offering import fitting, unfit
from tidepool.infrastructures.cloudstack.volume import disk_offering
from tidepool.infrastructures.finding import gathered

#: The least version: user data has names since.
LEAST: Final = (4, 18)
#: What quotas count, by CloudStack's names.
_COUNTED: Final = (
    ("vm", "VMs"),
    ("cpu", "processors"),
    ("memory", "MiB of memory"),
    ("volume", "volumes"),
    ("primarystorage", "GiB of primary storage"),
)


@gathered
def lacks(there: There, demanded: Demands) -> Iterator[str]:
    """All that is missing, each with where it was asked for and the remedy."""
    yield from _of_zone(there, demanded)
    yield from _of_network(there, demanded)
    yield from _of_boots(there, demanded)
    for demand in demanded.demands:
        yield from _of_offering(there, demanded, demand)
        yield from _of_hosts(there, demand)
    yield from _of_store(there, demanded)
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
    if (arch := template.get("arch") or ARCHITECTURE) != ARCHITECTURE:
        yield f"{path}: {name} is for {arch}, and machines are {ARCHITECTURE}; name another template"
    if template.get("hypervisor", demanded.hypervisor) != demanded.hypervisor:
        yield (
            f"{path}: {name} is for {template['hypervisor']}, and {demanded.path}.hypervisor is {demanded.hypervisor}; name "
            "another template"
        )
    least = min((demand.disk_gib for demand in demanded.demands), default=0)
    if 0 < least * GIB < int(template.get("size") or 0):
        size = -(-int(template["size"]) // GIB)
        small = next(demand for demand in demanded.demands if demand.disk_gib == least)
        yield f"{small.path}.disk: it is {least} GiB, and the template {name} has {size} GiB; write disk: {size}GiB"
    if not template.get("isready"):
        yield f"{path}: {name} is not ready: {template.get('status') or 'CloudStack does not say why'}"


def _of_offering(there: There, demanded: Demands, demand: Demand) -> Iterator[str]:
    shape, needs = demand.shape, f"{demand.cpus} processors and {demand.memory_mib} MiB"
    if demanded.makes_offerings and not demand.offering:
        if "pciDevice" in shape.details and demanded.hypervisor == "KVM":
            yield (
                f"{demand.path}.details: pciDevice and vgpuType make no service offering for hosts with KVM: have an administrator make one "
                "with a GPU, as 4.21 can, and name it as service_offering; or give machines the device by extra_config"
            )
        return
    if (fit := fitting(there.offerings, shape)) is not None:
        # One that says how large root disks are is not told otherwise.
        if 0 < (size := int(fit.get("rootdisksize") or 0)) < demand.disk_gib:
            yield (
                f"{demand.path}.disk: it is {demand.disk_gib} GiB, and machines of {fit['name']} have {size} GiB: write {size}GiB, "
                "or name another service offering"
            )
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
    fit = [host for host in there.hosts if host.arch == ARCHITECTURE]
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


def _of_store(there: There, demanded: Demands) -> Iterator[str]:
    """Yield what is wrong with the disk offering of the file server's volume."""
    if not demanded.store_gib:
        return
    path, name = f"{demanded.path}.store.disk_offering", demanded.disk_offering
    offering = disk_offering(there.disk_offerings, name)
    if offering is None:
        known = ", ".join(sorted(str(each["name"]) for each in there.disk_offerings)[:8]) or "none"
        yield f"{path}: there is no disk offering {name}; there are {known}"
    elif not offering.get("iscustomized") and int(offering.get("disksize") or 0) < demanded.store_gib:
        yield (
            f"{path}: volumes of {name} have {offering.get('disksize')} GiB, and {demanded.path}.store.size is {demanded.store_gib}: "
            "write that, or name one that leaves the size open"
        )


def _of_capacity(there: There, demanded: Demands) -> Iterator[str]:
    wanted = {
        "vm": sum(demand.machines for demand in demanded.demands),
        "cpu": sum(demand.machines * demand.cpus for demand in demanded.demands),
        "memory": sum(demand.machines * demand.memory_mib for demand in demanded.demands),
        "volume": sum(demand.machines for demand in demanded.demands) + bool(demanded.store_gib),
        "primarystorage": sum(demand.machines * demand.disk_gib for demand in demanded.demands)
        + demanded.store_gib,
    }
    more = {key: count - there.had.get(key, 0) for key, count in wanted.items()}
    for key, what in _COUNTED:
        if key in there.available and more[key] > there.available[key]:
            yield marked(
                f"the quota leaves {there.available[key]} {what}, and {more[key]} more are asked for at least: lower min_nodes, "
                "or have it raised",
                "capacity",
            )
    if there.free_gib is not None and more["primarystorage"] > max(there.free_gib, 0):
        yield marked(
            f"{demanded.path}.zone: {demanded.zone} has {there.free_gib} GiB of primary storage left, and {more['primarystorage']} GiB "
            "more are asked for at least: lower disk or min_nodes, or name another zone",
            "capacity",
        )
    if there.hosts is None:
        return
    fit = [host for host in there.hosts if host.arch == ARCHITECTURE]
    if not fit:
        known = ", ".join(sorted({host.arch for host in there.hosts})) or "none"
        yield (
            f"{demanded.path}.zone: {demanded.zone} has no {ARCHITECTURE} host that is up and enabled, but {known}; name another "
            "zone"
        )
    elif more["memory"] > (free := sum(host.free_mib for host in fit)):
        yield marked(
            f"{demanded.path}.zone: {demanded.zone} has {free} MiB of memory left, and {more['memory']} MiB more are asked for at "
            "least: lower min_nodes, or name another zone",
            "capacity",
        )
    elif not there.had.get("vm"):
        # What the stack has there already is in what hosts have left.
        yield from _unplaced(fit, demanded)


def _unplaced(hosts: Sequence[HostCapacity], demanded: Demands) -> Iterator[str]:
    """Yield the first demand whose machines find no host with so much memory left, the largest placed first."""
    free = sorted((host.free_mib for host in hosts), reverse=True)
    for demand in sorted(demanded.demands, key=lambda each: -each.memory_mib):
        for placed in range(demand.machines):
            at = next((at for at, left in enumerate(free) if left >= demand.memory_mib), None)
            if at is None:
                if max((host.memory_mib for host in hosts), default=0) >= demand.memory_mib:
                    yield marked(
                        f"{demand.path}: {demand.machines} machines of {demand.memory_mib} MiB are asked for at least, and hosts have room for "
                        f"{placed} of them now: lower min_nodes, or name another zone",
                        "capacity",
                    )
                return
            free[at] -= demand.memory_mib
