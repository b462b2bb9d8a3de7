"""Which slots of a fleet are to be made, made anew, given other features, or forgotten. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidepool.clients.slurm import Node, NodeFlag
from tidepool.clients.slurm.request import SlotState
from tidepool.cluster.hostlist import expand, fold


@dataclass(frozen=True, slots=True)
class Shape:
    """What all slots of a fleet have."""

    cpus: int
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    memory_mib: int
    features: tuple[str, ...]
    gres: str
    state: SlotState = "FUTURE"

    def is_slot_of(self, node: Node) -> bool:
        """Whether the slot has it, whatever its features are."""
        is_cloud = NodeFlag.CLOUD in node.state.flags
        return self.is_of(node) and is_cloud == (self.state == "CLOUD")

    def is_of(self, node: Node) -> bool:
        """Whether the node has it, whatever its features are."""
        return (
            node.cpus,
            node.sockets,
            node.cores_per_socket,
            node.threads_per_core,
            node.memory_mib,
            _gres(node.gres),
        ) == (
            self.cpus,
            self.sockets,
            self.cores_per_socket,
            self.threads_per_core,
            self.memory_mib,
            _gres(self.gres),
        )


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """What to do, by names: in the order of the fields."""

    forget: tuple[str, ...] = ()
    make: tuple[str, ...] = ()
    give_features: tuple[str, ...] = ()


def plan(addresses: Mapping[str, str], shape: Shape, there: Mapping[str, Node]) -> SlotPlan:
    """What to do so that all of ``addresses`` (by names, in order) are slots of that shape, or nodes in service.

    A slot of another shape is forgotten and made anew; a node in service stays as it is, but for its features.
    """
    forget, make, give_features = [], [], []
    for name, address in addresses.items():
        node = there.get(name)
        if node is None:
            make.append(name)
        elif node.state.is_slot and not (shape.is_slot_of(node) and node.address == address):
            forget.append(name)
            make.append(name)
        elif set(node.features) != set(shape.features):
            give_features.append(name)
    return SlotPlan(tuple(forget), tuple(make), tuple(give_features))


def forgettable(names: Iterable[str], there: Mapping[str, Node]) -> tuple[str, ...]:
    """Those that are slots."""
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


def _gres(written: str) -> frozenset[str]:
    # Slurm adds which sockets they are near: gpu:a100:2(S:0-1).
    return frozenset(each.partition("(")[0] for each in written.split(",") if each)
