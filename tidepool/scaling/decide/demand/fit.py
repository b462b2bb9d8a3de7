"""Requests of jobs, offers of fleets, and how they fit, counted as Slurm counts.

An `Ask` is a job's request in numbers: equal asks are equal values, so that they can be counted. An `Offer` is an empty node
of a fleet; a converged pool is a fleet to Slurm, so what is said of fleets here is said of pools too. A `Need` is the share
of a node that goes to some tasks of a job.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tidepool.clients.slurm import Job
from tidepool.clients.slurm.quantities import memory_mib
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.pool import ConvergedPool
from tidepool.cluster.spec import ClusterSpec, Partition

Gres = tuple[tuple[str, str, int], ...]
"""Name, type (or empty) and count, in order."""


class Ask(NamedTuple):
    """One task of an array, or a job without one.

    ``nodes`` is the least number; ``spreads``: Slurm may take more, and takes as few as its tasks need.
    ``threads_per_core`` is how many threads of a core it uses, and ``tasks_per_node`` the most on a node: 0 where that
    is open. Memory is for each node or for each CPU; where
    both are 0 it takes all memory of its nodes. ``sole`` is empty where it shares nodes with others, ``job`` where it
    does not, else with whom it does (``user:jane``). ``account`` is empty but for accounts with a cap.
    """

    partitions: tuple[str, ...]
    nodes: int
    spreads: bool
    tasks: int
    cpus_per_task: int
    threads_per_core: int
    tasks_per_node: int
    min_cpus_per_node: int
    memory_per_node_mib: int
    memory_per_cpu_mib: int
    gres_per_job: Gres
    gres_per_node: Gres
    gres_per_socket: Gres
    gres_per_task: Gres
    tmp_disk_mib: int
    features: str
    sole: str
    contiguous: bool
    required_nodes: str
    reservation: str
    time_limit_s: int | None
    account: str

    @property
    def has_gres(self) -> bool:
        return bool(self.gres_per_job or self.gres_per_node or self.gres_per_socket or self.gres_per_task)


def ask_of(job: Job, *, account: bool = False) -> Ask:
    """Return the request of a waiting job. ``account`` says whether whose job it is matters."""
    # Where slurmctld has thought of a number of nodes by itself, TRES have the least that was asked for.
    nodes = max(1, int(job.tres.get("node", job.nodes)))
    tasks = max(job.tasks, nodes)
    for_gpus = job.gpus if job.cpus_per_tres or job.memory_per_tres else 0
    cpus = max(job.cpus, for_gpus * int(job.cpus_per_tres.get("gres/gpu", 0)))
    cpus_per_task = max(job.cpus_per_task, -(-cpus // tasks), 1)
    per_node_mib, per_cpu_mib = _memory(job, nodes, for_gpus)
    tasks_per_node = 0
    if job.min_cpus_per_node > cpus_per_task:
        most = job.min_cpus_per_node // cpus_per_task
        # `--ntasks-per-node` shows in both; `--mincpus` alone would not make it so many nodes.
        tasks_per_node = most if -(-tasks // most) == job.nodes else 0
    return Ask(
        partitions=job.partitions,
        nodes=nodes,
        spreads=job.nodes > nodes,
        tasks=tasks,
        cpus_per_task=cpus_per_task,
        threads_per_core=job.threads_per_core or 0,
        tasks_per_node=tasks_per_node,
        min_cpus_per_node=job.min_cpus_per_node,
        memory_per_node_mib=per_node_mib,
        memory_per_cpu_mib=per_cpu_mib,
        gres_per_job=_gres(job.tres_per_job),
        gres_per_node=_gres(job.tres_per_node),
        gres_per_socket=_gres(job.tres_per_socket),
        gres_per_task=_gres(job.tres_per_task),
        tmp_disk_mib=job.tmp_disk_mib,
        features=job.features,
        sole=_sole(job),
        contiguous=job.contiguous and nodes > 1,
        required_nodes=job.required_nodes,
        reservation=job.reservation,
        time_limit_s=job.time_limit_s,
        account=job.account if account else "",
    )


def _sole(job: Job) -> str:
    match job.oversubscribe:
        case "NO":
            return "job"
        case "USER":
            return f"user:{job.user}"
        case "MCS":
            # Whose label it has is not told: it is taken for alone.
            return "job"
        case _:
            return ""


def _memory(job: Job, nodes: int, for_gpus: int) -> tuple[int, int]:
    """MiB for each node, and for each CPU: one of them, or none."""
    if "gres/gpu" in job.memory_per_tres:
        return -(-for_gpus * memory_mib(job.memory_per_tres["gres/gpu"]) // nodes), 0
    per_cpu = job.min_memory_mib * job.cpus
    if job.memory_mib == per_cpu != job.min_memory_mib * nodes:
        return 0, job.min_memory_mib
    return job.min_memory_mib, 0


def _gres(counts: Mapping[str, str]) -> Gres:
    """``{"gres/gpu:a100": "2"}`` is ``(("gpu", "a100", 2),)``."""
    found = []
    for name, count in counts.items():
        if name.startswith("gres/"):
            kind, _, type = name.removeprefix("gres/").partition(":")
            found.append((kind, type, int(count)))
    return tuple(sorted(found))


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


class FreeResources(NamedTuple):
    """Free resources of a node: CPUs, MiB, and each gres in the order of the fleet's `Offer`."""

    cpus: int
    memory_mib: int
    gres: tuple[int, ...] = ()


class Need(NamedTuple):
    """The share of a node for some tasks of a job. ``gres``: so many, of any of the kinds in these places."""

    cpus: int
    memory_mib: int
    gres: tuple[tuple[tuple[int, ...], int], ...] = ()

    def fits(self, resources: FreeResources) -> bool:
        if self.cpus > resources.cpus or self.memory_mib > resources.memory_mib:
            return False
        return not self.gres or self._gres_times(resources.gres, 1) > 0

    def times_in(self, resources: FreeResources) -> int:
        found = resources.cpus // self.cpus
        if self.memory_mib:
            found = min(found, resources.memory_mib // self.memory_mib)
        return self._gres_times(resources.gres, found) if self.gres and found else found

    def _gres_times(self, free: tuple[int, ...], most: int) -> int:
        for places, count in self.gres:
            there = free[places[0]] if len(places) == 1 else sum(free[place] for place in places)
            most = min(most, there // count)
        # Where one kind serves two needs, the sums alone promise too much.
        if len(self.gres) > 1:
            while most and taken(free, self.gres, most) is None:
                most -= 1
        return most

    def from_(self, resources: FreeResources, times: int = 1) -> FreeResources:
        """Return what is left of ``resources``, which is enough."""
        gres = taken(resources.gres, self.gres, times) if self.gres else resources.gres
        assert gres is not None
        return FreeResources(
            resources.cpus - self.cpus * times, resources.memory_mib - self.memory_mib * times, gres
        )


def taken(
    free: Sequence[int], gres: Sequence[tuple[tuple[int, ...], int]], times: int = 1
) -> tuple[int, ...] | None:
    """Return what is left of ``free`` gres when ``gres`` is taken ``times`` times; None where they do not suffice.

    Those that ask for a type come first, so that the others get what is left.
    """
    left = list(free)
    for places, count in sorted(gres, key=lambda asked: len(asked[0])):
        missing = count * times
        for place in places:
            part = min(missing, left[place])
            left[place] -= part
            missing -= part
        if missing:
            return None
    return tuple(left)


def empty(offer: Offer) -> FreeResources:
    """All of a node."""
    return FreeResources(offer.cpus, offer.memory_mib, offer.gres)


def need(ask: Ask, offer: Offer, tasks: int, nodes: int) -> Need | None:
    """Return what a node of the fleet gives to ``tasks`` tasks of a job that has ``nodes`` nodes; None without such gres."""
    gres = _gres_need(ask, offer, tasks, nodes)
    if gres is None:
        return None
    if ask.sole == "job":
        return Need(offer.cpus, offer.memory_mib, gres)
    cpus = _cpus(ask, offer, tasks)
    return Need(cpus, _memory_with(ask, offer, cpus), gres)


def _memory_with(ask: Ask, offer: Offer, cpus: int) -> int:
    """Return what memory goes with ``cpus`` on a node of the fleet."""
    if not offer.counts_memory:
        return 0
    if ask.memory_per_cpu_mib:
        return ask.memory_per_cpu_mib * cpus
    return ask.memory_per_node_mib or offer.memory_mib


def least(ask: Ask, offer: Offer) -> tuple[int, int]:
    """CPUs and MiB of one task on a node of its own, whether the fleet has gres for it or not."""
    cpus = _cpus(ask, offer, 1)
    return cpus, _memory_with(ask, offer, cpus)


def most_tasks(ask: Ask, offer: Offer, nodes: int) -> int:
    """Return how many tasks of a job of ``nodes`` nodes an empty node of the fleet takes; 0 where it takes none."""
    most = min(ask.tasks_per_node or ask.tasks, ask.tasks, offer.cpus // ask.cpus_per_task)
    resources = empty(offer)

    def fit(tasks: int) -> bool:
        asked = need(ask, offer, tasks, nodes)
        # What an exclusive job asks for counts too, though it gets all of the node.
        cpus = _cpus(ask, offer, tasks)
        return (
            asked is not None and asked.fits(resources) and _memory_with(ask, offer, cpus) <= offer.memory_mib
        )

    return bisect_left(range(1, most + 1), True, key=lambda tasks: not fit(tasks))


def _cpus(ask: Ask, offer: Offer, tasks: int) -> int:
    """Return what Slurm takes for so many tasks of a node: whole cores, where it gives those out."""
    cpus = max(tasks * ask.cpus_per_task, ask.min_cpus_per_node)
    if not offer.whole_cores:
        return cpus
    used = min(ask.threads_per_core or offer.threads_per_core, offer.threads_per_core)
    return -(-cpus // used) * offer.threads_per_core


def _gres_need(
    ask: Ask, offer: Offer, tasks: int, nodes: int
) -> tuple[tuple[tuple[int, ...], int], ...] | None:
    if not ask.has_gres:
        return ()
    asked: dict[tuple[int, ...], int] = {}
    # Of how many sockets is not told, so it is of all.
    for gres, factor, parts in (
        (ask.gres_per_node, 1, 1),
        (ask.gres_per_task, tasks, 1),
        (ask.gres_per_socket, offer.sockets, 1),
        (ask.gres_per_job, 1, nodes),
    ):
        for name, type, count in gres:
            if not count:
                continue
            places = offer.kinds_of(name, type)
            if not places:
                return None
            asked[places] = asked.get(places, 0) + -(-count * factor // parts)
    return tuple(asked.items())
