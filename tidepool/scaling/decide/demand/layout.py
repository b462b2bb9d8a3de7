"""Layouts of a job's nodes: how many, of which fleets, and what each of them gives; or why there is none, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

from tidepool.clients.slurm.scontrol import Partition, PartitionState
from tidepool.cluster.hostlist import HostlistError, HostSet
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.demand.constraint import CannotTell, Constraint, parse
from tidepool.scaling.decide.demand.fit import Ask, Need, Offer, least, most_tasks, need, offers, preferred


def without_features(features: str, partition: str, offered: Sequence[Offer]) -> str:
    """Explain that no fleet has the features of a job's constraint."""
    known = ", ".join(sorted({feature for offer in offered for feature in offer.features}))
    return f"asks for the features {features}; no fleet of partition {partition} has them, there are {known}"


def too_large(ask: Ask, nodes: int, partition: str, offered: Sequence[Offer]) -> str:
    """Explain that fleets have the features, and not the size or the number. ``offered`` are those."""
    if not offered:
        return f"partition {partition} has no fleets"
    tasks = 1 if ask.spreads else -(-ask.tasks // nodes)
    one = ask._replace(cpus_per_task=ask.cpus_per_task * tasks)
    least_of = [(least(one, offer), offer) for offer in offered]
    among = f"partition {partition}"
    if all(cpus > offer.cpus for (cpus, _), offer in least_of):
        most = max(offer.cpus for offer in offered)
        asked = min(cpus for (cpus, _), _ in least_of)
        return f"asks for {asked} CPUs on a node; {_largest(most, [o for o in offered if o.cpus == most], among)}"
    if all(mib > offer.memory_mib for (_, mib), offer in least_of):
        most = max(offer.memory_mib for offer in offered)
        asked = min(mib for (_, mib), _ in least_of)
        largest = _largest(most, [o for o in offered if o.memory_mib == most], among)
        return f"asks for {asked} MiB of memory on a node; {largest} MiB"
    for name, type, count in _gres_on_a_node(ask, tasks, nodes):
        counts = [sum(offer.gres[place] for place in offer.kinds_of(name, type)) for offer in offered]
        if all(count > there for there in counts):
            kind = f"{name}:{type}" if type else name
            most = max(counts)
            if not most:
                return f"asks for {kind}; no fleet of {among} that it can use has any"
            of_most = [offer for offer, there in zip(offered, counts, strict=True) if there == most]
            return f"asks for {count} {kind} on a node; {_largest(most, of_most, among)}"
    fit = [offer for offer in offered if most_tasks(ask, offer, nodes) >= tasks]
    if fit:
        most = sum(offer.max_nodes for offer in fit)
        wanted = nodes
        if ask.spreads:
            wanted = min(max(nodes, -(-ask.tasks // most_tasks(ask, offer, nodes))) for offer in fit)
        names = ", ".join(offer.fleet for offer in fit)
        if wanted > most:
            return f"asks for {wanted} nodes; {among} can have {most} of the kind ({names}: max_nodes)"
        return f"asks for {wanted} nodes of kinds that {among} cannot have together ({names}: max_nodes)"
    return f"asks for more on a node than any fleet of {among} has together: {_in_words(ask, offered, nodes)}"


def _largest(most: int, offered: Sequence[Offer], among: str) -> str:
    names = [offer.fleet for offer in offered]
    return f"the largest of {among} {'is' if len(names) == 1 else 'are'} {', '.join(names)}, with {most}"


def _gres_on_a_node(ask: Ask, tasks: int, nodes: int) -> list[tuple[str, str, int]]:
    return [
        *ask.gres_per_node,
        *((name, type, count * tasks) for name, type, count in ask.gres_per_task),
        *ask.gres_per_socket,
        # Of a number for the whole job, one on a node is enough where it may take more nodes.
        *((name, type, 1 if nodes == 1 else -(-count // nodes)) for name, type, count in ask.gres_per_job),
    ]


def _in_words(ask: Ask, offered: Sequence[Offer], nodes: int) -> str:
    cpus, mib = least(ask, offered[0])
    gres = [
        f"{count} {f'{name}:{type}' if type else name}"
        for name, type, count in _gres_on_a_node(ask, 1, nodes)
    ]
    memory = "all memory" if not (ask.memory_per_node_mib or ask.memory_per_cpu_mib) else f"{mib} MiB"
    return ", ".join([f"{cpus} CPUs", memory, *gres])


class Part(NamedTuple):
    """So many nodes; each of one of these fleets, in order of preference, and gives what stands beside it.

    ``names`` are nodes that have to be among them.
    """

    nodes: int
    needs: tuple[tuple[str, Need], ...]
    names: tuple[str, ...] = ()


class Layout(NamedTuple):
    """All nodes of a job. ``in_a_row``: their slots follow one another."""

    parts: tuple[Part, ...]
    partition: str
    sole: str = ""
    in_a_row: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no layout. ``never``: no node of this cluster would do; ``held``: Slurm would not start it now."""

    standing: Literal["never", "held"]
    reason: str


@dataclass(frozen=True, slots=True)
class Queues:
    """The partitions, as the spec has them and as Slurm shows them, and what their fleets offer."""

    offers: Mapping[str, Offer]
    #: By partition: its fleets, in order of preference.
    fleets: Mapping[str, tuple[str, ...]]
    seen: Mapping[str, Partition]

    @classmethod
    def of(cls, state: ClusterState) -> Queues:
        spec = state.spec
        return cls(
            offers(spec),
            {partition.name: preferred(spec, partition) for partition in spec.partitions},
            {partition.name: partition for partition in state.partitions},
        )


class Layouts:
    """The ways in which jobs' nodes can look. What was found is kept: many asks differ in their time limits alone."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._found: dict[Ask, tuple[Layout, ...] | Refusal] = {}

    def of(self, ask: Ask) -> tuple[Layout, ...] | Refusal:
        """Return the layouts of a job, the preferred one first; or why there is none."""
        closed = {name: _closed(ask, name, self._queues) for name in ask.partitions}
        refusals = [refusal for refusal in closed.values() if refusal is not None]
        if open := tuple(name for name, refusal in closed.items() if refusal is None):
            ask = ask._replace(partitions=open, time_limit_s=None, account="")
            found = self._found.get(ask)
            if found is None:
                found = self._found[ask] = _layouts(ask, self._queues)
            if not isinstance(found, Refusal):
                return found
            refusals.append(found)
        never = all(refusal.standing == "never" for refusal in refusals)
        reasons = dict.fromkeys(refusal.reason for refusal in refusals if never or refusal.standing == "held")
        return Refusal("never" if never else "held", "; ".join(reasons))


def _layouts(ask: Ask, queues: Queues) -> tuple[Layout, ...] | Refusal:
    if ask.reservation:
        return Refusal("held", f"it runs on the nodes of its reservation {ask.reservation}, and on no others")
    if ask.tmp_disk_mib:
        return Refusal("never", f"asks for {ask.tmp_disk_mib} MiB of temporary disk; no fleet declares any")
    try:
        constraint = parse(ask.features)
        required = tuple(HostSet(ask.required_nodes)) if ask.required_nodes else ()
    except (CannotTell, HostlistError) as fault:
        return Refusal("held", f"cannot tell what it needs: {fault}")
    found = tuple(
        layout
        for partition in ask.partitions
        for layout in _in_partition(ask, constraint, required, partition, queues)
    )
    if found:
        return found
    reasons = (_why_never(ask, constraint, required, name, queues) for name in ask.partitions)
    return Refusal("never", "; ".join(dict.fromkeys(reasons)))


def _closed(ask: Ask, name: str, queues: Queues) -> Refusal | None:
    """Why a partition takes no such job, however many nodes it has."""
    if name not in queues.fleets:
        return Refusal("never", f"its partition {name} is not in the cluster's spec")
    seen = queues.seen.get(name)
    if seen is None:
        return None
    if seen.state is not PartitionState.UP:
        return Refusal("held", f"its partition {name} is {seen.state}; an administrator can set it UP")
    limit = ask.time_limit_s
    if limit is not None and seen.max_time_s is not None and limit > seen.max_time_s:
        return Refusal(
            "never", f"asks for {_time(limit)}; partition {name} allows at most {_time(seen.max_time_s)}"
        )
    if seen.max_nodes is not None and ask.nodes > seen.max_nodes:
        return Refusal(
            "never",
            f"asks for {ask.nodes} nodes; partition {name} allows at most {seen.max_nodes} (MaxNodes)",
        )
    return None


def _in_partition(
    ask: Ask, constraint: Constraint, required: Sequence[str], name: str, queues: Queues
) -> Iterator[Layout]:
    fleets = queues.fleets[name]
    offered = queues.offers
    seen = queues.seen.get(name)
    sole = "job" if seen is not None and seen.oversubscribe.startswith("EXCLUSIVE") else ask.sole
    if sole != ask.sole:
        ask = ask._replace(sole=sole)
    nodes = max(ask.nodes, constraint.least_nodes, len(required))
    for choice in constraint.choices(nodes, {fleet: offered[fleet].features for fleet in fleets}):
        if len(choice) == 1:
            ways = _plain(ask, nodes, [offered[fleet] for fleet in choice[0][1]])
        else:
            tasks = -(-ask.tasks // nodes)
            ways = [
                tuple(
                    Part(count, _needs(ask, [offered[fleet] for fleet in those], tasks, nodes))
                    for count, those in choice
                )
            ]
        for parts in ways:
            if required:
                parts = _with_names(parts, required)
            if parts and all(_is_possible(part, offered) for part in parts):
                yield Layout(parts, name, sole, ask.contiguous)


def _plain(ask: Ask, nodes: int, offered: Sequence[Offer]) -> Iterable[tuple[Part, ...]]:
    """Return the layouts where all nodes must have the same."""
    if not ask.spreads:
        return [_even(ask, nodes, offered)]
    spread = [(size, offer) for offer in offered if (size := _spread(ask, nodes, offer)) is not None]
    return [
        _filled(ask, count, most, [offer for _, offer in group])
        for (count, most), group in groupby(spread, key=lambda each: each[0])
    ]


def _even(ask: Ask, nodes: int, offered: Sequence[Offer]) -> tuple[Part, ...]:
    tasks, more = divmod(ask.tasks, nodes)
    counts = [(more, tasks + 1), (nodes - more, tasks)]
    return tuple(Part(count, _needs(ask, offered, each, nodes)) for count, each in counts if count)


def _spread(ask: Ask, nodes: int, offer: Offer) -> tuple[int, int] | None:
    """Return how many nodes of the fleet it takes when none is to be more than needed, and the tasks on each."""
    for name, type, count in ask.gres_per_job:
        on_a_node = sum(offer.gres[place] for place in offer.kinds_of(name, type))
        nodes = max(nodes, -(-count // on_a_node) if on_a_node else 1)
    most = most_tasks(ask, offer, nodes)
    if not most:
        return None
    return max(nodes, -(-ask.tasks // most)), most


def _filled(ask: Ask, nodes: int, most: int, offered: Sequence[Offer]) -> tuple[Part, ...]:
    """Full nodes, and one with what is left; or, where there are nodes enough for all tasks, as many on each."""
    full, rest = divmod(ask.tasks, most)
    if full + bool(rest) != nodes or nodes == 1:
        return _even(ask._replace(tasks=max(ask.tasks, nodes)), nodes, offered)
    counts = [(full, most), (1, rest)] if rest else [(full, most)]
    return tuple(Part(count, _needs(ask, offered, each, nodes)) for count, each in counts if count)


def _needs(ask: Ask, offered: Iterable[Offer], tasks: int, nodes: int) -> tuple[tuple[str, Need], ...]:
    found = []
    for offer in offered:
        if most_tasks(ask, offer, nodes) >= tasks:
            asked = need(ask, offer, tasks, nodes)
            if asked is not None:
                found.append((offer.fleet, asked))
    return tuple(found)


def _is_possible(part: Part, offered: Mapping[str, Offer]) -> bool:
    return bool(part.needs) and part.nodes <= sum(offered[fleet].max_nodes for fleet, _ in part.needs)


def _with_names(parts: tuple[Part, ...], required: Sequence[str]) -> tuple[Part, ...]:
    """With the nodes that a job names in its first part, the largest; none where they are not of its fleets."""
    first, *others = parts
    of_fleets = {fleet for fleet, _ in first.needs}
    if len(required) > first.nodes or not all(name.rpartition("-")[0] in of_fleets for name in required):
        return ()
    return (first._replace(names=tuple(required)), *others)


def _why_never(ask: Ask, constraint: Constraint, required: Sequence[str], name: str, queues: Queues) -> str:
    offered = [queues.offers[fleet] for fleet in queues.fleets[name]]
    nodes = max(ask.nodes, constraint.least_nodes, len(required))
    choices = list(constraint.choices(nodes, {offer.fleet: offer.features for offer in offered}))
    fleets = {fleet for choice in choices for _, those in choice for fleet in those}
    if ask.features and not any(all(those for _, those in choice) for choice in choices):
        return without_features(ask.features, name, offered)
    featured = [offer for offer in offered if offer.fleet in fleets]
    if strangers := [each for each in required if each.rpartition("-")[0] not in fleets]:
        return f"asks for the node {strangers[0]}, which is none of partition {name} that it can use"
    return too_large(ask, nodes, name, featured)


def _time(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    days, hours = divmod(hours, 24)
    clock = f"{hours:02}:{rest // 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock
