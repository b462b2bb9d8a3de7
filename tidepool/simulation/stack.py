"""A stack whose operations take simulated time: what Pulumi, its provider and its state would do with nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from tidepool.clients.slurm import Node, NodeBase, NodeFlag, SlurmError
from tidepool.cluster.desired_state import node_placements
from tidepool.cluster.failures import InfrastructureError
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.slots import Slot, fleet_and_number
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures import MachineKey
from tidepool.scaling.cluster_state import Recorded
from tidepool.scaling.ports import Failure, Occupied, StackError, StackOutputs, UpOutcome
from tidepool.simulation.machines import MachineRequest, SimulatedMachines
from tidepool.simulation.simulated_time import Clock
from tidepool.simulation.slurm.fake import SimulatedSlurm

#: The provider's own, by which its drains are known.
LEAVES: Final = "tidepool: leaves the cluster"
_UP: Final = frozenset({NodeBase.IDLE, NodeBase.ALLOCATED, NodeBase.MIXED})
_UNFIT: Final = frozenset({NodeFlag.INVALID_REG, NodeFlag.NOT_RESPONDING})
#: A slurmd whose node was made a slot under it is started again after so long.
_LISTEN_S: Final = 6.0
#: Memory is written for so long.
_SAVE_S: Final = 2.0


@dataclass
class UnderWay:
    """One `up`, by node what is still to come, and what came of it."""

    began: datetime
    making: dict[str, MachineKey] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    failed: dict[str, Failure] = field(default_factory=dict)


class SimulatedStack:
    """`tidepool.scaling.ports.Stack` of fleets. An `up` ends when its simulated time has gone by: ``wait`` lets it.

    ``spec`` is what a person brought up last. ``wait`` lets time go by until its first argument is true, or for so many seconds.
    ``overhead_s`` is how long an `up` takes beside its nodes.
    """

    def __init__(
        self,
        name: str,
        spec: ClusterSpec,
        clock: Clock,
        slurm: SimulatedSlurm,
        machines: SimulatedMachines,
        wait: Callable[[Callable[[], bool], float], None],
        overhead_s: float = 0.5,
    ) -> None:
        self.name = name
        self.spec = spec
        self.images: dict[str, str] = {fleet.name: "sha256:1" for fleet in spec.fleets}
        self.recorded: dict[str, Recorded] = {}
        self.ups = 0
        self._clock = clock
        self._slurm = slurm
        self._machines = machines
        self._wait = wait
        self._overhead_s = overhead_s
        self._fleets: dict[str, HostSet] = {}
        self._suspended: dict[str, HostSet] = {}
        self._version = 0
        self._under_way: UnderWay | None = None

    def is_busy(self) -> bool:
        return self._under_way is not None

    # The port

    def read(self) -> StackOutputs:
        return StackOutputs(
            version=str(self._version),
            spec=self.spec,
            controller={},
            fleets=dict(self._fleets),
            recorded=dict(self.recorded),
            images=dict(self.images),
            suspended=dict(self._suspended),
        )

    def up(
        self,
        desired: Mapping[str, HostSet],
        nodes: Collection[str],
        *,
        locations: Mapping[str, str] = FrozenDict(),
        refresh: Collection[str] = (),
        suspended: Mapping[str, HostSet] = FrozenDict(),
    ) -> UpOutcome:
        self._refuse_now()
        with self._operation() as operation:
            for node in sorted({*nodes, *refresh}):
                fleet = fleet_and_number(node)[0]
                if node in desired.get(fleet, HostSet()):
                    self._make(operation, node, node in refresh, self._location(node, locations))
                elif node in suspended.get(fleet, HostSet()):
                    self._suspend(operation, node)
                else:
                    self._take(operation, node)
            self._await_nodes(operation)
            self._fleets = dict(desired)
            self._suspended = dict(suspended)
        return self._outcome(operation)

    def convert(
        self, kubernetes: Mapping[str, HostSet], nodes: Collection[str], *, refresh: Collection[str] = ()
    ) -> UpOutcome:
        raise StackError("a replay has no converged pools")

    def _refuse_now(self) -> None:
        if self.is_busy():
            raise Occupied("an operation is under way on the stack")

    @contextmanager
    def _operation(self) -> Iterator[UnderWay]:
        """Have an operation under way, which begins when the time that each takes has gone by."""
        self.ups += 1
        self._under_way = UnderWay(began=self._clock.true)
        try:
            self._pass_time(lambda: False, self._overhead_s)
            yield self._under_way
        finally:
            self._under_way = None
            self._version += 1

    def _outcome(self, operation: UnderWay) -> UpOutcome:
        took_s = (self._clock.true - operation.began).total_seconds()
        return UpOutcome(frozenset(operation.made), frozenset(operation.removed), operation.failed, took_s)

    def preview(
        self,
        desired: Mapping[str, HostSet],
        nodes: Collection[str],
        *,
        locations: Mapping[str, str] = FrozenDict(),
        suspended: Mapping[str, HostSet] = FrozenDict(),
    ) -> str:
        return f"{len(nodes)} nodes"

    # Making

    def _location(self, node: str, locations: Mapping[str, str]) -> str:
        """As the program has it: where it was made; else where it is said to be; else where there is room."""
        fleet = self.spec.fleet(fleet_and_number(node)[0])
        if len(fleet.infrastructures) == 1:
            return ""
        known = {name: record.location for name, record in self.recorded.items() if record.location}
        there = [name for name in known if fleet_and_number(name)[0] == fleet.name]
        return node_placements(fleet, [*there, node], {**locations, **known})[node]

    def _key(self, node: str, location: str) -> MachineKey:
        return MachineKey(self.name, node, infrastructure=location.partition("/")[0])

    def _make(self, operation: UnderWay, node: str, refresh: bool, location: str) -> None:
        key = self._key(node, location)
        known = self.recorded.get(node, Recorded())
        is_whole = known.machine and known.membership and not (known.pending or known.is_suspended)
        if is_whole and not (refresh and self._drifted(key)):
            return
        self._record(node, replace(known, pending=True))
        if known.is_suspended and self._resume(operation, node, known):
            return
        try:
            slot = self._slot(node)
            shape = self.spec.fleet(slot.fleet).shape
            runs = self._runs(key)
            made = self._machines.create(
                MachineRequest(
                    key, slot.address, shape.cpus, shape.memory_mib, self.images[slot.fleet], slot.fleet
                )
            )
        except InfrastructureError as error:
            # A machine that was asked for and not answered for is not in the state.
            self._settle(node, replace(known, pending=False))
            operation.failed[node] = Failure(error.cause, str(error))
            return
        except (KeyError, ValueError) as error:
            self._settle(node, replace(known, pending=False))
            operation.failed[node] = Failure("permanent", f"{node} is no node of a fleet: {error}")
            return
        self._record(
            node,
            Recorded(
                machine=True,
                pending=True,
                image=self.images[slot.fleet],
                infrastructure=key.infrastructure,
                location=location,
                machine_id=made.machine_id,
            ),
        )
        operation.making[node] = key
        if runs and self._node(node) is not None and not self._is_up(node):
            self._machines.restart_slurmd(key, _LISTEN_S)

    def _resume(self, operation: UnderWay, node: str, known: Recorded) -> bool:
        """Have a suspended machine go on; False where it has to be made, for it is gone, or of another image."""
        key = replace(self._key(node, known.location), machine_id=known.machine_id)
        if self._machines.known(key) is None:
            return False
        if known.image != self.images[fleet_and_number(node)[0]]:
            self._machines.delete(key)
            return False
        try:
            self._machines.resume(key)
        except InfrastructureError as error:
            self._settle(node, replace(known, pending=False))
            operation.failed[node] = Failure(error.cause, str(error))
            return True
        self._record(node, replace(known, membership=False, is_suspended=False, pending=True))
        operation.making[node] = key
        return True

    def _suspend(self, operation: UnderWay, node: str) -> None:
        known = self.recorded.get(node)
        if known is None:
            return
        key = replace(self._key(node, known.location), machine_id=known.machine_id)
        if known.membership and not known.is_suspended and (refusal := self._retire(key)):
            operation.failed[node] = Failure("transient", refusal)
            return
        self._record(node, replace(known, pending=True))
        try:
            self._machines.suspend(key)
        except InfrastructureError as error:
            self._settle(node, replace(known, pending=False))
            operation.failed[node] = Failure(error.cause, str(error))
            return
        # Who is killed now has written nothing down.
        self._pass_time(lambda: False, _SAVE_S)
        self._record(node, replace(known, membership=True, is_suspended=True, pending=False))
        operation.removed.add(node)

    def _await_nodes(self, operation: UnderWay) -> None:
        if operation.making:
            self._pass_time(lambda: self._none_is_left(operation), self.spec.scaling.boot_timeout_s)
        for node in list(operation.making):
            seen = self._node(node)
            state = "nothing" if seen is None else str(seen.state)
            reason = f" ({seen.reason.text})" if seen is not None and seen.reason else ""
            self._fail(operation, node, f"node {node} is not up: Slurm says it is {state}{reason}")

    def _none_is_left(self, operation: UnderWay) -> bool:
        for node, key in list(operation.making.items()):
            if self._is_up(node):
                self._settle(node, replace(self.recorded[node], membership=True, pending=False))
                operation.made.add(node)
                del operation.making[node]
            elif not self._runs(key):
                self._fail(operation, node, f"node {node} is not up: its machine does not run")
        return not operation.making

    def _fail(self, operation: UnderWay, node: str, text: str) -> None:
        del operation.making[node]
        self._settle(node, replace(self.recorded[node], pending=False))
        operation.failed[node] = Failure("boot", text)

    def _drifted(self, key: MachineKey) -> bool:
        """Return whether a look finds that it is not as it is recorded."""
        node = self._node(key.node)
        if not self._runs(key):
            return True
        if node is None:
            return False
        leaving = node.state.is_draining and node.reason is not None and node.reason.text == LEAVES
        return node.state.is_slot or node.state.base is NodeBase.DOWN or leaving

    def _is_up(self, name: str) -> bool:
        node = self._node(name)
        if node is None or node.state.base not in _UP or node.state.flags & _UNFIT:
            return False
        if node.state.is_draining and node.reason is not None and node.reason.text == LEAVES:
            self._slurm.undrain(name)
        return True

    # Taking away

    def _take(self, operation: UnderWay, node: str) -> None:
        known = self.recorded.get(node)
        if known is None:
            return
        # As Pulumi has it: by its id.
        key = replace(self._key(node, known.location), machine_id=known.machine_id)
        self._record(node, replace(known, pending=True))
        if known.membership and (refusal := self._retire(key)):
            self._settle(node, replace(known, pending=False))
            operation.failed[node] = Failure("transient", refusal)
            return
        self._record(node, replace(known, membership=False, pending=True))
        if known.machine:
            try:
                self._machines.delete(key)
            except InfrastructureError as error:
                self._settle(node, replace(known, membership=False, pending=False))
                operation.failed[node] = Failure(error.cause, str(error))
                return
        self.recorded.pop(node)
        operation.removed.add(node)

    def _retire(self, key: MachineKey) -> str:
        """Make a slot of a node without jobs; why it stays, if it does."""
        name, runs = key.node, self._runs(key)
        try:
            (node,) = self._slurm.nodes(name)
            if node.state.is_slot:
                return ""
            if not runs:
                self._slurm.down(name, LEAVES)
            drained_before = node.state.is_draining
            if runs and not drained_before:
                self._slurm.drain(name, LEAVES)
            (node,) = self._slurm.nodes(name)
            if runs and (node.cpus_alloc or NodeFlag.COMPLETING in node.state.flags):
                if not drained_before:
                    self._slurm.undrain(name)
                ids = ", ".join(map(str, self._slurm.queue.on(name)))
                return f"node {name} runs the jobs {ids}, and stays; wait for their end"
            self._slurm.to_future(name)
        except SlurmError as error:
            ids = ", ".join(map(str, self._slurm.queue.on(name)))
            if runs and ids:
                return f"node {name} runs the jobs {ids}, and its controller does not answer ({error.what})"
        return ""

    # Inside

    def _pass_time(self, done: Callable[[], bool], most_s: float) -> None:
        self._wait(done, most_s)

    def _record(self, node: str, recorded: Recorded) -> None:
        self.recorded[node] = recorded
        self._version += 1

    def _settle(self, node: str, recorded: Recorded) -> None:
        if recorded.machine or recorded.membership:
            self._record(node, recorded)
        else:
            self.recorded.pop(node, None)
            self._version += 1

    def _slot(self, node: str) -> Slot:
        fleet, number = fleet_and_number(node)
        return Slot(fleet, number, self.spec.fleet(fleet).subnet)

    def _runs(self, key: MachineKey) -> bool:
        machine = self._machines.known(key)
        return machine is not None and machine.state == "running"

    def _node(self, name: str) -> Node | None:
        return self._slurm.look(name)
