"""Plans of a fleet's slots: to be made, made anew, given other features, or forgotten. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidepool.clients.slurm import Node, NodeFlag
from tidepool.cluster.hostlist import expand, fold
from tidepool.resources.slurm import SlotsModel


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """Names of slots by what is done to them, in the order of the fields."""

    forget: tuple[str, ...] = ()
    make: tuple[str, ...] = ()
    give_features: tuple[str, ...] = ()


def plan(addresses: Mapping[str, str], shape: SlotsModel, there: Mapping[str, Node]) -> SlotPlan:
    """Plan what makes all of ``addresses`` (by names, in order) slots of that shape, or nodes in service.

    A slot of another shape is forgotten and made anew; a node in service stays as it is, but for its features.
    """
    forget, make, give_features = [], [], []
    for name, address in addresses.items():
        node = there.get(name)
        if node is None:
            make.append(name)
        elif node.state.is_slot and not (_is_slot_of(shape, node) and node.address == address):
            forget.append(name)
            make.append(name)
        elif set(node.features) != set(shape.features):
            give_features.append(name)
    return SlotPlan(tuple(forget), tuple(make), tuple(give_features))


def forgettable(names: Iterable[str], there: Mapping[str, Node]) -> tuple[str, ...]:
    """Return the names of slots."""
    return tuple(name for name in names if name in there and there[name].state.is_slot)


def moved(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """The names that have another address: Slurm does not follow them."""
    return tuple(name for name, address in after.items() if before.get(name, address) != address)


def paired(names: Sequence[str], addresses: Collection[str]) -> dict[str, str]:
    """Addresses by names."""
    return dict(zip(names, addresses, strict=True))


def in_order(names: Iterable[str]) -> str:
    """A hostlist of ``names`` that keeps their order, for names and addresses are paired by it."""
    listed = list(names)
    folded = fold(listed)
    return folded if expand(folded) == listed else ",".join(listed)


def _is_slot_of(shape: SlotsModel, node: Node) -> bool:
    """Return whether the slot has it, whatever its features are."""
    is_cloud = NodeFlag.CLOUD in node.state.flags
    return is_cloud == (shape.state == "CLOUD") and (
        node.cpus,
        node.sockets,
        node.cores_per_socket,
        node.threads_per_core,
        node.memory_mib,
        _gres(node.gres),
    ) == (
        shape.cpus,
        shape.sockets,
        shape.cores_per_socket,
        shape.threads_per_core,
        shape.memory_mib,
        _gres(shape.gres),
    )


def _gres(written: str) -> frozenset[str]:
    # Slurm adds which sockets they are near: gpu:a100:2(S:0-1).
    return frozenset(each.partition("(")[0] for each in written.split(",") if each)
