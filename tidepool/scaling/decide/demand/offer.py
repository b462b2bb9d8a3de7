"""Offers of an empty node of each fleet, and the fleets of a partition in their order of preference.

A converged pool is a fleet to Slurm: what is said of fleets here is said of pools too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.pool import ConvergedPool
from tidepool.cluster.spec import ClusterSpec, Fleet, Partition


@dataclass(frozen=True, slots=True)
class Offer:
    """A fleet, as far as it matters for what fits on its nodes. ``cpus`` are Slurm's CPUs, threads that is."""

    fleet: str
    cpus: int
    threads_per_core: int
    sockets: int
    memory_mib: int
    #: (name, type) of each gres, and how many there are, in the same order. Without a type it is empty.
    gres_kinds: tuple[tuple[str, str], ...]
    gres: tuple[int, ...]
    features: frozenset[str]
    #: How many nodes there can be: of the fleet, where its machines come from, and of the cluster.
    max_nodes: int
    price_usd_per_hour: float
    #: Slurm gives cores out whole, and counts memory.
    whole_cores: bool = True
    counts_memory: bool = True

    #: By (name, type) that a job may ask for, with the type or without: its places in ``gres``.
    places: Mapping[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)

    def kinds_of(self, name: str, type: str = "") -> tuple[int, ...]:
        """The places in ``gres`` of what a job asks for by this name, and this type, if it names one."""
        return self.places.get((name, type), ())


def offers(spec: ClusterSpec) -> Mapping[str, Offer]:
    """By fleet, in the spec's order; and then by pool."""
    selected = next(
        (str(value) for key, value in spec.slurm_conf.items() if key.lower() == "selecttypeparameters"),
        "CR_Core_Memory",
    ).lower()
    kinds: list[Fleet | ConvergedPool] = [*spec.fleets, *spec.pools]
    return {
        each.name: _offer(
            each,
            spec.limits.max_nodes,
            whole_cores="cr_cpu" not in selected,
            counts_memory="memory" in selected,
        )
        for each in kinds
    }


def _offer(
    fleet: Fleet | ConvergedPool, all_nodes: int | None, *, whole_cores: bool, counts_memory: bool
) -> Offer:
    shape = fleet.shape
    kinds = tuple((gres.name, gres.type or "") for gres in shape.gres)
    places: dict[tuple[str, str], tuple[int, ...]] = {}
    for place, (name, type) in enumerate(kinds):
        for asked in dict.fromkeys(((name, type), (name, ""))):
            places[asked] = (*places.get(asked, ()), place)
    limits: tuple[int | None, ...]
    if isinstance(fleet, Fleet):
        everywhere = sum(fleet.most_nodes(entry) for entry in fleet.infrastructures)
        limits = (fleet.max_nodes, everywhere, all_nodes)
        price = fleet.infrastructures[0].price_usd_per_hour
    else:
        limits, price = (fleet.most("slurm"),), 0.0
    return Offer(
        fleet=fleet.name,
        cpus=shape.cpus,
        threads_per_core=shape.threads_per_core,
        sockets=shape.layout[0],
        memory_mib=shape.memory_mib,
        gres_kinds=kinds,
        gres=tuple(gres.count for gres in shape.gres),
        features=frozenset((fleet.name, *fleet.features)),
        max_nodes=min(limit for limit in limits if limit is not None),
        price_usd_per_hour=price,
        whole_cores=whole_cores,
        counts_memory=counts_memory,
        places=FrozenDict(places),
    )


def preferred(spec: ClusterSpec, partition: Partition) -> tuple[str, ...]:
    """The fleets of a partition, the one to launch first first: as a person wrote them, or else by their price.

    Where nobody gave an order, those without gres come first, so that nodes with a GPU are not for jobs without; pools
    come after fleets, for their machines may be wanted elsewhere.
    """
    if partition.fleets is not None:
        return partition.fleets
    places = {fleet.name: place for place, fleet in enumerate(spec.fleets)}

    def rank(fleet: Fleet) -> tuple[int, float, int]:
        price = fleet.infrastructures[0].price_usd_per_hour
        return len(fleet.shape.gres), price, places[fleet.name]

    pools = sorted(spec.pools, key=lambda pool: len(pool.shape.gres))
    return (*(fleet.name for fleet in sorted(spec.fleets, key=rank)), *(pool.name for pool in pools))
