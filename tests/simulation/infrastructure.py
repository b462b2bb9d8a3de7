"""An infrastructure in memory, with the promises of `tidepool.infrastructures.machines` and all the faults that real ones have.

It makes machines too, which elsewhere only programs do: asked for a node's machine, it gives the one that is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures.machines import Machine, MachineKey
from tidepool.simulation.machines import MachineRequest


@dataclass(frozen=True, slots=True)
class _Made:
    machine: Machine
    visible_from: datetime
    registers_at: datetime | None


class FakeInfrastructure:
    """Machines in memory. ``now`` is the clock; nothing happens by itself but that time goes by.

    What may be set at any time:

    - ``boot_s``: how long a machine takes from its creation until its slurmd registers.
    - ``unseen_s``: how long a machine that was made is not seen.
    - ``stock``: how many more machines there are; with half of what is asked for, half of it is granted.
    - ``quota``: how many there may be at once.
    - ``is_full``: no memory can be saved.

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
        self.is_full = False
        self.calls: dict[str, int] = {"create": 0, "read": 0, "list": 0, "delete": 0}
        self._now = now
        #: By keys with ids, in the order in which they were made.
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

    def refuse_deletion(self, *nodes: str) -> None:
        """Machines of these names are not deleted, until `release`."""
        self._kept.update(nodes)

    def release(self, *nodes: str) -> None:
        """Machines of these names may be deleted again."""
        self._kept.difference_update(nodes)

    def stop(self, key: MachineKey) -> None:
        """Pull its plug: it keeps its disk, and nothing runs."""
        key = _last(self._made, key)
        made = self._made[key]
        self._made[key] = replace(made, machine=replace(made.machine, state="stopped"), registers_at=None)

    def lose_memory(self, key: MachineKey) -> None:
        """The memory of one that is suspended is gone from outside."""
        self.stop(key)

    def vanish(self, key: MachineKey) -> None:
        """It is gone from outside, and nobody was asked."""
        key = _last(self._made, key)
        self._dead[key] = self._made.pop(key)

    def end_when_empty(self, key: MachineKey) -> None:
        """Somebody deletes it, and what objects has it wait for its jobs."""
        key = _last(self._made, key)
        made = self._made[key]
        self._made[key] = replace(made, machine=replace(made.machine, is_ending=True))

    def return_from_the_dead(self, key: MachineKey) -> MachineKey:
        """Run one again that was deleted or had vanished, whatever has its name by now; return its key."""
        key = _last(self._dead, key)
        # Its successor is what the next request finds.
        self._made = {key: self._dead.pop(key), **self._made}
        return key

    def haunt(self, old: MachineKey, like: MachineKey) -> MachineKey:
        """Run a machine of the node of ``old``, of which nothing was known here, beside ``like``; return its key."""
        made = self._made[_last(self._made, like)]
        key = self._new_key(old)
        self._made = {
            key: replace(made, machine=replace(made.machine, key=key), registers_at=None),
            **self._made,
        }
        return key

    def clear_failures(self) -> None:
        """Calls do not fail any more."""
        self._failures.clear()

    # What can be seen from elsewhere

    def registered(self) -> tuple[Machine, ...]:
        """Return those that run and whose slurmd has registered by now, by key."""
        now = self._now()
        return tuple(
            made.machine
            for _, made in sorted(self._made.items())
            if made.registers_at is not None and made.registers_at <= now
        )

    def known(self, key: MachineKey) -> Machine | None:
        """The machine as it is in truth, seen or not."""
        made = self._known(key)
        return made.machine if made is not None else None

    def is_mute(self, node: str) -> bool:
        """Return whether machines of this name never register."""
        return node in self._mute

    # The contract

    def create(self, request: MachineRequest) -> Machine:
        self._begin("create")
        there = self._known(request.key)
        if there is not None and there.machine.state == "running":
            return there.machine
        if there is None:
            self._take_one_from_the_stock(request.key)
        now = self._now()
        machine = (
            replace(there.machine, state="running")
            if there
            else Machine(self._new_key(request.key), request.address, "running")
        )
        self._made[machine.key] = _Made(
            machine,
            visible_from=there.visible_from if there else now + timedelta(seconds=self.unseen_s),
            registers_at=None if request.key.node in self._mute else now + timedelta(seconds=self.boot_s),
        )
        if self._lost_answers:
            self._lost_answers -= 1
            raise Transient(f"{request.key}: no answer within the time limit")
        return machine

    def read(self, key: MachineKey) -> Machine | None:
        self._begin("read")
        made = self._known(key)
        return made.machine if made is not None and made.visible_from <= self._now() else None

    def list(self, stack: str) -> tuple[Machine, ...]:
        self._begin("list")
        now = self._now()
        seen = (
            made.machine
            for key, made in self._made.items()
            if key.stack == stack and made.visible_from <= now
        )
        return tuple(sorted(seen, key=lambda machine: machine.key))

    def delete(self, key: MachineKey) -> None:
        self._begin("delete")
        for each in [each for each in self._made if key.matches(each)]:
            if key.node in self._kept:
                raise Permanent(f"{key} is protected from deletion")
            self._dead[each] = self._made.pop(each)

    # Of those that can be suspended

    def suspend(self, key: MachineKey) -> None:
        """Save its memory and stop it; one that does not run stays what it is."""
        key = _last(self._made, key)
        made = self._made[key]
        if made.machine.state != "running":
            return
        if self.is_full:
            raise InsufficientCapacity(f"{key}: no space left on device")
        self._made[key] = replace(made, machine=replace(made.machine, state="suspended"), registers_at=None)

    def resume(self, key: MachineKey) -> None:
        """Have it run, from its memory or anew."""
        key = _last(self._made, key)
        made = self._made[key]
        self._made[key] = replace(made, machine=replace(made.machine, state="running"))

    def _begin(self, call: str) -> None:
        self.calls[call] += 1
        if self._failures:
            raise self._failures.pop(0)

    def _take_one_from_the_stock(self, key: MachineKey) -> None:
        if self.quota is not None and len(self._made) >= self.quota:
            raise InsufficientCapacity(f"{key}: the quota of {self.quota} machines is reached")
        if self.stock is not None:
            if self.stock <= 0:
                raise InsufficientCapacity(f"{key}: there is no such machine to be had now")
            self.stock -= 1

    def _new_key(self, key: MachineKey) -> MachineKey:
        made = replace(key, machine_id=f"machine-{self._next_id}")
        self._next_id += 1
        return made

    def _known(self, key: MachineKey) -> _Made | None:
        return next((made for each, made in reversed(self._made.items()) if key.matches(each)), None)


def _last(made: Mapping[MachineKey, _Made], key: MachineKey) -> MachineKey:
    """Return the key, with its id, of the last that ``key`` matches."""
    return [each for each in made if key.matches(each)][-1]
