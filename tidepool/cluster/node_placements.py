"""Placement of each node of a fleet: on which of the fleet's infrastructures, by that one's key. It stays there for ever."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.spec import Fleet


def node_placements(fleet: Fleet, nodes: Iterable[str], known: Mapping[str, str]) -> dict[str, str]:
    """By node, the key of the infrastructure that its machine is from.

    ``known`` are those that are decided: by the scaler, or because the machine is there. Every other node is where there
    is room by `max_nodes`, the first in the fleet's order.

    Raises:
        ValueError: a node is known to be where the fleet has no infrastructure any more; or there is no room.
    """
    nodes = tuple(nodes)
    found = {node: known[node] for node in nodes if node in known}
    keys = [entry.key for entry in fleet.infrastructures]
    if strange := sorted({key for key in found.values() if key not in keys}):
        there = HostSet.from_names([node for node, key in found.items() if key == strange[0]])
        raise ValueError(
            f"{there} of fleet {fleet.name} is on {strange[0]}, and the fleet's infrastructures are {', '.join(keys)}: nodes "
            f"stay where they were made. Write {strange[0]} there again, last and with max_nodes: 0; when the scaler has "
            "taken its nodes away, leave it out"
        )
    taken = Counter(found.values())
    for node in nodes:
        if node in found:
            continue
        room = (each.key for each in fleet.infrastructures if taken[each.key] < fleet.most_nodes(each))
        key = next(room, None)
        if key is None:
            if len(keys) == 1:
                key = keys[
                    0
                ]  # as a fleet of one infrastructure always had it: its surplus is the scaler's to drain
            else:
                raise ValueError(
                    f"there is no room for {node} on any infrastructure of fleet {fleet.name}: raise max_nodes of one of "
                    f"{', '.join(keys)}, or lower min_nodes"
                )
        found[node] = key
        taken[key] += 1
    return found


def placements_to_json(places: Mapping[str, str]) -> dict[str, str]:
    """By key a hostlist, as outputs and variables tell of them."""
    by_key: defaultdict[str, list[str]] = defaultdict(list)
    for node, key in places.items():
        by_key[key].append(node)
    return {key: str(HostSet.from_names(nodes)) for key, nodes in sorted(by_key.items())}


def read_placements(told: Mapping[str, str]) -> dict[str, str]:
    """By node its key, from what `placements_to_json` gives.

    Raises:
        ValueError: it is not that.
    """
    return {node: key for key, nodes in told.items() for node in HostSet(nodes)}
