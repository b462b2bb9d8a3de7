"""Capacity for runs side by side on this machine: what each may use at most, and which may begin. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tidepool.cluster.fleet import Fleet
from tidepool.cluster.spec import ClusterSpec
from tidepool.runs.workload import Workload

#: The infrastructure whose machines are this one's.
_HERE: Final = "local"


@dataclass(frozen=True, slots=True)
class Capacity:
    """Processors and memory: of a machine, or those that a run may use at most."""

    cpus: int
    memory_mib: int

    def __add__(self, other: Capacity) -> Capacity:
        return Capacity(self.cpus + other.cpus, self.memory_mib + other.memory_mib)

    def holds(self, other: Capacity) -> bool:
        return self.cpus >= other.cpus and self.memory_mib >= other.memory_mib


NONE: Final = Capacity(0, 0)


def needed_capacity(workload: Workload, spec: ClusterSpec) -> Capacity:
    """Return what a run may use of this machine at most: all nodes that its jobs can have at once, and the cluster's own machines.

    Of the own ones the memory is counted alone: they have little to do while jobs run. Machines elsewhere take no room here.
    """
    wanted = sum(job.size * max(job.nodes, job.tasks, 1) for job in workload.jobs)
    found = Capacity(0, sum(_own_memory_mib(spec)))
    for fleet in spec.fleets:
        nodes = min(_most_here(fleet), max(fleet.min_nodes, wanted))
        found += Capacity(nodes * fleet.shape.cpus, nodes * fleet.shape.memory_mib)
    for pool in spec.pools:
        if spec.pool_infrastructure(pool) == _HERE:
            found += Capacity(pool.machines * pool.shape.cpus, pool.machines * pool.shape.memory_mib)
    return found


def _own_memory_mib(spec: ClusterSpec) -> Iterable[int]:
    controller = spec.controller
    if controller.infrastructure.name == _HERE:
        yield controller.shape.memory_mib * (1 + controller.backup + controller.login_machines)
        if controller.own_accounting is not None:
            yield controller.own_accounting.shape.memory_mib


def _most_here(fleet: Fleet) -> int:
    return min(
        fleet.max_nodes, sum(fleet.most_nodes(each) for each in fleet.infrastructures if each.name == _HERE)
    )


def may_begin(
    waiting: Sequence[Capacity], running: Sequence[Capacity], machine: Capacity, at_once: int = 0
) -> int:
    """Count how many of those that wait, from the first, may begin beside those that run.

    None begins before one that waited longer. One alone always may, whatever it needs. With ``at_once`` a person says how many
    there may be, and room is not asked.
    """
    if at_once:
        return max(0, min(len(waiting), at_once - len(running)))
    used, begun = sum(running, NONE), 0
    for need in waiting:
        if (running or begun) and not machine.holds(used + need):
            break
        used, begun = used + need, begun + 1
    return begun
