"""The share of one node that goes to a job, counted as Slurm counts it, and how many tasks of a job a node can take."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from tidepool.scaling.decide.demand.ask import Ask
from tidepool.scaling.decide.demand.offer import Offer


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
        """Return whether ``resources`` is enough."""
        if self.cpus > resources.cpus or self.memory_mib > resources.memory_mib:
            return False
        return not self.gres or self._gres_times(resources.gres, 1) > 0

    def times_in(self, resources: FreeResources) -> int:
        """Return how many such needs ``resources`` is enough for."""
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
    gres = _gres(ask, offer, tasks, nodes)
    if gres is None:
        return None
    if ask.sole == "job":
        return Need(offer.cpus, offer.memory_mib, gres)
    cpus = _cpus(ask, offer, tasks)
    return Need(cpus, memory_mib(ask, offer, cpus), gres)


def memory_mib(ask: Ask, offer: Offer, cpus: int) -> int:
    """Return what memory goes with ``cpus`` on a node of the fleet."""
    if not offer.counts_memory:
        return 0
    if ask.memory_per_cpu_mib:
        return ask.memory_per_cpu_mib * cpus
    return ask.memory_per_node_mib or offer.memory_mib


def least(ask: Ask, offer: Offer) -> tuple[int, int]:
    """CPUs and MiB of one task on a node of its own, whether the fleet has gres for it or not."""
    cpus = _cpus(ask, offer, 1)
    return cpus, memory_mib(ask, offer, cpus)


def most_tasks(ask: Ask, offer: Offer, nodes: int) -> int:
    """Return how many tasks of a job of ``nodes`` nodes an empty node of the fleet takes; 0 where it takes none."""
    most = min(ask.tasks_per_node or ask.tasks, ask.tasks, offer.cpus // ask.cpus_per_task)
    resources = empty(offer)

    def fit(tasks: int) -> bool:
        asked = need(ask, offer, tasks, nodes)
        # What an exclusive job asks for counts too, though it gets all of the node.
        cpus = _cpus(ask, offer, tasks)
        return (
            asked is not None and asked.fits(resources) and memory_mib(ask, offer, cpus) <= offer.memory_mib
        )

    return bisect_left(range(1, most + 1), True, key=lambda tasks: not fit(tasks))


def _cpus(ask: Ask, offer: Offer, tasks: int) -> int:
    """Return what Slurm takes for so many tasks of a node: whole cores, where it gives those out."""
    cpus = max(tasks * ask.cpus_per_task, ask.min_cpus_per_node)
    if not offer.whole_cores:
        return cpus
    used = min(ask.threads_per_core or offer.threads_per_core, offer.threads_per_core)
    return -(-cpus // used) * offer.threads_per_core


def _gres(ask: Ask, offer: Offer, tasks: int, nodes: int) -> tuple[tuple[tuple[int, ...], int], ...] | None:
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
