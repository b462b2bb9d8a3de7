"""The limit that a job breaks which fits no fleet, in words."""

from __future__ import annotations

from collections.abc import Sequence

from tidepool.scaling.decide.demand.ask import Ask
from tidepool.scaling.decide.demand.fit import least, most_tasks
from tidepool.scaling.decide.demand.offer import Offer


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
