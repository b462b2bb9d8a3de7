"""Machines that boot, register with Slurm, die, and cost money."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from tidepool.infrastructure import FakeInfrastructure, Machine, MachineKey, MachineRequest
from tidepool.scaling.simulation.clock import Clock
from tidepool.slurm.fake import FakeSlurm


@dataclass(slots=True)
class Bill:
    """What a fleet's machines have come to."""

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
        key = request.key
        before = self.fake.known(key)
        try:
            return self.fake.create(request)
        finally:
            after = self.fake.known(key)
            if (
                after is not None
                and after.state == "running"
                and (before is None or before.state != "running")
            ):
                self._starts(key)

    def read(self, key: MachineKey) -> Machine | None:
        return self.fake.read(key)

    def list(self, stack: str) -> tuple[Machine, ...]:
        return self.fake.list(stack)

    def delete(self, key: MachineKey) -> None:
        self.watch(key)
        self.fake.delete(key)
        self._ends(key)

    # What happens to machines

    def stop(self, key: MachineKey) -> None:
        """Pull its plug."""
        self.fake.stop(key)
        self._ends(key)

    def vanish(self, key: MachineKey) -> None:
        """It is gone from outside."""
        self.fake.vanish(key)
        self._ends(key)

    def return_from_the_dead(self, key: MachineKey) -> None:
        """One that was deleted or had vanished runs again."""
        self.fake.return_from_the_dead(key)
        self._starts(key)

    def haunt(self, old: MachineKey, like: MachineKey) -> None:
        """A machine of an earlier generation runs again, beside its successor; its slurmd is not let in."""
        self.fake.haunt(old, like)
        self._since[old] = self._clock.true

    def running(self) -> builtins.list[MachineKey]:
        """Those that run in truth, seen or not."""
        return builtins.list(self._since)

    def restart_slurmd(self, key: MachineKey, seconds: float) -> None:
        """The slurmd of a machine that runs is started again, and registers."""
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

    def _starts(self, key: MachineKey) -> None:
        self._since[key] = self._clock.true
        self._boots[key] = self._boots.get(key, 0) + 1
        self.bills.setdefault(key.fleet, Bill()).made += 1
        self._register_in(key, self._boot_s(key.node))

    def _register_in(self, key: MachineKey, seconds: float) -> None:
        boot = self._boots[key]

        def registers() -> None:
            if self._boots.get(key) != boot or key not in self._since or self.fake.is_mute(key.node):
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
