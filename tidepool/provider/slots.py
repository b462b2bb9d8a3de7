"""tidepool:slurm:Slots, and the plan of what is done to them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tidepool.clients.slurm import (
    ControllerDown,
    Node,
    NodeFlag,
    Refused,
    Slots,
    Slurm,
    SlurmError,
    TimedOut,
    Unreachable,
)
from tidepool.cluster.hostlist import HostlistError, count, expand, fold
from tidepool.cluster.slots import fleet_and_number
from tidepool.infrastructures.connection import transport
from tidepool.provider.configuration import CONF, read_files
from tidepool.provider.machines import connection_mistakes
from tidepool.provider.retirement import job_ids, left_behind
from tidepool.provider.slurmctld import Slurmctld
from tidepool.resources.declarations import Slots as Resource
from tidepool.resources.declarations import SlotsModel
from tidepool.resources.kind import AS_KNOWN, Kind, Made, Refusal, Task
from tidepool.resources.reading import Change, Mistake
from tidepool.resources.values import Inputs, Plain

#: Fleets come side by side, and each waits for a slurmctld that is another one than before.
_starting: Final = threading.Lock()


class SlotsKind(Kind[SlotsModel]):
    """Nodes in state FUTURE, or CLOUD."""

    resource = Resource
    timeout_s = 60.0

    def mistakes(self, wanted: SlotsModel) -> Iterable[Mistake]:
        counts = {}
        for key, hostlist in (("names", wanted.names), ("addresses", wanted.addresses)):
            try:
                counts[key] = count(hostlist)
            except HostlistError as error:
                yield Mistake(key, str(error))
        if len(set(counts.values())) == 2:
            yield Mistake(
                "addresses", f"{wanted.addresses} are {counts['addresses']} for {counts['names']} names"
            )
        yield from connection_mistakes({"controller": wanted.controller}, self._home.data)

    def diff(self, old: Inputs, new: Inputs) -> tuple[Change, ...]:
        found = {change.key: change for change in super().diff(old, new)}
        pairs = [_pairs(inputs) for inputs in (old, new)]
        if "addresses" in found and pairs[0] and pairs[1]:
            stay = pairs[0].keys() & pairs[1].keys()
            if moved(*pairs) or not stay:
                found["addresses"] = Change("addresses", replaces=True)
        return tuple(found.values())

    def create(self, wanted: SlotsModel, task: Task) -> Made:
        there = self._settle(wanted, task)
        # Where slurmctld's state is on a file server, it outlives its cluster.
        if lost := left_behind(_addresses(wanted), there):
            self._slurm(wanted).to_future(fold(lost))
        return Made(_fleet(wanted))

    def update(self, id: str, old: SlotsModel, wanted: SlotsModel, task: Task) -> Mapping[str, Plain]:
        there = self._settle(wanted, task)
        names = _addresses(wanted)
        gone = [name for name in expand(old.names) if name not in names]
        if surplus := forgettable(gone, there):
            self._slurm(wanted).delete_nodes(fold(surplus))
        if kept := [name for name in gone if name in there and name not in surplus]:
            task.info(f"{fold(kept)} are in service, and stay until they are removed")
        return {}

    def look(self, id: str, state: SlotsModel) -> Mapping[str, Plain] | None:
        try:
            there = self._nodes(state)
        except (ControllerDown, TimedOut, Unreachable):
            return AS_KNOWN  # what cannot be seen is not gone
        known = _addresses(state)
        present = {name: address for name, address in known.items() if name in there}
        if not present:
            return None
        changed: dict[str, Plain] = {}
        if len(present) < len(known):
            changed |= {"names": in_order(present), "addresses": in_order(present.values())}
        for name in present:
            if set(there[name].features) != set(state.features):
                changed["features"] = list(there[name].features)
                break
        return changed

    def delete(self, id: str, state: SlotsModel, task: Task) -> None:
        slurm = self._slurm(state)
        try:
            there = self._nodes(state)
        except (ControllerDown, TimedOut, Unreachable) as error:
            _leave(state, error, task)
            return
        nodes = [node for name, node in there.items() if name in _addresses(state)]
        if busy := [node.name for node in nodes if node.cpus_alloc]:
            ids = ", ".join(map(str, job_ids(slurm.jobs(), busy)))
            raise Refusal(f"the slots {state.names} cannot go: {fold(busy)} run the jobs {ids}")
        if up := [node.name for node in nodes if not node.state.is_slot]:
            slurm.to_future(fold(up))
        if not nodes:
            return
        try:
            slurm.delete_nodes(fold(node.name for node in nodes))
        except (ControllerDown, TimedOut, Unreachable) as error:
            _leave(state, error, task)
        except Refused as error:
            # NodeName lines go with the configuration.
            task.warn(f"Slurm keeps the slots {state.names}: {error.words}")

    def _settle(self, wanted: SlotsModel, task: Task) -> dict[str, Node]:
        """Make what is missing; gives the nodes that there were."""
        slurm, there = self._slurm(wanted), self._nodes(wanted)
        addresses = _addresses(wanted)
        todo = plan(addresses, wanted, there)
        if todo.forget:
            slurm.delete_nodes(fold(todo.forget))
        if todo.make and wanted.configured:
            self._start_slurmctld(wanted, task)
        elif todo.make:
            slurm.create_slots(_slots(wanted, {name: addresses[name] for name in todo.make}))
        if todo.give_features:
            slurm.set_features(fold(todo.give_features), wanted.features)
        return there

    def _start_slurmctld(self, wanted: SlotsModel, task: Task) -> None:
        """Have slurmctld read its lines: of a node that it has already it keeps what it saved, so that one is forgotten before."""
        host = transport(wanted.controller, self._home.data)
        with _starting:
            slurmctld = Slurmctld.of(host, wanted.controller.get("machine", ""), read_files(host, {CONF}))
            task.info(
                f"slurmctld restarts for the slots {wanted.names}: it reads their lines only then; jobs go on"
            )
            said_before = slurmctld.log_size()
            slurmctld.wait_up(task.deadline, other_than=slurmctld.restart(), said_before=said_before)

    def _nodes(self, wanted: SlotsModel) -> dict[str, Node]:
        return {node.name: node for node in self._slurm(wanted).nodes()}

    def _slurm(self, wanted: SlotsModel) -> Slurm:
        return Slurm(transport(wanted.controller, self._home.data))


def _leave(state: SlotsModel, error: SlurmError, task: Task) -> None:
    # Slots hold nothing: no job is lost with them, and whoever makes them again takes them as they are.
    task.warn(f"the slots {state.names} are left to a controller that does not answer: {error.what}")


def _slots(shape: SlotsModel, addresses: Mapping[str, str]) -> Slots:
    return Slots(
        names=in_order(addresses),
        addresses=in_order(addresses.values()),
        cpus=shape.cpus,
        memory_mib=shape.memory_mib,
        features=tuple(shape.features),
        gres=shape.gres,
        sockets=shape.sockets,
        cores_per_socket=shape.cores_per_socket,
        threads_per_core=shape.threads_per_core,
        state=shape.state,
    )


def _addresses(wanted: SlotsModel) -> dict[str, str]:
    return _paired(wanted.names, wanted.addresses)


def _fleet(wanted: SlotsModel) -> str:
    """The id: it stays when the fleet grows."""
    first = expand(wanted.names)[0]
    try:
        return fleet_and_number(first)[0]
    except ValueError:
        return first


def _paired(names: str, addresses: str) -> dict[str, str]:
    """Return addresses by names, in the order of the hostlists."""
    return dict(zip(expand(names), expand(addresses), strict=True))


def _pairs(inputs: Inputs) -> dict[str, str]:
    names, addresses = inputs.get("names"), inputs.get("addresses")
    if not isinstance(names, str) or not isinstance(addresses, str):
        return {}
    try:
        return _paired(names, addresses)
    except ValueError:
        return {}  # what cannot be read is refused by the check


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
        # Slurm from 23.11 on gives a node that it powered down its name for an address, until it registers again.
        elif node.state.is_slot and not (_is_slot_of(shape, node) and node.address in (address, name)):
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
