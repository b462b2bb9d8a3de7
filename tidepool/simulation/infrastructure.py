"""An infrastructure in memory, with the promises of `contract` and all the faults that real ones have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures.machines import Machine, MachineKey, MachineRequest


@dataclass(frozen=True, slots=True)
class _Made:
    machine: Machine
    seen_from: datetime
    registers_at: datetime | None


class FakeInfrastructure:
    """Machines in memory. ``now`` is the clock; nothing happens by itself but that time goes by.

    What may be set at any time:

    - ``boot_s``: how long a machine takes from its creation until its slurmd registers.
    - ``unseen_s``: how long a machine that was made is not seen.
    - ``stock``: how many more machines there are; with half of what is asked for, half of it is granted.
    - ``quota``: how many there may be at once.

    `registered` tells which machines Slurm would know of, for `tidepool.simulation.slurm.fake` to boot them. ``calls`` counts
    what was asked.
    """

    def __init__(
        self,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        boot_s: float = 0,
        unseen_s: float = 0,
        stock: int | None = None,
        quota: int | None = None,
    ) -> None:
        self.boot_s = boot_s
        self.unseen_s = unseen_s
        self.stock = stock
        self.quota = quota
        self.calls: dict[str, int] = {"create": 0, "read": 0, "list": 0, "delete": 0}
        self._now = now
        self._made: dict[MachineKey, _Made] = {}
        self._dead: dict[MachineKey, _Made] = {}
        self._next_id = 1
        self._mute: set[str] = set()
        self._kept: set[str] = set()
        self._failures: list[InfrastructureError] = []
        self._lost_answers = 0

    # Faults

    def fail(self, *errors: InfrastructureError) -> None:
        """The next calls end with these errors, and do nothing."""
        self._failures.extend(errors)

    def lose_answers(self, count: int = 1) -> None:
        """The next machines that are made are made, and whoever asked is told of a time-out."""
        self._lost_answers += count

    def mute(self, *nodes: str) -> None:
        """Machines of these names boot from now on, and never register."""
        self._mute.update(nodes)

    def unmute(self, *nodes: str) -> None:
        """Machines of these names register again when they boot."""
        self._mute.difference_update(nodes)

    def keep(self, *nodes: str) -> None:
        """Machines of these names are not deleted, until `release`."""
        self._kept.update(nodes)

    def release(self, *nodes: str) -> None:
        """Machines of these names may be deleted again."""
        self._kept.difference_update(nodes)

    def stop(self, key: MachineKey) -> None:
        """Pull its plug: it keeps its disk, and nothing runs."""
        made = self._made[key]
        self._made[key] = replace(made, machine=replace(made.machine, state="stopped"), registers_at=None)

    def vanish(self, key: MachineKey) -> None:
        """It is gone from outside, and nobody was asked."""
        self._dead[key] = self._made.pop(key)

    def return_from_the_dead(self, key: MachineKey) -> None:
        """One that was deleted or had vanished runs again, whatever has its name by now."""
        self._made[key] = self._dead.pop(key)

    def haunt(self, old: MachineKey, like: MachineKey) -> None:
        """One of another generation, of which nothing was known here, runs beside ``like``."""
        made = self._made[like]
        machine = replace(made.machine, key=old, machine_id=f"machine-{self._next_id}")
        self._next_id += 1
        self._made[old] = replace(made, machine=machine, registers_at=None)

    def forget_failures(self) -> None:
        """Calls do not fail any more."""
        self._failures.clear()

    # What can be seen from elsewhere

    def registered(self) -> tuple[Machine, ...]:
        """Those that run and whose slurmd has registered by now, by key."""
        now = self._now()
        return tuple(
            made.machine
            for _, made in sorted(self._made.items())
            if made.registers_at is not None and made.registers_at <= now
        )

    def known(self, key: MachineKey) -> Machine | None:
        """The machine as it is in truth, seen or not."""
        made = self._made.get(key)
        return made.machine if made is not None else None

    def is_mute(self, node: str) -> bool:
        """Whether machines of this name never register."""
        return node in self._mute

    # The contract

    def create(self, request: MachineRequest) -> Machine:
        self._begin("create")
        key = request.key
        there = self._made.get(key)
        if there is not None and there.machine.state == "running":
            return there.machine
        others = [
            each for each in self._made if each.node == key.node and each.stack == key.stack and each != key
        ]
        if others:
            raise Permanent(f"{key} cannot be made: {others[0]} is there; delete it first")
        if there is None:
            self._take_one_from_the_stock(key)
        now = self._now()
        machine = replace(there.machine, state="running") if there else self._new(request)
        self._made[key] = _Made(
            machine,
            seen_from=there.seen_from if there else now + timedelta(seconds=self.unseen_s),
            registers_at=None if key.node in self._mute else now + timedelta(seconds=self.boot_s),
        )
        if self._lost_answers:
            self._lost_answers -= 1
            raise Transient(f"{key}: no answer within the time limit")
        return machine

    def read(self, key: MachineKey) -> Machine | None:
        self._begin("read")
        made = self._made.get(key)
        return made.machine if made is not None and self._is_seen(made) else None

    def list(self, stack: str) -> tuple[Machine, ...]:
        self._begin("list")
        now = self._now()
        seen = (
            made.machine for key, made in self._made.items() if key.stack == stack and made.seen_from <= now
        )
        return tuple(sorted(seen, key=_by_key))

    def delete(self, key: MachineKey) -> None:
        self._begin("delete")
        if key not in self._made:
            return
        if key.node in self._kept:
            raise Permanent(f"{key} is protected from deletion")
        self._dead[key] = self._made.pop(key)

    def _begin(self, call: str) -> None:
        self.calls[call] += 1
        if self._failures:
            raise self._failures.pop(0)

    def _is_seen(self, made: _Made) -> bool:
        return made.seen_from <= self._now()

    def _take_one_from_the_stock(self, key: MachineKey) -> None:
        if self.quota is not None and len(self._made) >= self.quota:
            raise InsufficientCapacity(f"{key}: the quota of {self.quota} machines is reached")
        if self.stock is not None:
            if self.stock <= 0:
                raise InsufficientCapacity(f"{key}: there is no such machine to be had now")
            self.stock -= 1

    def _new(self, request: MachineRequest) -> Machine:
        machine_id = f"machine-{self._next_id}"
        self._next_id += 1
        return Machine(machine_id, request.key, request.address, "running")


def _by_key(machine: Machine) -> tuple[str, str, int]:
    return machine.key.stack, machine.key.node, machine.key.generation
