"""Machines that boot, register with Slurm, and cost money."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from ipaddress import IPv4Address

from tidepool.infrastructures import Machine, MachineKey
from tidepool.simulation.simulated_time import Clock
from tidepool.simulation.slurm.fake import SimulatedSlurm


@dataclass(frozen=True, slots=True)
class MachineRequest:
    """A machine that should be there, whose key has no id. ``image`` is a digest, ``boot`` what it does when it boots."""

    key: MachineKey
    address: IPv4Address
    cpus: float
    memory_mib: int
    image: str
    boot: str


@dataclass(slots=True)
class Bill:
    """Costs of a fleet's machines."""

    made: int = 0
    node_s: float = 0
    usd: float = 0


class SimulatedMachines:
    """The machines of all infrastructures, which register with the simulated Slurm when they have booted.

    It makes machines too, which elsewhere only programs do: asked for a node's machine, it gives the one that is there.
    ``prices`` are in US dollars an hour, by fleet. ``boot_s`` tells how long the machine of a node boots.
    """

    def __init__(
        self, clock: Clock, slurm: SimulatedSlurm, boot_s: Callable[[str], float], prices: Mapping[str, float]
    ) -> None:
        #: How long one that was suspended takes until it registers, and how many did.
        self.resume_s = 0.5
        self.resumed = 0
        self.bills: dict[str, Bill] = {fleet: Bill() for fleet in prices}
        self._clock = clock
        self._slurm = slurm
        self._boot_s = boot_s
        self._prices = dict(prices)
        self._made: dict[MachineKey, Machine] = {}
        self._number = 0
        #: Those that run, and since when.
        self._since: dict[MachineKey, datetime] = {}
        self._boots: dict[MachineKey, int] = {}

    # The contract

    def create(self, request: MachineRequest) -> Machine:
        there = self.known(request.key)
        if there is not None:
            return there
        self._number += 1
        key = replace(request.key, machine_id=f"machine-{self._number}")
        self._made[key] = made = Machine(key, request.address, "running")
        self._starts(key)
        return made

    def read(self, key: MachineKey) -> Machine | None:
        return self.known(key)

    def list(self, stack: str) -> tuple[Machine, ...]:
        return tuple(machine for key, machine in sorted(self._made.items()) if key.stack == stack)

    def known(self, key: MachineKey) -> Machine | None:
        """The machine as it is in truth, seen or not."""
        return next((machine for each, machine in self._made.items() if key.matches(each)), None)

    def delete(self, key: MachineKey) -> None:
        for each in [each for each in self._made if key.matches(each)]:
            del self._made[each]
            self._ends(each)

    def suspend(self, key: MachineKey) -> None:
        """Keep its memory, and have it cost nothing. One that does not run stays what it is."""
        known = self.known(key)
        if known is not None and known.state == "running":
            self._made[known.key] = replace(known, state="suspended")
            self._ends(known.key)

    def resume(self, key: MachineKey) -> None:
        """Have it go on from its memory, or boot where there is none."""
        known = self.known(key)
        assert known is not None, key
        self._made[known.key] = replace(known, state="running")
        self._goes_on(known)

    def running(self) -> builtins.list[MachineKey]:
        """Return those that run in truth, seen or not."""
        return builtins.list(self._since)

    def restart_slurmd(self, key: MachineKey, seconds: float) -> None:
        """The slurmd of a machine that runs is started again, and registers."""
        known = self.known(key)
        assert known is not None, key
        key = known.key
        self._boots[key] = self._boots.get(key, 0) + 1
        self._register_in(key, seconds)

    def settle(self) -> None:
        for key, since in self._since.items():
            self._charge(key, since)
            self._since[key] = self._clock.true

    # Inside

    def _starts(self, key: MachineKey) -> None:
        self._since[key] = self._clock.true
        self._boots[key] = self._boots.get(key, 0) + 1
        self.bills.setdefault(key.fleet, Bill()).made += 1
        self._register_in(key, self._boot_s(key.node))

    def _goes_on(self, was: Machine) -> None:
        """Run a machine that was suspended, or stopped."""
        if was.state == "running":
            return
        key = was.key
        self._since[key] = self._clock.true
        self._boots[key] = self._boots.get(key, 0) + 1
        self.resumed += was.state == "suspended"
        seconds = self.resume_s if was.state == "suspended" else self._boot_s(key.node)
        self._register_in(key, seconds)

    def _register_in(self, key: MachineKey, seconds: float) -> None:
        boot = self._boots[key]

        def registers() -> None:
            if self._boots.get(key) == boot and key in self._since:
                self._registers(key)

        self._clock.after(seconds, registers)

    def _registers(self, key: MachineKey) -> None:
        self._slurm.boot(key.node)

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
