"""A simulated cluster whose machines stop, vanish, come back, and are not answered for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tests.simulation.infrastructure import FakeInfrastructure
from tests.simulation.slurm import FakeSlurm
from tidepool.clients.slurm import Node
from tidepool.cluster.failures import Transient
from tidepool.infrastructures import Infrastructure, Machine, MachineKey
from tidepool.scaling.ports import StackError, StackOutputs
from tidepool.simulation.cluster import SimulatedCluster
from tidepool.simulation.machines import MachineRequest, SimulatedMachines
from tidepool.simulation.simulated_time import Clock
from tidepool.simulation.stack import SimulatedStack


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

    # What happens to machines

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
    they begin. After `lose` the state is older than the world.
    """

    locked = False
    unreadable = ""
    failing = ""

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

    def _node(self, name: str) -> Node | None:
        """The node in truth, whether slurmctld answers or not: who waits for it asks until it does."""
        assert isinstance(self._slurm, FakeSlurm)
        return super()._node(name) if self._slurm.controller == "up" else None


class FaultyCluster(SimulatedCluster):
    """`SimulatedCluster` with faults."""

    slurm: FakeSlurm
    machines: FaultyMachines
    stack: FaultyStack
    _slurm_type = FakeSlurm
    _machines_type = FaultyMachines
    _stack_type = FaultyStack
