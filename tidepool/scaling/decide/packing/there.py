"""Free resources of the nodes that are there or coming: the bins that packing begins with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidepool.clients.slurm import Job, JobState, Node
from tidepool.cluster.hostlist import HostlistError, HostSet
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.demand.ask import Ask, ask_of
from tidepool.scaling.decide.demand.fit import FreeResources, empty, need, taken
from tidepool.scaling.decide.demand.offer import Offer
from tidepool.scaling.decide.packing.bins import DRAINED, LAUNCHING, UP, Kind
from tidepool.scaling.memory import Memory
from tidepool.scaling.phase import Phase

_RANKS = {Phase.IDLE: UP, Phase.BUSY: UP, Phase.DRAINING: DRAINED, Phase.DRAINED: DRAINED}


def there(
    state: ClusterState, memory: Memory, phases: Mapping[str, Phase], offers: Mapping[str, Offer]
) -> Mapping[Kind, Sequence[str]]:
    """The nodes with room by their kind, the lowest names first."""
    nodes = {node.name: node for node in state.nodes}
    sole, gres = _held_by_jobs(state.jobs, nodes, offers)
    generations = _generations(memory)
    found: dict[Kind, list[str]] = {}
    for name, phase in phases.items():
        fleet = name.rpartition("-")[0]
        offer = offers.get(fleet)
        if offer is None:
            continue
        if phase is Phase.LAUNCHING:
            kind = Kind(fleet, LAUNCHING + generations.get(name, 0), True, "", empty(offer))
        elif phase in _RANKS and name in nodes:
            kind = _up(nodes[name], offer, _RANKS[phase], sole.get(name), gres.get(name))
        else:
            continue
        if kind.resources.cpus > 0:
            found.setdefault(kind, []).append(name)
    for names in found.values():
        names.sort(key=_number)
    # The order of what was seen must not matter.
    return dict(sorted(found.items()))


def _number(name: str) -> tuple[int, str]:
    number = name.rpartition("-")[2]
    return (int(number) if number.isdecimal() else 0), name


def _up(node: Node, offer: Offer, rank: int, sole: str | None, gres: tuple[int, ...] | None) -> Kind:
    cpus = node.cpus - node.cpus_alloc
    memory_mib = node.memory_mib - node.memory_alloc_mib if offer.counts_memory else node.memory_mib
    free = _free_gres(node, offer, gres)
    whole = sole is None and cpus == node.cpus and memory_mib == node.memory_mib and free == offer.gres
    resources = FreeResources(0 if sole == "job" else max(cpus, 0), max(memory_mib, 0), free)
    return Kind(offer.fleet, rank, whole, sole or "", resources)


def _free_gres(node: Node, offer: Offer, by_jobs: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return what is left of a node's gres: by what its jobs asked for, and by TRES, where Slurm counts it there."""
    free = offer.gres if by_jobs is None else by_jobs
    for pack, (name, type) in enumerate(offer.gres_kinds):
        counted = node.tres_alloc.get(f"gres/{name}:{type}" if type else f"gres/{name}", "")
        if counted.isdecimal():
            left = max(0, offer.gres[pack] - int(counted))
            free = (*free[:pack], min(free[pack], left), *free[pack + 1 :])
    return free


def _held_by_jobs(
    jobs: Iterable[Job], nodes: Mapping[str, Node], offers: Mapping[str, Offer]
) -> tuple[dict[str, str], dict[str, tuple[int, ...]]]:
    """By node: with whom its jobs share it; and what gres they leave."""
    sole: dict[str, str] = {}
    gres: dict[str, tuple[int, ...]] = {}
    for job in jobs:
        if not job.nodelist or job.state is JobState.PENDING or job.state.has_ended:
            continue
        alone = job.oversubscribe in {"NO", "USER", "MCS"}
        with_gres = job.tres_per_node or job.tres_per_job or job.tres_per_task or job.tres_per_socket
        if not (alone or with_gres):
            continue
        try:
            names = list(HostSet(job.nodelist))
            ask = ask_of(job)
        except (HostlistError, ValueError):
            continue
        for name in names:
            offer = offers.get(name.rpartition("-")[0])
            if offer is None or name not in nodes:
                continue
            if alone:
                sole[name] = ask.sole
            if ask.has_gres:
                gres[name] = _without(gres.get(name, offer.gres), ask, offer, len(names))
    return sole, gres


def _without(free: tuple[int, ...], ask: Ask, offer: Offer, nodes: int) -> tuple[int, ...]:
    asked = need(ask._replace(sole=""), offer, -(-ask.tasks // nodes), nodes)
    left = taken(free, asked.gres) if asked is not None else None
    # More than there is: another shape than the spec's by now. Then there is none left.
    return tuple(0 for _ in free) if left is None else left


def _generations(memory: Memory) -> Mapping[str, int]:
    """By node that is being made: the how manieth time of launching it is of, the oldest being 0."""
    times = {
        since: pack for pack, since in enumerate(sorted({each.since for each in memory.launches.values()}))
    }
    return {name: times[launch.since] for name, launch in memory.launches.items()}
