"""Demands of a spec on a region, offering by offering: a preflight compares them with what AWS says."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from typing import Final

from tidepool.cluster.shape import Shape
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.aws.reading import Claim, Options

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

    @property
    def price_path(self) -> str:
        """The path at which a person writes what a machine costs."""
        return f"{self.path.partition('.options')[0]}.price_usd_per_hour"


@dataclass(frozen=True, slots=True)
class Demands:
    """All that is asked: ``network`` is where machines have their addresses, each a route.

    ``counted`` says whether the cluster's limits count what machines cost. ``architecture`` is what images are made for, as AWS
    calls it.
    """

    region: str
    path: str
    network: IPv4Network
    demands: tuple[Demand, ...]
    vpc: str | None = None
    subnets: Mapping[str, str] | None = None
    counted: bool = False
    architecture: str = "x86_64"


def architecture() -> str:
    """Return the architecture of images: they are made by this machine, and for machines like it."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def wanted(spec: ClusterSpec, options: Options, architecture: str = "x86_64") -> Demands:
    """When every fleet is as large as it may be."""
    place, controller = options.place, spec.controller
    own = 1 + controller.backup + controller.login_machines
    demands = []
    for claim in options.claims:
        if claim.fleet is None:
            demands.append(_demand(options, claim, controller.shape, own))
            if controller.accounting:
                demands.append(_demand(options, claim, controller.accounting.shape, 1))
        else:
            demands.append(
                _demand(options, claim, claim.fleet.shape, claim.fleet.most_nodes(claim.entry)),
            )
    return Demands(
        place.region,
        options.path,
        spec.network,
        tuple(demands),
        place.given.vpc if place.given else None,
        place.given.subnets if place.given else None,
        spec.limits.price_usd_per_hour is not None or spec.limits.budget_usd_per_month is not None,
        architecture,
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
