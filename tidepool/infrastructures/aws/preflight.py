"""Lacks of a region, compared with the demands on it. AWS tells most of it only when a machine is launched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidepool.infrastructures.aws.demand import Demand, Demands
from tidepool.infrastructures.aws.facts import Facts, TypeFacts

#: Whose types have an architecture.
_MAKERS: Final = {"x86_64": "Intel or AMD", "arm64": "Graviton"}
#: Quotas of vCPUs that run at a time, by the first letters of an instance type: on demand, and of spot. Longer ones first.
_QUOTAS: Final = (
    ("trn", ("L-2C3B7624", "L-6B0D517C")),
    ("inf", ("L-1945791B", "L-B5D1601B")),
    ("hpc", ("L-F7808C92", "")),
    ("dl", ("L-6E869C2A", "L-85EED4F7")),
    ("vt", ("L-DB2E81BA", "L-3819A6DF")),
    ("g", ("L-DB2E81BA", "L-3819A6DF")),
    ("p", ("L-417A185B", "L-7212CCBC")),
    ("f", ("L-74FC7D96", "L-88CF9481")),
    ("x", ("L-7295265B", "L-E3A00192")),
    ("u", ("L-43DA4232", "")),
    ("", ("L-1216C47A", "L-34B43A08")),
)
ROUTES_QUOTA: Final = "L-93826ACB"


def quota_of(instance_type: str, market: str) -> str:
    """The code of the quota that a machine of that type counts for; empty where there is none."""
    codes = next(codes for letters, codes in _QUOTAS if instance_type.startswith(letters))
    return codes[market == "spot"]


def lacks(facts: Facts, wanted: Demands) -> tuple[str, ...]:
    """All that is missing, each with where it was asked for and the remedy. Empty where nothing is."""
    return tuple(_lacks(facts, wanted))


def _lacks(facts: Facts, wanted: Demands) -> Iterator[str]:
    for demand in wanted.demands:
        found = facts.types.get(demand.instance_type)
        if found is None:
            yield (
                f"{demand.path}.instance_type: the region {wanted.region} has no {demand.instance_type}; `aws ec2 "
                f"describe-instance-types --region {wanted.region}` lists what it has"
            )
            continue
        yield from _of_architecture(found, demand, wanted.architecture)
        yield from _of_kind(found, demand)
        yield from _of_size(found, demand)
        yield from _of_quota(facts, found, demand)
    if wanted.counted:
        yield from _of_prices(facts, wanted)
    yield from _of_network(facts, wanted)


def _of_architecture(found: TypeFacts, demand: Demand, architecture: str) -> Iterator[str]:
    if architecture not in found.architectures:
        yield (
            f"{demand.path}.instance_type: {found.name} is {', '.join(sorted(found.architectures))}, and images are "
            f"{architecture}, as is the machine that makes them: take a type of {_MAKERS.get(architecture, architecture)}"
        )


def _of_kind(found: TypeFacts, demand: Demand) -> Iterator[str]:
    if demand.zone not in found.zones:
        yield (
            f"{demand.path}.zone: {demand.zone} has no {found.name}; "
            + (
                f"it is in {', '.join(sorted(found.zones))}"
                if found.zones
                else "no zone of the region has it: take another type"
            )
        )
    if demand.market not in found.markets:
        yield f"{demand.path}.market: {found.name} is not sold as {demand.market}; write {_others(found.markets)}"
    yield from _of_adapters(found, demand)
    if demand.clustered and "cluster" not in found.placement:
        yield (
            f"{demand.path}.placement_group: {found.name} cannot be in a cluster placement group; take another type, or "
            "leave it out"
        )


def _of_adapters(found: TypeFacts, demand: Demand) -> Iterator[str]:
    if demand.efa and not found.efa:
        yield (
            f"{demand.path}.efa: {found.name} has no Elastic Fabric Adapter; take a type that has one (`aws ec2 "
            "describe-instance-types --filters Name=network-info.efa-supported,Values=true`), or leave it out"
        )
    elif demand.efa > found.efa:
        yield (
            f"{demand.path}.efa: {found.name} has {found.efa} Elastic Fabric Adapters at most, and {demand.efa} are asked for: "
            f"write {found.efa}, or take another type"
        )
    elif demand.efa > 1 and found.cards > found.efa:
        yield (
            f"{demand.path}.efa: {found.name} has {found.cards} network cards and adapters for {found.efa} of them, and AWS does "
            "not say which: several cannot be asked for in this release; take another type"
        )


def _of_size(found: TypeFacts, demand: Demand) -> Iterator[str]:
    if demand.threads_per_core > found.threads_per_core:
        yield (
            f"{demand.path}.instance_type: cores of {found.name} have {found.threads_per_core} thread, and those of the shape "
            f"{demand.threads_per_core}: write threads_per_core: {found.threads_per_core}"
        )
        return
    cpus = found.cores * demand.threads_per_core
    if cpus < demand.cpus:
        yield (
            f"{demand.path}.instance_type: {found.name} has {cpus} processors with {demand.threads_per_core} threads of a "
            f"core, and the shape {demand.cpus}: take a larger type, or lower cpus"
        )
    if found.memory_mib < demand.memory_mib:
        yield (
            f"{demand.path}.instance_type: {found.name} has {found.memory_mib} MiB of memory, and the shape with its overhead "
            f"{demand.memory_mib}: take a larger type, or lower memory"
        )
    if found.gpus < demand.gpus:
        yield (
            f"{demand.path}.instance_type: {found.name} has {found.gpus} GPUs, and the shape {demand.gpus}: take another "
            "type, or lower its gres"
        )


def _of_quota(facts: Facts, found: TypeFacts, demand: Demand) -> Iterator[str]:
    """Check that there can be one. How many there can be, a launch says: the scaler moves on when a quota is reached."""
    code = quota_of(found.name, demand.market)
    quota = facts.vcpu_quotas.get(code)
    if quota is not None and quota < found.vcpus:
        yield (
            f"{demand.path}.instance_type: the account may have {quota:g} vCPUs of such machines ({demand.market}), and one "
            f"{found.name} has {found.vcpus}: ask AWS for more, `aws service-quotas request-service-quota-increase "
            f"--service-code ec2 --quota-code {code} --desired-value {demand.machines * found.vcpus}`"
        )


def _of_prices(facts: Facts, wanted: Demands) -> Iterator[str]:
    """A limit that counts nothing holds nothing."""
    for path, demand in {each.price_path: each for each in wanted.demands}.items():
        if demand.price_usd_per_hour == 0:
            price = facts.prices.get((demand.instance_type, demand.zone, demand.market))
            remedy = f"{price:g}, as AWS asks for it now" if price else "what it costs"
            yield f"{path}: the cluster's limits count what machines cost, and {demand.instance_type} has no price: write {remedy}"


def _of_network(facts: Facts, wanted: Demands) -> Iterator[str]:
    machines = sum(demand.machines for demand in wanted.demands)
    if facts.routes is not None and machines > facts.routes:
        yield (
            f"{wanted.path}: there can be {machines} machines, each with a route of its own, and a route table has "
            f"{facts.routes} at most: lower max_nodes, or ask AWS for more (up to 1000; vpc, {ROUTES_QUOTA})"
        )
    for network in facts.vpc or ():
        if network.overlaps(wanted.network):
            yield (
                f"{wanted.path}.given.vpc: {wanted.vpc} has the addresses {network}, which the cluster's network "
                f"{wanted.network} overlaps: write another network"
            )
    if wanted.vpc is not None and facts.vpc == ():
        yield f"{wanted.path}.given.vpc: the region {wanted.region} has no {wanted.vpc}"
    if facts.subnet_zones is None:
        return
    for zone, subnet in (wanted.subnets or {}).items():
        there = facts.subnet_zones.get(subnet)
        if there is None:
            yield f"{wanted.path}.given.subnets.{zone}: {wanted.vpc} has no {subnet}"
        elif there != zone:
            yield f"{wanted.path}.given.subnets.{zone}: {subnet} is in {there}; write it there"


def _others(markets: frozenset[str]) -> str:
    return " or ".join(sorted(markets)) or "another type"
