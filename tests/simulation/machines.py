"""A simulated cluster whose machines stop, vanish, come back, and are not answered for, and whose daemons are killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from tests.simulation.infrastructure import FakeInfrastructure
from tests.simulation.journal import FaultyJournal
from tests.simulation.slurm import FakeSlurm
from tidepool.clients.slurm import Node, SlurmClient
from tidepool.cluster.failures import Transient
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures import Infrastructure, Machine, MachineKey
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.daemon.loop import Loop
from tidepool.scaling.daemon.operations import Dependencies
from tidepool.scaling.decide.pools.leave import PERSONS_STAY
from tidepool.scaling.decide.pools.machine_status import ABANDONED_AFTER
from tidepool.scaling.decide.pools.pod_queue import OWN_MACHINE_AFTER
from tidepool.scaling.decide.remember import fleet_of
from tidepool.scaling.decision import Decision
from tidepool.scaling.memory import Memory
from tidepool.scaling.observe.account_watch import AccountWatch
from tidepool.scaling.observe.observe import Observer, PoolDoors
from tidepool.scaling.ports import (
    Failure,
    LeaderJournal,
    Stack,
    StackError,
    StackOutputs,
    UpOutcome,
)
from tidepool.simulation.cluster import (
    LEASE_S,
    START,
    Daemon,
    InSimulatedTime,
    SimulatedCluster,
    Speeds,
    price,
)
from tidepool.simulation.machines import Bill, MachineRequest, SimulatedMachines
from tidepool.simulation.simulated_time import Clock, Pacing
from tidepool.simulation.stack import SimulatedStack, UnderWay


class Killed(BaseException):
    """The daemon was killed. No `Exception`: nobody catches what ends a process."""


class Cut(BaseException):
    """The engine was killed. No `Exception`: nobody catches what ends a process."""


class FaultyMachines(SimulatedMachines):
    """Machines of `FakeInfrastructure`, whose faults they have.

    Nodes in ``short`` register with less than they should have, and by it with what Slurm says then. ``watch`` is told of every
    machine that is deleted, before it is.
    """

    def __init__(
        self, clock: Clock, slurm: FakeSlurm, boot_s: Callable[[str], float], prices: Mapping[str, float]
    ) -> None:
        super().__init__(clock, slurm, boot_s, prices)
        self._slurm: FakeSlurm = slurm
        self.fake = FakeInfrastructure(lambda: clock.true)
        #: In clusters on several infrastructures: by name, each of them.
        self.fakes: dict[str, FakeInfrastructure] = {}
        #: Those of them that answer nobody who looks.
        self.silent: set[str] = set()
        self.short: dict[str, str] = {}
        self.watch: Callable[[MachineKey], None] = lambda _: None

    # The contract

    def create(self, request: MachineRequest) -> Machine:
        before = self.known(request.key)
        try:
            return self._at(request.key).create(request)
        finally:
            after = self.known(request.key)
            if (
                after is not None
                and after.state == "running"
                and (before is None or before.state != "running")
            ):
                self._starts(after.key)

    def read(self, key: MachineKey) -> Machine | None:
        return self._at(key).read(key)

    def list(self, stack: str) -> tuple[Machine, ...]:
        return tuple(machine for fake in (self.fake, *self.fakes.values()) for machine in fake.list(stack))

    def by_name(self) -> Mapping[str, Infrastructure]:
        """Each infrastructure as it is asked itself, for one of several."""
        return {name: _Side(self, name) for name in self.fakes}

    def known(self, key: MachineKey) -> Machine | None:
        """The machine as it is in truth, seen or not."""
        return self._at(key).known(key)

    def delete(self, key: MachineKey) -> None:
        self.watch(key)
        known = self.known(key)
        self._at(key).delete(key)
        if known is not None:
            self._ends(known.key)

    def suspend(self, key: MachineKey) -> None:
        known = self.known(key)
        self._at(key).suspend(key)
        if known is not None and known.state == "running":
            self._ends(known.key)

    def resume(self, key: MachineKey) -> None:
        known = self.known(key)
        assert known is not None, key
        self._at(key).resume(key)
        self._goes_on(known)

    # What happens to machines

    def lose_memory(self, key: MachineKey) -> None:
        """What was saved of one that is suspended is gone."""
        self._at(key).lose_memory(self._last(key))

    def stop(self, key: MachineKey) -> None:
        """Pull its plug."""
        key = self._last(key)
        self._at(key).stop(key)
        self._ends(key)

    def vanish(self, key: MachineKey) -> None:
        """It is gone from outside."""
        key = self._last(key)
        self._at(key).vanish(key)
        self._ends(key)

    def return_from_the_dead(self, key: MachineKey) -> None:
        """One that was deleted or had vanished runs again."""
        self._starts(self._at(key).return_from_the_dead(key))

    def haunt(self, old: MachineKey, like: MachineKey) -> None:
        """Another machine of the node of ``old`` runs beside ``like``; its slurmd is not let in."""
        self._since[self._at(like).haunt(old, like)] = self._clock.true

    def set_price(self, fleet: str, usd_per_hour: float) -> None:
        """From now on the machines of a fleet cost so much."""
        self.settle()
        self._prices[fleet] = usd_per_hour
        self.bills.setdefault(fleet, Bill())

    # Inside

    def _last(self, key: MachineKey) -> MachineKey:
        """Return the key, with its id, of the last machine that ``key`` matches."""
        known = self.known(key)
        assert known is not None, key
        return known.key

    def _at(self, key: MachineKey) -> FakeInfrastructure:
        if not key.infrastructure:
            return self.fake
        if key.infrastructure not in self.fakes:
            self.fakes[key.infrastructure] = FakeInfrastructure(lambda: self._clock.true)
        return self.fakes[key.infrastructure]

    def _registers(self, key: MachineKey) -> None:
        if self._at(key).is_mute(key.node):
            return
        if key.node in self.short:
            self._slurm.register_short(key.node, self.short[key.node])
        else:
            super()._registers(key)


class _Side:
    """The machines of one infrastructure, which knows nothing of others."""

    def __init__(self, machines: FaultyMachines, name: str) -> None:
        self._machines, self._name = machines, name

    def read(self, key: MachineKey) -> Machine | None:
        found = self._machines.read(replace(key, infrastructure=self._name))
        return _plain(found) if found is not None else None

    def list(self, stack: str) -> tuple[Machine, ...]:
        if self._name in self._machines.silent:
            raise Transient(f"{self._name} does not answer")
        return tuple(_plain(machine) for machine in self._machines.fakes[self._name].list(stack))

    def delete(self, key: MachineKey) -> None:
        self._machines.delete(replace(key, infrastructure=self._name))


def _plain(machine: Machine) -> Machine:
    return replace(machine, key=replace(machine.key, infrastructure=""))


class FaultyStack(SimulatedStack):
    """`SimulatedStack` with faults.

    ``locked``: somebody's operation is under way. ``unreadable``: its state cannot be read. ``failing``: operations end before
    they begin. After `lose` the state is older than the world. `cut` is kill -9 of the engine, `kill_provider` of the provider.
    """

    locked = False
    unreadable = ""
    failing = ""
    _is_cut = False
    _provider_died = False

    def bring_up(self, spec: ClusterSpec) -> None:
        """A person has brought up another spec; which nodes there are is left as it is."""
        self.spec = spec
        self.images = {fleet.name: self.images.get(fleet.name, "sha256:1") for fleet in spec.fleets}
        self._version += 1

    def cut(self) -> None:
        """The engine is killed: its operation stops where it is, and the state says what was pending."""
        self._is_cut = True

    def kill_provider(self) -> None:
        """The provider is killed: what it was at fails, and the state says that it is pending."""
        self._provider_died = True

    def lose(self, node: str) -> None:
        """The state was put back to what it was before this node was made."""
        self.recorded.pop(node, None)
        self._version += 1

    def is_busy(self) -> bool:
        return self.locked or super().is_busy()

    def read(self) -> StackOutputs:
        if self.unreadable:
            raise StackError(self.unreadable)
        return super().read()

    def _refuse_now(self) -> None:
        super()._refuse_now()
        if self.failing:
            raise StackError(self.failing)

    @contextmanager
    def _operation(self) -> Iterator[UnderWay]:
        self._is_cut = self._provider_died = False
        with super()._operation() as operation:
            yield operation

    def _pass_time(self, done: Callable[[], bool], most_s: float) -> None:
        super()._pass_time(lambda: self._is_cut or done(), most_s)
        if self._is_cut:
            raise Cut("the engine was killed")

    def _none_is_left(self, operation: UnderWay) -> bool:
        if self._provider_died:
            # What came of them nobody knows, and the state says so.
            died = Failure("transient", "the provider died while it was at work")
            operation.failed |= dict.fromkeys(operation.making, died)
            operation.making.clear()
        return super()._none_is_left(operation)

    def _node(self, name: str) -> Node | None:
        """The node in truth, whether slurmctld answers or not: who waits for it asks until it does."""
        assert isinstance(self._slurm, FakeSlurm)
        return super()._node(name) if self._slurm.controller == "up" else None


class PoolPacing(Pacing):
    """Poll intervals of a daemon that has converged pools as well."""

    def moments(self, spec: ClusterSpec, decision: Decision, now: datetime) -> Iterator[datetime]:
        yield from super().moments(spec, decision, now)
        yield from _of_pools(spec, decision)


def _of_pools(spec: ClusterSpec, decision: Decision) -> Iterator[datetime]:
    """Yield when a machine of a pool may move, or is moved again."""
    memory = decision.memory.pools
    pools = {pool.name: pool for pool in spec.pools}
    for name, since in memory.idle_since.items():
        if pool := pools.get(fleet_of(name)):
            yield since + timedelta(seconds=pool.idle_s)
    for view in decision.machines.values():
        if view.since is not None and (pool := pools.get(view.pool)):
            yield view.since + timedelta(seconds=pool.minimum_stay_s)
            yield view.since + PERSONS_STAY
    yield from (backoff.until for backoff in memory.backoffs.values())
    yield from (moving.until for moving in memory.moving.values())
    yield from (since + ABANDONED_AFTER for since in memory.abandoned.values())
    yield from (since + OWN_MACHINE_AFTER for since in memory.has_room_since.values())


class FaultyDaemon(Daemon):
    """A daemon that can be stopped (SIGSTOP), and that is made anew when it was killed, as a supervisor would."""

    def __init__(self, cluster: SimulatedCluster, make: Callable[[], Loop]) -> None:
        super().__init__(cluster, make)
        self.stopped = False
        self.deaths = 0
        self._make = make
        self._pacing = PoolPacing(cluster.speeds.look, cluster.speeds.latest, echoes=cluster.speeds.echoes)

    @property
    def can_look(self) -> bool:
        return not self.stopped and super().can_look

    def look(self) -> None:
        """Take a turn; a daemon that is killed in it begins anew from the journal."""
        try:
            super().look()
        except Killed:
            self.kill()

    def kill(self) -> None:
        """Kill it between two looks. What it had started goes on, if it is a process of its own."""
        self.deaths += 1
        self.scaler = self._make()
        self.wake()


class _Executor(InSimulatedTime):
    """Tells whoever asks for the result that the engine was killed."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        def runs() -> Any:
            try:
                return fn(*args, **kwargs)
            except Cut as cut:
                raise RuntimeError(str(cut)) from cut

        return super().submit(runs)


class FaultyCluster(SimulatedCluster):
    """`SimulatedCluster` with faults. `watch` is called after everything that happens."""

    slurm: FakeSlurm
    machines: FaultyMachines
    stack: FaultyStack
    journal: FaultyJournal
    _slurm_type = FakeSlurm
    _machines_type = FaultyMachines
    _stack_type = FaultyStack
    _journal_type = FaultyJournal

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        start: datetime = START,
        speeds: Speeds | None = None,
        backfill: bool = True,
        licenses: dict[str, int] | None = None,
    ) -> None:
        super().__init__(spec, start=start, speeds=speeds or Speeds(), backfill=backfill)
        self.slurm.queue.licenses = licenses
        self.executor = _Executor(self)
        self.watch: Callable[[], None] = lambda: None

    def run_scaler(self, make: Callable[[], Loop]) -> FaultyDaemon:
        daemon = FaultyDaemon(self, make)
        self._daemons.append(daemon)
        return daemon

    def bring_up(self, spec: ClusterSpec) -> None:
        """A person brings up another spec: slots are added, prices and limits are others."""
        for fleet in spec.fleets:
            self.declare(fleet)
            self.machines.set_price(fleet.name, price(fleet))
        self.stack.bring_up(spec)
        self.wake()

    def _happen(self, moment: datetime) -> None:
        super()._happen(moment)
        self.watch()

    def pool_doors(self) -> PoolDoors | None:
        """Return the ways to what serves converged pools, for one daemon; none where there are no pools."""
        return None


def faulty_scaler(
    cluster: FaultyCluster,
    *,
    decide: Callable[[ClusterState, Memory], Decision],
    remember: Callable[[Memory, UpOutcome, datetime], Memory],
    holder: str = "simulated",
    slurm: SlurmClient | None = None,
    stack: Stack | None = None,
    machines: Infrastructure | None = None,
    journal: LeaderJournal | None = None,
    beside: Executor | None = None,
    say: Callable[..., None] = lambda *_, **__: None,
    lease_s: float = LEASE_S,
    accounts: AccountWatch | None = None,
) -> Loop:
    """A daemon that was just started. Its edges are the cluster's, or such as fail in between."""
    found_machines = machines or cluster.machines
    found_stack = stack or cluster.stack
    observer = Observer(
        cluster.stack.name,
        found_stack,
        found_machines,
        lambda _: slurm or cluster.slurm,
        monotonic_s=cluster.clock.monotonic_s,
        pools=cluster.pool_doors(),
        now=cluster.clock,
        accounts=accounts,
    )
    return Loop(
        Dependencies(
            holder=holder,
            journal=journal or cluster.journal,
            observer=observer,
            stack=found_stack,
            machines=found_machines,
            decide=decide,
            remember=remember,
            beside=beside or cluster.executor,
            now=cluster.clock,
            monotonic_s=cluster.clock.monotonic_s,
            say=say,
            lease_s=lease_s,
        )
    )
