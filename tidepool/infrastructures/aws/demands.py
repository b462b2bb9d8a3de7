"""Demands of a spec on a region of AWS, and what of them the region lacks: pure.

AWS tells most of it only when a machine is launched.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network
from typing import Any, Final

from tidepool.cluster.shape import Shape
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.aws.groups import Groups, pods_at
from tidepool.infrastructures.aws.reading import Claim, Options
from tidepool.infrastructures.finding import gathered


@dataclass(frozen=True, slots=True)
class TypeFacts:
    """An instance type. ``zones`` are those that have it; ``placement`` and ``markets`` what it can be asked for.

    ``efa`` is how many Elastic Fabric Adapters it can have, on ``cards`` network cards.
    """

    name: str
    architectures: frozenset[str]
    vcpus: int
    threads_per_core: int
    memory_mib: int
    gpus: int = 0
    efa: int = 0
    placement: frozenset[str] = frozenset()
    markets: frozenset[str] = frozenset()
    zones: frozenset[str] = frozenset()
    cards: int = 1

    @property
    def cores(self) -> int:
        return self.vcpus // self.threads_per_core


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a region and an account. ``types`` are those that were asked for and exist.

    ``prices`` are in US dollars an hour by type, zone and market, of what has none in the spec.
    ``vcpu_quotas`` are by quota's code, ``routes`` of a route table, ``rules`` of a security group one way; None where AWS does not say. ``vpc`` are the addresses of
    the VPC that is given, ``subnet_zones`` the zone of each of its subnets.
    """

    types: Mapping[str, TypeFacts]
    vcpu_quotas: Mapping[str, float] = field(default_factory=dict)
    routes: int | None = None
    rules: int | None = None
    vpc: tuple[IPv4Network, ...] | None = None
    subnet_zones: Mapping[str, str] | None = None
    prices: Mapping[tuple[str, str, str], float] = field(default_factory=dict)


def type_facts(said: Mapping[str, Any], zones: frozenset[str]) -> TypeFacts:
    """From an entry of DescribeInstanceTypes, and the zones of DescribeInstanceTypeOfferings."""
    cpu, network = said["VCpuInfo"], said.get("NetworkInfo", {})
    return TypeFacts(
        said["InstanceType"],
        frozenset(said["ProcessorInfo"]["SupportedArchitectures"]),
        cpu["DefaultVCpus"],
        cpu.get("DefaultThreadsPerCore", 1),
        said["MemoryInfo"]["SizeInMiB"],
        sum(gpu.get("Count", 0) for gpu in said.get("GpuInfo", {}).get("Gpus", ())),
        network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 1) if network.get("EfaSupported") else 0,
        frozenset(said.get("PlacementGroupInfo", {}).get("SupportedStrategies", ())),
        frozenset(said.get("SupportedUsageClasses", ())),
        zones,
        network.get("MaximumNetworkCards", 1),
    )


#: What AWS calls machines that are as this one.
_ARCHITECTURES: Final = {"aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Demand:
    """Machines of one offering. ``path`` is where a person wrote it, ``machines`` how many there can be."""

    path: str
    instance_type: str
    zone: str
    market: str
    machines: int = field(metadata={"least": 1})
    cpus: int = field(metadata={"least": 1})
    threads_per_core: int = field(metadata={"least": 1})
    memory_mib: int = field(metadata={"least": 1})
    gpus: int = 0
    efa: int = 0
    clustered: bool = False
    price_usd_per_hour: float = 0
    has_pods: bool = False

    @property
    def routes(self) -> int:
        """One to each machine, and where it has pods, one to these."""
        return self.machines * (1 + self.has_pods)

    @property
    def price_path(self) -> str:
        return f"{self.path.partition('.options')[0]}.price_usd_per_hour"


@dataclass(frozen=True, slots=True)
class Demands:
    """All that is asked: ``network`` is where machines have their addresses, each a route.

    ``counted`` says whether the cluster's limits count what machines cost. ``architecture`` is what images are made for, as AWS
    calls it. ``rules`` are how many a security group would have one way, by the key of the spec that they are of. ``pods`` is where pods have
    their addresses, if they have any here.
    """

    region: str
    path: str
    network: IPv4Network
    demands: tuple[Demand, ...]
    vpc: str | None = None
    subnets: Mapping[str, str] | None = None
    counted: bool = False
    architecture: str = "x86_64"
    rules: Mapping[str, int] = field(default_factory=dict)
    pods: IPv4Network | None = None


def architecture() -> str:
    """Return the architecture of images: they are made by this machine, and for machines like it."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def wanted(spec: ClusterSpec, options: Options, architecture: str = "x86_64") -> Demands:
    """When every fleet is as large as it may be."""
    place, controller = options.place, spec.controller
    own = 1 + controller.backup + controller.login_machines
    pools = {pool.name for pool in spec.pools}
    demands = []
    for claim in options.claims:
        if claim.fleet is None:
            demands.append(_demand(options, claim, controller.shape, own))
            if controller.own_accounting:
                demands.append(_demand(options, claim, controller.own_accounting.shape, 1))
        else:
            most = claim.fleet.most_nodes(claim.entry)
            made = _demand(options, claim, claim.fleet.shape, most)
            demands.append(replace(made, has_pods=claim.fleet.name in pools))
    return Demands(
        place.region,
        options.path,
        spec.network,
        tuple(demands),
        place.given.vpc if place.given else None,
        place.given.subnets if place.given else None,
        spec.limits.price_usd_per_hour is not None or spec.limits.budget_usd_per_month is not None,
        architecture,
        Groups.of(spec, place, has_own=options.has_own).sizes(options.path),
        pods_at(spec),
    )


def _demand(options: Options, claim: Claim, shape: Shape, machines: int) -> Demand:
    offering = claim.offering
    return Demand(
        claim.path,
        offering.instance_type,
        options.zone_of(offering),
        offering.market,
        machines,
        shape.cpus,
        shape.threads_per_core,
        shape.memory_mib + offering.overhead_mib,
        sum(gres.count for gres in shape.gres if gres.name == "gpu"),
        offering.efa,
        offering.placement_group is not None,
        claim.entry.price_usd_per_hour,
    )


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
RULES_QUOTA: Final = "L-0EA8095F"
#: Of accounts that asked for no more.
_USUAL_RULES: Final = 60


def quota_of(instance_type: str, market: str) -> str:
    """The code of the quota that a machine of that type counts for; empty where there is none."""
    codes = next(codes for letters, codes in _QUOTAS if instance_type.startswith(letters))
    return codes[market == "spot"]


@gathered
def lacks(facts: Facts, wanted: Demands) -> Iterator[str]:
    """All that is missing, each with where it was asked for and the remedy."""
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
        others = " or ".join(sorted(found.markets)) or "another type"
        yield f"{demand.path}.market: {found.name} is not sold as {demand.market}; write {others}"
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
    routes = sum(demand.routes for demand in wanted.demands)
    if facts.routes is not None and routes > facts.routes:
        whose = "those of pools with another one to their pods, " if routes > machines else ""
        yield (
            f"{wanted.path}: there can be {machines} machines, each with a route of its own, {whose}and a route table has "
            f"{facts.routes} at most: lower max_nodes, or ask AWS for more (up to 1000; vpc, {ROUTES_QUOTA})"
        )
    most = _USUAL_RULES if facts.rules is None else facts.rules
    for key, count in wanted.rules.items():
        if count > most:
            yield (
                f"{key}: a security group would have {count} rules, one for each network and range of ports, and takes {most}: write "
                "fewer and larger ones, or ask AWS for more, `aws service-quotas request-service-quota-increase --service-code vpc "
                f"--quota-code {RULES_QUOTA} --desired-value {count}`"
            )
    for network in facts.vpc or ():
        if network.overlaps(wanted.network):
            yield (
                f"{wanted.path}.given.vpc: {wanted.vpc} has the addresses {network}, which the cluster's network "
                f"{wanted.network} overlaps: write another network"
            )
        if wanted.pods is not None and network.overlaps(wanted.pods):
            yield (
                f"kubernetes.pod_network: {wanted.vpc} of {wanted.path}.given has the addresses {network}, which the pod network "
                f"{wanted.pods} overlaps: write another network"
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
