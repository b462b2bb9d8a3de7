"""Nodes of a fleet that should be there: a set of names, never a count, for a count removes the wrong node."""

from __future__ import annotations

from tidepool.cluster import addresses
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.slots import Slot, fleet_and_number
from tidepool.cluster.spec import Fleet


def node_set(fleet: Fleet, *, wish: str | None = None, last: str | None = None) -> HostSet:
    """The nodes that a fleet should have.

    Args:
        fleet: the fleet as the spec has it now.
        wish: a hostlist of the scaler's, which is taken as it is; None where no scaler speaks.
        last: a hostlist of those that the stack's outputs tell of, so that a person's `up` undoes no decision of
            the scaler; None where they tell of none. Where it is fewer than `min_nodes`, the first free slots are
            added. Nodes above `max_nodes` stay: they go when they are drained, which is the scaler's to do.

    Raises:
        ValueError: a name is no slot of the fleet, or is wished for anew above `max_nodes`.
    """
    before = HostSet(last or "")
    if wish is not None:
        wished = HostSet(wish)
        slots_of(fleet, wished)
        if surplus := [node for node in wished - before if fleet_and_number(node)[1] > fleet.max_nodes]:
            raise ValueError(
                f"fleet {fleet.name} gets no node {surplus[0]}: its max_nodes is {fleet.max_nodes}"
            )
        return wished
    slots_of(fleet, before)
    free = (slot.node_name for slot in fleet.slots() if slot.node_name not in before)
    missing = max(0, fleet.min_nodes - len(before))
    return before | HostSet.from_names([name for name, _ in zip(free, range(missing), strict=False)])


def slots_of(fleet: Fleet, nodes: HostSet) -> tuple[Slot, ...]:
    """The slots whose nodes are ``nodes``, by number; those above `max_nodes` too, as far as the subnet goes.

    Raises:
        ValueError: one of them is no slot of the fleet; says which are.
    """
    found = []
    for node in nodes:
        try:
            name, number = fleet_and_number(node)
        except ValueError:
            name, number = "", 0
        if name != fleet.name or number > addresses.capacity(fleet.subnet):
            raise ValueError(
                f"{node} is no node of fleet {fleet.name}: its slots are {fleet.name}-[1-{fleet.max_nodes}]; "
                f"raise max_nodes for more, up to the {addresses.capacity(fleet.subnet)} of {fleet.subnet}"
            )
        found.append(Slot(fleet.name, number, fleet.subnet))
    return tuple(sorted(found, key=lambda slot: slot.number))
