"""Facts about a region, as AWS tells them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from typing import Any


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
        """Return how many cores it has, of ``threads_per_core`` each."""
        return self.vcpus // self.threads_per_core


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a region and an account. ``types`` are those that were asked for and exist.

    ``prices`` are in US dollars an hour by type, zone and market, of what has none in the spec.
    ``vcpu_quotas`` are by quota's code, ``routes`` of a route table; None where AWS does not say. ``vpc`` are the addresses of
    the VPC that is given, ``subnet_zones`` the zone of each of its subnets.
    """

    types: Mapping[str, TypeFacts]
    vcpu_quotas: Mapping[str, float] = field(default_factory=dict)
    routes: int | None = None
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
