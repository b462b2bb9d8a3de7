"""Machines that boot, register with Slurm, die, and cost money."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from tidepool.cluster.failures import Transient
from tidepool.infrastructures import Infrastructure, Machine, MachineKey
from tidepool.simulation.infrastructure import FakeInfrastructure, MachineRequest
from tidepool.simulation.simulated_time import Clock
from tidepool.simulation.slurm.fake import FakeSlurm


@dataclass(slots=True)
class Bill:
    """Costs of a fleet's machines."""

    made: int = 0
    node_s: float = 0
    usd: float = 0


class SimulatedMachines:
    """`FakeInfrastructure`, whose machines register with the simulated Slurm when they have booted.

    ``prices`` are in US dollars an hour, by fleet. ``boot_s`` tells how long the machine of a node boots. Nodes in
    ``short`` register with less than they should have, and by it with what Slurm says then. ``watch`` is told of every machine that is deleted, before it
    is.
    """

    def __init__(
        self, clock: Clock, slurm: FakeSlurm, boot_s: Callable[[str], float], prices: Mapping[str, float]
    ) -> None:
        self.fake = FakeInfrastructure(lambda: clock.true)
        #: In clusters on several infrastructures: by name, each of them.
        self.fakes: dict[str, FakeInfrastructure] = {}
        #: Those of them that answer nobody who looks.
        self.silent: set[str] = set()
        self.short: dict[str, str] = {}
        self.bills: dict[str, Bill] = {fleet: Bill() for fleet in prices}
        self.watch: Callable[[MachineKey], None] = lambda _: None
        self._clock = clock
        self._slurm = slurm
        self._boot_s = boot_s
        self._prices = dict(prices)
        self._since: dict[MachineKey, datetime] = {}
        self._boots: dict[MachineKey, int] = {}

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

    def running(self) -> builtins.list[MachineKey]:
        """Return those that run in truth, seen or not."""
        return builtins.list(self._since)

    def restart_slurmd(self, key: MachineKey, seconds: float) -> None:
        """The slurmd of a machine that runs is started again, and registers."""
        key = self._last(key)
        self._boots[key] = self._boots.get(key, 0) + 1
        self._register_in(key, seconds)

    def set_price(self, fleet: str, usd_per_hour: float) -> None:
        """From now on the machines of a fleet cost so much."""
        self.settle()
        self._prices[fleet] = usd_per_hour
        self.bills.setdefault(fleet, Bill())

    def settle(self) -> None:
        """Bring the bills up to date."""
        for key, since in self._since.items():
            self._charge(key, since)
            self._since[key] = self._clock.true

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

    def _starts(self, key: MachineKey) -> None:
        self._since[key] = self._clock.true
        self._boots[key] = self._boots.get(key, 0) + 1
        self.bills.setdefault(key.fleet, Bill()).made += 1
        self._register_in(key, self._boot_s(key.node))

    def _register_in(self, key: MachineKey, seconds: float) -> None:
        boot = self._boots[key]

        def registers() -> None:
            if self._boots.get(key) != boot or key not in self._since or self._at(key).is_mute(key.node):
                return
            if key.node in self.short:
                self._slurm.register_short(key.node, self.short[key.node])
            else:
                self._slurm.boot(key.node)

        self._clock.after(seconds, registers)

    def _ends(self, key: MachineKey) -> None:
        since = self._since.pop(key, None)
        if since is None:
            return
        self._charge(key, since)
        if not any(other.node == key.node for other in self._since):
            self._slurm.unplug(key.node)

    def _charge(self, key: MachineKey, since: datetime) -> None:
        seconds = (self._clock.true - since).total_seconds()
        bill = self.bills.setdefault(key.fleet, Bill())
        bill.node_s += seconds
        bill.usd += seconds / 3600 * self._prices.get(key.fleet, 0)


class _Side:
    """The machines of one infrastructure, which knows nothing of others."""

    def __init__(self, machines: SimulatedMachines, name: str) -> None:
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
