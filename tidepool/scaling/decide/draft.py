"""A decision while it is being made: actions, and with each what becomes of the wish and the memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.slots import fleet_and_number
from tidepool.infrastructures import MachineKey
from tidepool.scaling import decision
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide import backoff
from tidepool.scaling.decide.capacity import Room, next_rooms, why_not_first
from tidepool.scaling.decide.observed import OURS
from tidepool.scaling.decide.reconcile import hosts_by_fleet
from tidepool.scaling.decision import (
    Action,
    DeleteOrphan,
    Drain,
    PowerFailed,
    ReleaseSlot,
    Remove,
    Repair,
    Undrain,
)
from tidepool.scaling.memory import Cause, Drained, Launch, Memory, at_location

_Kind = type[Drain] | type[Undrain] | type[Remove] | type[Repair] | type[ReleaseSlot] | type[PowerFailed]

#: In which order actions stand, which is that in which they are taken: jobs are helped before money is saved.
_ORDER: Final[tuple[type[Any], ...]] = (
    PowerFailed,
    Undrain,
    decision.Convert,
    decision.Launch,
    Repair,
    Drain,
    Remove,
    ReleaseSlot,
    DeleteOrphan,
)


_STEPS: Final = 3


class Draft:
    """Begins with what was wished and remembered. Each method is an action on nodes, with its reason."""

    def __init__(self, state: ClusterState, memory: Memory) -> None:
        self.at = state.at
        self._state = state
        self._before = memory
        self._patience = timedelta(seconds=state.spec.scaling.boot_timeout_s)
        self.desired = {name for names in state.desired.values() for name in names}
        self.idle_since: dict[str, datetime] = {}
        self.launches = dict(memory.launches)
        self.drains = dict(memory.drains)
        self.undrained = dict(memory.undrained)
        self.awaited = dict(memory.awaited)
        self.fleet_backoffs = dict(memory.fleet_backoffs)
        self.node_backoffs = dict(memory.node_backoffs)
        #: By node, where it is or is to be, of fleets on several infrastructures; and by fleet what room there is.
        self.locations: dict[str, str] = dict(memory.locations)
        self.rooms: Mapping[str, tuple[Room, ...]] = {}
        self.strays: dict[MachineKey, datetime] = {}
        self.ill_since: dict[str, datetime] = {}
        self.has_room_since: Mapping[int, datetime] = {}
        #: What is launched one after another in one decision is remembered so, by microseconds: growth gives jobs the
        #: nodes that are coming in the order in which they were launched.
        self.step = 0
        #: By node, its fleet: what this decision launches, drains and undrains.
        self.now_launched: dict[str, str] = {}
        self.now_drained: dict[str, str] = {}
        self.now_undrained: dict[str, str] = {}
        self._grouped: defaultdict[tuple[_Kind, str, str], set[str]] = defaultdict(set)
        self._launched: list[decision.Launch] = []
        self._swept: list[DeleteOrphan] = []
        #: By node, its fleet: what is made anew.
        self._made: dict[str, str] = {}
        #: By fleet, how many were given a room.
        self._located: Counter[str] = Counter()
        self._converted: list[decision.Convert] = []

    def launch(
        self,
        fleet: str,
        names: Iterable[str],
        reason: str,
        *,
        jobs: tuple[int, ...] = (),
        lasting_s: Mapping[str, int | None],
        jobs_of: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        """New nodes join the wish. ``lasting_s``: by name, how long its jobs may run; ``jobs_of``: which they are."""
        nodes = tuple(sorted(names, key=_by_slot))
        if not nodes:
            return
        left, rooms = list(nodes), self.rooms.get(fleet, ())
        for room, count in next_rooms(rooms, self._located[fleet], len(nodes)):
            here, left = tuple(left[:count]), left[count:]
            because = why_not_first(rooms, room.key)
            why = f"{reason}; on {room.name}, for {because}" if because else reason
            self._launched.append(decision.Launch(fleet, here, why, jobs, room.key))
            self.locations.update(dict.fromkeys(here, room.key))
        # None is left where limits were asked for as many.
        if left:
            self._launched.append(decision.Launch(fleet, tuple(left), reason, jobs))
        self._located[fleet] += len(nodes)
        for name in nodes:
            self.desired.add(name)
            self.now_launched[name] = fleet
            self.begin(name, (jobs_of or {}).get(name, jobs), lasting_s.get(name, 0))

    def begin(self, name: str, jobs: tuple[int, ...] = (), lasting_s: int | None = 0) -> None:
        """It has its time from now on to come up."""
        since = self.at - timedelta(microseconds=_STEPS - self.step)
        self.launches[name] = Launch(since, self.at + self._patience, jobs, lasting_s)
        self.awaited.pop(name, None)
        self.drains.pop(name, None)

    def drain(self, fleet: str, name: str, reason: str) -> None:
        """No new jobs; the reason stands in Slurm, where it tells that it is ours."""
        text = f"{OURS} {reason}"
        self._grouped[Drain, fleet, text].add(name)
        self.drains[name] = Drained(self.at, text)
        self.now_drained[name] = fleet
        self.undrained.pop(name, None)

    def undrain(self, fleet: str, name: str, reason: str) -> None:
        """Jobs may have it again, and it is idle from now on."""
        self._grouped[Undrain, fleet, reason].add(name)
        self.drains.pop(name, None)
        self.undrained[name] = self.at
        self.now_undrained[name] = fleet
        self.idle_since[name] = self.at

    def remove(self, fleet: str, name: str, reason: str) -> None:
        """It leaves the wish, and an `up` has its time to take it away."""
        self._grouped[Remove, fleet, reason].add(name)
        self.desired.discard(name)
        self.launches.pop(name, None)
        self.idle_since.pop(name, None)
        self._expect(name)

    def set_back(self, fleet: str, name: str, cause: Cause, text: str) -> None:
        """A node failed: its name is quarantined, and its fleet had one failure more, however many fail at once."""
        location = self.locations.get(name, "")
        self.node_backoffs[name] = backoff.of_node(
            self.node_backoffs.get(name), cause, text, self.at, location
        )
        key = at_location(fleet, location)
        before = self._before.fleet_backoffs.get(key)
        self.fleet_backoffs[key] = backoff.of_fleet(before, cause, text, self.at)

    def repair(self, fleet: str, name: str, reason: str) -> None:
        """An `up` has its time to make it as it is wished."""
        self._grouped[Repair, fleet, reason].add(name)
        self.launches.pop(name, None)
        self._expect(name)

    def make(self, fleet: str, name: str, reason: str) -> None:
        """It is wished, and made as if it were launched now."""
        self._grouped[Repair, fleet, reason].add(name)
        before = self._before.launches.get(name)
        self.begin(name, before.jobs if before else (), before.lasting_s if before else 0)
        self._made[name] = fleet

    def locate_made(self) -> None:
        """Give those that are to be made, and are nowhere yet, a room: a person's, say, that no `up` came to."""
        for name, fleet in sorted(self._made.items(), key=lambda each: _by_slot(each[0])):
            rooms = self.rooms.get(fleet, ())
            if len(rooms) > 1 and not self.locations.get(name):
                for room, _ in next_rooms(rooms, self._located[fleet], 1):
                    self.locations[name] = room.key
                    self._located[fleet] += 1

    def release_slot(self, fleet: str, name: str, reason: str) -> None:
        """Slurm makes a slot of it; where it saves power, it powers it down."""
        saves_power = self._state.spec.scaling.mode == "power_save"
        self._grouped[PowerFailed if saves_power else ReleaseSlot, fleet, reason].add(name)
        self._expect(name)

    def power_failed(self, fleet: str, name: str, reason: str) -> None:
        """Slurm's power saving is told; it has its time to take note."""
        self._grouped[PowerFailed, fleet, reason].add(name)
        self._expect(name)

    def delete_orphan(self, machine: MachineKey, reason: str) -> None:
        """Grace begins anew, in case it is still there then."""
        self._swept.append(DeleteOrphan(machine, reason))
        self.strays[machine] = self.at

    def convert(self, convert: decision.Convert) -> None:
        """Machines of a pool move. What is remembered of them is the pools' own."""
        self._converted.append(convert)

    def is_expected(self, name: str) -> bool:
        """Whether something was asked for that has its time still."""
        until = self.awaited.get(name)
        return until is not None and self.at < until

    def actions(self) -> tuple[Action, ...]:
        """All of them, in order."""
        grouped: list[Action] = [
            kind(fleet, tuple(sorted(names, key=_by_slot)), reason)
            for (kind, fleet, reason), names in self._grouped.items()
        ]
        return tuple(sorted([*grouped, *self._launched, *self._swept, *self._converted], key=_by_turn))

    def desired_hosts(self) -> Mapping[str, HostSet]:
        """By fleet, all that should be there."""
        before = {name for names in self._state.desired.values() for name in names}
        gone = before - self.desired
        new = hosts_by_fleet(self.desired - before)
        if not gone and not new:
            return self._state.desired
        found = {}
        for fleet in sorted({*self._state.desired, *new}):
            names = self._state.desired.get(fleet, HostSet())
            left = [name for name in gone if name in names]
            found[fleet] = (names - HostSet.from_names(left)) | new.get(fleet, HostSet())
        return FrozenDict(found)

    def memory(self) -> Memory:
        """What is remembered until the next look."""
        return replace(
            self._before,
            idle_since=_sorted(self.idle_since),
            launches=_sorted(self.launches),
            drains=_sorted(self.drains),
            undrained=_sorted(self.undrained),
            awaited=_sorted(self.awaited),
            fleet_backoffs=_sorted(self.fleet_backoffs),
            node_backoffs=_sorted(self.node_backoffs),
            locations=_sorted({name: location for name, location in self.locations.items() if location}),
            strays=_sorted(self.strays),
            ill_since=_sorted(self.ill_since),
            has_room_since=_sorted(self.has_room_since),
        )

    def _expect(self, name: str) -> None:
        self.awaited[name] = self.at + self._patience


def _sorted(mapping: Mapping[Any, Any]) -> FrozenDict[Any, Any]:
    return FrozenDict(dict(sorted(mapping.items())))


def _by_slot(name: str) -> tuple[str, int]:
    return fleet_and_number(name)


def _by_turn(action: Action) -> tuple[int, str, tuple[tuple[str, int], ...], str]:
    turn = _ORDER.index(type(action))
    if isinstance(action, DeleteOrphan):
        key = action.machine
        return turn, key.stack, ((key.node, 0),), f"{key.machine_id} {action.reason}"
    return turn, action.fleet, tuple(map(_by_slot, action.nodes)), action.reason
