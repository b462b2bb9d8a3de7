"""A simulated cluster with converged pools, and the Kubernetes that their machines serve.

Conversions go by the real driver, the real sides and the real journal; only the machines, Slurm and Kubernetes are made of
memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast

from tests.simulation.kubernetes.fake import FakeKubernetes
from tests.simulation.machines import FaultyCluster, FaultyMachines, FaultyStack
from tests.simulation.slurm import FakeSlurm
from tidepool.clients.kubernetes.objects import BootstrapToken
from tidepool.cluster.desired_state import role_set
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.pool import ConvergedPool
from tidepool.cluster.roles import ROLES, Role
from tidepool.cluster.slots import Slot
from tidepool.cluster.spec import ClusterSpec
from tidepool.conversion.convert import Parties, convert
from tidepool.conversion.journal import Journal
from tidepool.conversion.kubernetes_side import KubernetesSide
from tidepool.conversion.ports import ConversionError, Refused
from tidepool.conversion.record import Conversion, Order
from tidepool.conversion.slurm_side import SlurmSide
from tidepool.infrastructures import MachineKey
from tidepool.scaling.cluster_state import RecordedRole
from tidepool.scaling.observe.kubernetes_watch import AtOnce, KubernetesWatch
from tidepool.scaling.observe.observe import PoolDoors
from tidepool.scaling.ports import Failure, StackError, StackOutputs, UpOutcome
from tidepool.simulation.cluster import START, Speeds
from tidepool.simulation.machines import MachineRequest
from tidepool.simulation.simulated_time import Clock
from tidepool.simulation.stack import UnderWay

#: How long slurmd takes from its start until it registers.
_SLURMD_S: Final = 0.3


@dataclass(slots=True)
class PoolMachine:
    """One machine: which roles' services run on it."""

    name: str
    pool: ConvergedPool
    clock: Clock
    slurm: FakeSlurm
    kubernetes: FakeKubernetes
    labels: FrozenDict[str, str]
    running: set[Role] = field(default_factory=set)
    token: str = ""
    starts: int = 0

    def roles(self) -> frozenset[Role]:
        return frozenset(self.running)

    def take(self, role: Role) -> frozenset[Role]:
        self.running.add(role)
        self.starts += 1
        if role == "slurm":
            start = self.starts
            self.clock.after(_SLURMD_S, lambda: self._register(start))
            return self.roles()
        shape = self.pool.shape
        self.kubernetes.start_kubelet(
            self.name, self.token, labels=self.labels, cpus=shape.cpus, memory_mib=shape.memory_mib
        )
        return self.roles()

    def lose(self, role: Role) -> frozenset[Role]:
        self.running.discard(role)
        self.starts += 1
        if role == "slurm":
            self.slurm.unplug(self.name)
        else:
            self.kubernetes.stop_kubelet(self.name)
            self.kubernetes.wipe(self.name)
        return self.roles()

    def can_image(self) -> bool:
        return False

    def imaged(self) -> frozenset[Role]:
        return frozenset(ROLES)

    def image(self, role: Role) -> None:
        raise Refused("it has one image for both roles")

    def left_behind(self, role: Role) -> tuple[str, ...]:
        return ()

    def hand_over(self, token: BootstrapToken) -> None:
        """Return what its kubelet is to ask with."""
        self.token = token.text

    def _register(self, start: int) -> None:
        if "slurm" in self.running and self.starts == start:
            self.slurm.boot(self.name)


class SimulatedPools:
    """All machines of the pools of ``spec``, which begin as ``serving`` says, by node name.

    ``folder`` is where the journal of conversions is. ``dead`` are drivers that were killed.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        clock: Clock,
        slurm: FakeSlurm,
        machines: FaultyMachines,
        folder: Path,
        serving: dict[str, Role],
    ) -> None:
        self.kubernetes = FakeKubernetes(lambda: clock.true)
        self.dead: set[str] = set()
        self._spec = spec
        self._clock = clock
        self._slurm = slurm
        self._path = folder / "conversions.db"
        self.journal = self.open_journal()
        self.machines: dict[str, PoolMachine] = {}
        for pool in spec.pools:
            for slot in pool.slots():
                role = serving[slot.node_name]
                machines.fake.create(_request(spec.name, slot, pool))
                self.machines[slot.node_name] = self._begun(slot.node_name, pool, role)

    def open_journal(self) -> Journal:
        """As each process has it for itself."""
        return Journal(
            self._path, now=lambda: self._clock.true, dead=self.dead.__contains__, power_safe=False
        )

    def give(self, name: str, to: Role, wait: Callable[[float], None]) -> tuple[Role | None, str]:
        """Return what the provider does with a Role: the role that the machine has then, and why it has not ``to``.

        ``wait`` lets time go by; what it raises is a kill of whoever drives the conversion.
        """
        machine = self.machines[name]
        parties = Parties(
            machine, {"slurm": self._slurm_side(name), "kubernetes": self._kubernetes_side(machine)}
        )
        journal = _Driven(self.journal)
        try:
            conversion = self.journal.under_way(name)
            if conversion is None:
                if machine.roles() == {to} and parties.sides[to].see() == "serving":
                    return to, ""
                leaves = next(iter(machine.roles()), None)
                pool = machine.pool
                order = Order(
                    name, pool.name, to, self._clock.true, "up", "the stack's program says so",
                    deadline_s=pool.deadline_s, at_deadline=pool.at_deadline,
                )  # fmt: skip
                conversion = self.journal.order(order, leaves)
            ended = convert(
                conversion,
                parties,
                cast("Journal", journal),
                now=lambda: self._clock.true,
                wait=wait,
                told=lambda _: None,
            )
        except ConversionError as error:
            return next(iter(machine.roles()), None), str(error)
        except BaseException:
            self.dead |= journal.drivers
            raise
        return _came(ended, to)

    def gives_work(self, name: str) -> set[Role]:
        """Return which sides would give the machine work now, in truth: never both."""
        found: set[Role] = set()
        node = self._slurm.look(name)
        if node is not None and node.state.takes_jobs:
            found.add("slurm")
        if any(each.name == name and each.takes_pods for each in self.kubernetes.all_nodes()):
            found.add("kubernetes")
        return found

    def _begun(self, name: str, pool: ConvergedPool, role: Role) -> PoolMachine:
        side_labels = FrozenDict(
            {"tidepool/pool": pool.name, "tidepool/stack": self._spec.name, **pool.labels}
        )
        machine = PoolMachine(name, pool, self._clock, self._slurm, self.kubernetes, side_labels)
        machine.running.add(role)
        if role == "slurm":
            self._slurm.boot(name)
        else:
            shape = pool.shape
            self.kubernetes.add_node(name, labels=side_labels, cpus=shape.cpus, memory_mib=shape.memory_mib)
        return machine

    def _slurm_side(self, name: str) -> SlurmSide:
        return SlurmSide(self._slurm, name, lambda: self._clock.true)

    def _kubernetes_side(self, machine: PoolMachine) -> KubernetesSide:
        return KubernetesSide(
            self.kubernetes,
            machine.name,
            machine.pool.name,
            self._spec.name,
            machine.hand_over,
            machine.pool.labels,
            lambda: self._clock.true,
        )


class _Driven:
    """The journal of a driver, whose names are known: who is killed is known to be dead."""

    def __init__(self, journal: Journal) -> None:
        self.drivers: set[str] = set()
        self._journal = journal

    def take_over(self, id: int, driver: str, now: Any, lasting_s: float) -> bool:
        self.drivers.add(driver)
        return self._journal.take_over(id, driver, now, lasting_s)

    def let_go(self, id: int, driver: str) -> None:
        if not self.drivers:
            return
        self._journal.let_go(id, driver)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)


def _came(ended: Conversion, to: Role) -> tuple[Role | None, str]:
    match ended.phase:
        case "done":
            return ended.order.to, "" if ended.order.to == to else ended.text
        case "stopped":
            return ended.leaves, ended.text or "it was given up"
        case _:
            return None, ended.text or "it failed"


def _request(stack: str, slot: Slot, pool: ConvergedPool) -> MachineRequest:
    shape = pool.shape
    return MachineRequest(
        MachineKey(stack, slot.node_name), slot.address, shape.cpus, shape.memory_mib, "sha256:1", pool.name
    )


class PoolStack(FaultyStack):
    """A stack whose operations also give machines of ``pools`` their roles: ``roles``, by node name, are the recorded ones."""

    pools: SimulatedPools
    roles: dict[str, RecordedRole]

    def read(self) -> StackOutputs:
        return replace(super().read(), roles=dict(self.roles))

    def convert(
        self, kubernetes: Mapping[str, HostSet], nodes: Collection[str], *, refresh: Collection[str] = ()
    ) -> UpOutcome:
        self._refuse_now()
        self._refuse(kubernetes)
        with self._operation() as operation:
            for node in sorted(nodes):
                to: Role = "kubernetes" if any(node in hosts for hosts in kubernetes.values()) else "slurm"
                self._give(operation, node, to)
        return self._outcome(operation)

    def _refuse(self, kubernetes: Mapping[str, HostSet]) -> None:
        """Fail as the program does with roles that cannot be."""
        for name, hosts in kubernetes.items():
            pool = self.spec.pool(name)
            served = (
                slot.node_name for slot in pool.slots() if self.roles[slot.node_name].role == "kubernetes"
            )
            try:
                role_set(pool, desired=str(hosts), last=str(HostSet.from_names(served)))
            except ValueError as error:
                raise StackError(str(error)) from error

    def _give(self, operation: UnderWay, node: str, to: Role) -> None:
        before = self.roles[node]
        self.roles[node] = replace(before, pending=True)
        self._version += 1
        role, failure = self.pools.give(node, to, lambda seconds: self._pass_time(lambda: False, seconds))
        # One that has no role is recorded as what it was, and as half-made.
        self.roles[node] = RecordedRole(role or before.role, machine=True, pending=role is None)
        self._version += 1
        if failure:
            operation.failed[node] = Failure("boot" if role is None else "transient", failure)
        else:
            operation.made.add(node)


class PoolCluster(FaultyCluster):
    """A simulated cluster with converged pools.

    ``folder`` is where the journal of their conversions is. Their machines serve Slurm at first, but for as many of the last
    ones as `kubernetes_min` asks for.
    """

    stack: PoolStack
    _stack_type = PoolStack

    def __init__(
        self, spec: ClusterSpec, folder: Path, *, start: datetime = START, speeds: Speeds | None = None
    ) -> None:
        super().__init__(spec, start=start, speeds=speeds or Speeds())
        serving: dict[str, Role] = {}
        for pool in spec.pools:
            self.declare(pool)
            serving |= role_set(pool)
        self.pools = SimulatedPools(spec, self.clock, self.slurm, self.machines, folder, serving)
        self.stack.pools = self.pools
        self.stack.roles = {name: RecordedRole(role, machine=True) for name, role in serving.items()}

    def pool_doors(self) -> PoolDoors:
        watch = KubernetesWatch(lambda _: self.pools.kubernetes, AtOnce(), self.clock.monotonic_s)
        return PoolDoors(watch, self.pools.open_journal)

    def _next_moment(self) -> datetime | None:
        moments = (super()._next_moment(), self.pools.kubernetes.next_moment())
        return min((moment for moment in moments if moment is not None), default=None)

    def _happen(self, moment: datetime) -> None:
        of_kubernetes = self.pools.kubernetes.next_moment()
        self.clock.advance(moment)
        if of_kubernetes is not None and of_kubernetes <= self.clock.true:
            self.pools.kubernetes.settle()
            self.wake()
        super()._happen(moment)
