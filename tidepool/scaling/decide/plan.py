"""A decision while it is made, as frozen values: each part gives steps, and a plan with them is another plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.slots import fleet_and_number
from tidepool.scaling import decision
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.capacity import Capacity, next_capacities, why_not_first
from tidepool.scaling.decide.node_status import OURS
from tidepool.scaling.decide.reconcile import hosts_by_fleet
from tidepool.scaling.decide.remember import fleet_backoff, node_backoff
from tidepool.scaling.decision import (
    Action,
    Convert,
    DeleteOrphan,
    Drain,
    PowerFailed,
    ReleaseSlot,
    Remove,
    Repair,
    Suspend,
    Undrain,
)
from tidepool.scaling.memory import Backoff, Cause, Drained, Launch, Memory, at_location

_Kind = (
    type[Drain]
    | type[Undrain]
    | type[Remove]
    | type[Suspend]
    | type[Repair]
    | type[ReleaseSlot]
    | type[PowerFailed]
)

#: In which order actions stand, which is that in which they are taken: jobs are helped before money is saved.
_TURNS: Final[tuple[type[Any], ...]] = (
    PowerFailed,
    Undrain,
    Convert,
    decision.Launch,
    Repair,
    Drain,
    Suspend,
    Remove,
    ReleaseSlot,
    DeleteOrphan,
)
#: In how many parts at most nodes are launched.
_PARTS: Final = 3
_NOTHING: Final[FrozenDict[Any, Any]] = FrozenDict()


class Step(NamedTuple):
    """One node, the kind of action on it, and why. Without a kind it is desired no more, and nothing is done.

    ``is_launch``: it has its time to come up as if it were launched. ``failure``: it failed, and of which cause.
    """

    kind: _Kind | None
    fleet: str
    name: str
    reason: str
    is_launch: bool = False
    failure: Cause | None = None


class NewNodes(NamedTuple):
    """Nodes of a fleet to launch. ``lasting_s``: by name, how long its jobs may run; ``jobs_of``: which they are."""

    fleet: str
    names: tuple[str, ...]
    reason: str
    lasting_s: Mapping[str, int | None]
    jobs: tuple[int, ...] = ()
    jobs_of: Mapping[str, tuple[int, ...]] = _NOTHING


@dataclass(frozen=True, slots=True)
class Plan:
    """The decision so far: actions, the nodes that should be there, and what is remembered then."""

    at: datetime
    #: How long what is asked for may take.
    patience: timedelta
    #: What was remembered before.
    before: Memory
    memory: Memory
    desired: frozenset[str]
    #: By fleet, the capacities that its infrastructures have, and how many nodes were given one.
    capacities: Mapping[str, tuple[Capacity, ...]] = _NOTHING
    located: Mapping[str, int] = _NOTHING
    #: By node, its fleet: what this decision launches, drains, undrains, and what it makes anew.
    launched: Mapping[str, str] = _NOTHING
    drained: Mapping[str, str] = _NOTHING
    undrained: Mapping[str, str] = _NOTHING
    made: Mapping[str, str] = _NOTHING
    steps: tuple[Step, ...] = ()
    others: tuple[decision.Launch | DeleteOrphan | Convert, ...] = ()
    #: What is launched one after another in one decision is remembered so, by microseconds: growth gives jobs the
    #: nodes that are coming in the order in which they were launched.
    part: int = 0

    @classmethod
    def begin(cls, state: ClusterState, before: Memory, memory: Memory) -> Plan:
        """Return the plan to do nothing; ``memory`` is that of ``before`` which still holds."""
        patience = timedelta(seconds=state.spec.scaling.boot_timeout_s)
        desired = frozenset(name for names in state.desired.values() for name in names)
        return cls(state.at, patience, before, memory, desired)

    def next_part(self) -> Plan:
        """Return the plan whose next launches come after those before."""
        return replace(self, part=self.part + 1)

    def is_expected(self, name: str) -> bool:
        """Return whether something was asked for that has its time still."""
        until = self.memory.awaited.get(name)
        return until is not None and self.at < until

    def with_steps(self, steps: Iterable[Step]) -> Plan:
        """Return the plan with ``steps``, each of another node."""
        new = tuple(steps)
        if not new:
            return self
        edit = _Edit(self)
        for step in new:
            edit.take(step)
        return replace(edit.plan(), steps=self.steps + new)

    def with_launches(self, launches: Iterable[NewNodes]) -> Plan:
        """Return the plan with new nodes, each on the first infrastructure of its fleet that has capacity."""
        new = [each for each in launches if each.names]
        if not new:
            return self
        edit = _Edit(self)
        actions = [action for each in new for action in edit.launch(each)]
        return replace(edit.plan(), others=(*self.others, *actions))

    def with_capacities(self, capacities: Mapping[str, tuple[Capacity, ...]]) -> Plan:
        """Return the plan with what may be made where; nodes to make that are nowhere yet, a person's say, get some."""
        edit = _Edit(replace(self, capacities=capacities))
        for name, fleet in sorted(self.made.items(), key=lambda each: fleet_and_number(each[0])):
            edit.locate(name, fleet)
        return edit.plan()

    def with_others(self, actions: Sequence[DeleteOrphan | Convert]) -> Plan:
        """Return the plan with actions on machines. Grace of those that go begins anew, in case they are there still."""
        strays = {each.machine: self.at for each in actions if isinstance(each, DeleteOrphan)}
        memory = replace(self.memory, strays={**self.memory.strays, **strays}) if strays else self.memory
        return replace(self, others=(*self.others, *actions), memory=memory)

    def actions(self) -> tuple[Action, ...]:
        """Return all actions in their order, nodes with the same reason together."""
        grouped: defaultdict[tuple[_Kind, str, str], set[str]] = defaultdict(set)
        for step in self.steps:
            if step.kind is not None:
                # The reason of a drain stands in Slurm, where it tells that it is ours.
                reason = f"{OURS} {step.reason}" if step.kind is Drain else step.reason
                grouped[step.kind, step.fleet, reason].add(step.name)
        of_nodes: list[Action] = [
            kind(fleet, tuple(sorted(names, key=fleet_and_number)), reason)
            for (kind, fleet, reason), names in grouped.items()
        ]
        return tuple(sorted([*of_nodes, *self.others], key=_by_turn))

    def desired_hosts(self, state: ClusterState) -> Mapping[str, HostSet]:
        """Return by fleet all nodes that should be there; ``state`` has what should be there before."""
        before = {name for names in state.desired.values() for name in names}
        gone = before - self.desired
        new = hosts_by_fleet(self.desired - before)
        if not gone and not new:
            return state.desired
        found = {}
        for fleet in sorted({*state.desired, *new}):
            names = state.desired.get(fleet, HostSet())
            left = [name for name in gone if name in names]
            found[fleet] = (names - HostSet.from_names(left)) | new.get(fleet, HostSet())
        return FrozenDict(found)

    def remembered(self) -> Memory:
        """Return what is remembered until the next look."""
        memory = replace(
            self.memory, locations={name: key for name, key in self.memory.locations.items() if key}
        )
        values = ((field.name, getattr(memory, field.name)) for field in fields(memory))
        mappings: dict[str, Any] = {
            name: in_order(each) for name, each in values if isinstance(each, Mapping)
        }
        return replace(memory, **mappings)


class _Edit:
    """Copies of a plan's mappings while steps are added, which nobody else has."""

    def __init__(self, plan: Plan) -> None:
        memory = plan.memory
        self._plan = plan
        self._desired = set(plan.desired)
        self._idle_since = dict(memory.idle_since)
        self._launches = dict(memory.launches)
        self._drains = dict(memory.drains)
        self._undrained = dict(memory.undrained)
        self._awaited = dict(memory.awaited)
        self._suspending = dict(memory.suspending)
        self._fleet_backoffs: dict[str, Backoff] = dict(memory.fleet_backoffs)
        self._node_backoffs: dict[str, Backoff] = dict(memory.node_backoffs)
        self._locations = dict(memory.locations)
        self._located = dict(plan.located)
        self._now_launched = dict(plan.launched)
        self._now_drained = dict(plan.drained)
        self._now_undrained = dict(plan.undrained)
        self._made = dict(plan.made)

    def plan(self) -> Plan:
        memory = replace(
            self._plan.memory,
            idle_since=self._idle_since,
            launches=self._launches,
            drains=self._drains,
            undrained=self._undrained,
            awaited=self._awaited,
            suspending=self._suspending,
            fleet_backoffs=self._fleet_backoffs,
            node_backoffs=self._node_backoffs,
            locations=self._locations,
        )
        return replace(
            self._plan,
            memory=memory,
            desired=frozenset(self._desired),
            located=self._located,
            launched=self._now_launched,
            drained=self._now_drained,
            undrained=self._now_undrained,
            made=self._made,
        )

    def take(self, step: Step) -> None:
        at, name = self._plan.at, step.name
        if step.kind is Drain:
            self._drains[name] = Drained(at, f"{OURS} {step.reason}")
            self._now_drained[name] = step.fleet
            self._undrained.pop(name, None)
        elif step.kind is Undrain:
            self._drains.pop(name, None)
            self._undrained[name] = at
            self._now_undrained[name] = step.fleet
            self._idle_since[name] = at
        elif step.is_launch:
            before = self._plan.before.launches.get(name)
            self._begin(name, before.jobs if before else (), before.lasting_s if before else 0)
            self._made[name] = step.fleet
        else:
            if step.kind in (Remove, Suspend, None):
                self._desired.discard(name)
            if step.kind in (Remove, Suspend, Repair):
                self._launches.pop(name, None)
            if step.kind in (Remove, Suspend):
                self._idle_since.pop(name, None)
            if step.kind is Suspend:
                self._suspending[name] = at
            if step.kind is not None:
                self._awaited[name] = at + self._plan.patience
        if step.failure is not None:
            self._set_back(step.fleet, name, step.failure, f"{name}: {step.reason}")

    def launch(self, new: NewNodes) -> list[decision.Launch]:
        names = tuple(sorted(new.names, key=fleet_and_number))
        capacities, found, left = self._plan.capacities.get(new.fleet, ()), [], names
        for capacity, count in next_capacities(capacities, self._located.get(new.fleet, 0), len(names)):
            here, left = left[:count], left[count:]
            because = why_not_first(capacities, capacity.key)
            why = f"{new.reason}; on {capacity.name}, for {because}" if because else new.reason
            found.append(decision.Launch(new.fleet, here, why, new.jobs, capacity.key))
            self._locations.update(dict.fromkeys(here, capacity.key))
        # None is left where limits were asked for as many.
        if left:
            found.append(decision.Launch(new.fleet, left, new.reason, new.jobs))
        self._located[new.fleet] = self._located.get(new.fleet, 0) + len(names)
        for name in names:
            self._desired.add(name)
            self._now_launched[name] = new.fleet
            self._begin(name, new.jobs_of.get(name, new.jobs), new.lasting_s.get(name, 0))
        return found

    def locate(self, name: str, fleet: str) -> None:
        capacities, taken = self._plan.capacities.get(fleet, ()), self._located.get(fleet, 0)
        if len(capacities) > 1 and not self._locations.get(name):
            for capacity, _ in next_capacities(capacities, taken, 1):
                self._locations[name] = capacity.key
                self._located[fleet] = taken + 1

    def _begin(self, name: str, jobs: tuple[int, ...], lasting_s: int | None) -> None:
        """It has its time from now on to come up."""
        plan = self._plan
        since = plan.at - timedelta(microseconds=_PARTS - plan.part)
        self._launches[name] = Launch(since, plan.at + plan.patience, jobs, lasting_s)
        self._awaited.pop(name, None)
        self._drains.pop(name, None)

    def _set_back(self, fleet: str, name: str, cause: Cause, text: str) -> None:
        """Its name is quarantined, and its fleet had one failure more, however many nodes fail at once."""
        at, location = self._plan.at, self._locations.get(name, "")
        self._node_backoffs[name] = node_backoff(self._node_backoffs.get(name), cause, text, at, location)
        key = at_location(fleet, location)
        before = self._plan.before.fleet_backoffs.get(key)
        self._fleet_backoffs[key] = fleet_backoff(before, cause, text, at)


def in_order(mapping: Mapping[Any, Any]) -> FrozenDict[Any, Any]:
    """Return the same, by its keys: what is remembered does not depend on the order in which it was found."""
    return FrozenDict(dict(sorted(mapping.items())))


def _by_turn(action: Action) -> tuple[int, str, tuple[tuple[str, int], ...], str]:
    turn = _TURNS.index(type(action))
    if isinstance(action, DeleteOrphan):
        key = action.machine
        return turn, key.stack, ((key.node, 0),), f"{key.machine_id} {action.reason}"
    return turn, action.fleet, tuple(map(fleet_and_number, action.nodes)), action.reason
