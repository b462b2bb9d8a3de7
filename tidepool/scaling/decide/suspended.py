"""Suspended machines of a fleet: which stay so, which go, and which nodes are made, or taken, so that there are enough of them.

A suspended machine is none of the reconcile table's nodes: its slot is free, and the first that growth takes, for its machine
goes on sooner than another one boots. One that is not as it should be is left to the table, as a node that should be gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from tidepool.cluster.fleet import Fleet
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.slots import fleet_and_number
from tidepool.infrastructures import Machine
from tidepool.scaling.cluster_state import ClusterState, Recorded
from tidepool.scaling.decide.excess import is_older
from tidepool.scaling.decide.node_status import SlurmStatus, slurm_status
from tidepool.scaling.decide.reconcile import Entry, Reconciled, running_jobs, slot_of
from tidepool.scaling.decision import Phase
from tidepool.scaling.memory import Memory, at_location, suspending_at

_SLOT: Final = frozenset({SlurmStatus.UNLISTED, SlurmStatus.SLOT, SlurmStatus.OFF})
_DRAINED: Final = frozenset({Phase.DRAINED, Phase.DRAINING})
_NOTHING: Final[FrozenDict[str, str]] = FrozenDict()
_GOES_ON: Final = "its machine is suspended to disk, and goes on for the next node of the fleet"
_UNSEEN: Final = "its machine is suspended to disk, and cannot be seen now"


@dataclass(frozen=True, slots=True)
class Suspended:
    """Suspended machines by the names of the nodes that they were. ``wanted`` says how many each fleet should have."""

    wanted: Mapping[str, int] = field(default_factory=FrozenDict)
    #: Those that stay, and why, in words.
    kept: Mapping[str, str] = _NOTHING
    #: Of these the ones that can be seen, so that they go on where a node is needed.
    resumable: frozenset[str] = frozenset()
    #: Those that go, and why, in words.
    lost: Mapping[str, str] = _NOTHING

    def apart(self, state: ClusterState) -> ClusterState:
        """Return the state without the machines that stay: of them the slots are left."""
        if not self.kept or state.recorded is None:
            return state
        machines = state.machines
        if machines is not None:
            machines = tuple(each for each in machines if each.key.node not in self.kept)
        recorded = {name: record for name, record in state.recorded.items() if name not in self.kept}
        return replace(state, machines=machines, recorded=FrozenDict(recorded))

    def explained(self, reconciled: Reconciled) -> Reconciled:
        """Return the same, where those that go say why."""
        if not self.lost:
            return reconciled
        entries = {
            name: entry._replace(why=self.lost[name])
            if name in self.lost and not entry.is_desired and entry.phase is Phase.LEAVING
            else entry
            for name, entry in reconciled.entries.items()
        }
        return replace(reconciled, entries=entries)

    def first(self, names: Iterator[str]) -> Iterator[str]:
        """Return free slots, those first whose machines only have to go on."""
        if not self.kept:
            return names
        free = list(names)
        # One that cannot be seen is no slot for another machine either.
        seen = [name for name in free if name not in self.kept or name in self.resumable]
        return iter(sorted(seen, key=lambda name: name not in self.resumable))

    def left(self, fleet: str, launched: Collection[str], suspending: Collection[str]) -> int:
        """Return how many more should be suspended, beside those that are and are not ``launched``, and those that are on their way."""
        there = [name for name in self.kept if name not in launched]
        count = sum(fleet_and_number(name)[0] == fleet for name in [*there, *suspending])
        return max(0, self.wanted.get(fleet, 0) - count)


NONE_SUSPENDED: Final = Suspended()


def is_empty(entry: Entry) -> bool:
    """Return whether the scaler drained it, so that it goes, or is suspended."""
    return entry.phase in _DRAINED and not entry.has_jobs


def is_left_alone(fleet: str, memory: Memory, state: ClusterState) -> bool:
    """Return whether no machine of the fleet is to be suspended for a while, for one could not be."""
    backoff = memory.fleet_backoffs.get(suspending_at(fleet))
    return backoff is not None and backoff.until > state.at


def find_suspended(state: ClusterState, wanted: Mapping[str, int]) -> Suspended:
    """Find them in a look. Of more than ``wanted`` those of the highest slots go."""
    records = state.recorded or {}
    found = [name for name, record in records.items() if record.is_suspended and slot_of(name) is not None]
    if not found:
        return Suspended(wanted)
    desired = {name for names in state.desired.values() for name in names}
    nodes = {node.name: node for node in state.nodes}
    running = running_jobs(state.jobs)
    fleets = {fleet.name: fleet for fleet in state.spec.fleets}
    left = dict(wanted)
    kept: dict[str, str] = {}
    lost: dict[str, str] = {}
    for name in sorted(found, key=fleet_and_number):
        if name in desired or name in state.under_way or name in running:
            continue
        if slurm_status(nodes.get(name)) not in _SLOT:
            continue
        fleet = fleets.get(fleet_and_number(name)[0])
        why = _why_lost(name, records[name], fleet, state)
        if not why and fleet is not None and left.get(fleet.name, 0) <= 0:
            why = f"no more than {wanted.get(fleet.name, 0)} machines of {fleet.name} are kept suspended"
        if why or fleet is None:
            lost[name] = why or "its fleet is gone, and so its suspended machine goes"
            continue
        left[fleet.name] -= 1
        kept[name] = _GOES_ON if _states(name, records[name], state) else _UNSEEN
    resumable = frozenset(name for name, why in kept.items() if why == _GOES_ON)
    return Suspended(wanted, FrozenDict(kept), resumable, FrozenDict(lost))


def _why_lost(name: str, record: Recorded, fleet: Fleet | None, state: ClusterState) -> str:
    """Why a suspended machine goes, in words; empty where it stays."""
    if record.pending:
        return "an operation on its suspended machine was cut off"
    if fleet is None:
        return "its fleet is gone, and so its suspended machine goes"
    if fleet_and_number(name)[1] > fleet.max_nodes:
        return f"it is above max_nodes of {fleet.name}, which is {fleet.max_nodes}"
    if is_older(record.image, state.images.get(at_location(fleet.name, record.location), "")):
        return "its machine was suspended with an older image; another is made"
    states = _states(name, record, state)
    if states is None or "suspended" in states:
        return ""
    if "running" in states:
        return "its machine should be suspended, and somebody started it"
    return (
        "its machine is there, without the memory that was saved"
        if states
        else "its suspended machine is gone"
    )


def _states(name: str, record: Recorded, state: ClusterState) -> frozenset[str] | None:
    """Return the states of its machines: none where it is gone, and None where that cannot be seen."""
    if state.machines is None:
        return None
    own: Collection[Machine] = record.own_machines([each for each in state.machines if each.key.node == name])
    states = frozenset(each.state for each in own)
    silent = record.infrastructure in state.silent if record.infrastructure else bool(state.silent)
    return None if "unknown" in states or (not own and silent) else states


def new_names(
    names: Iterator[str], suspended: Suspended, desired: Collection[str], count: int
) -> tuple[str, ...]:
    """Return the first free slots that no suspended machine has, for machines that are made to be suspended."""
    return tuple(
        islice((name for name in names if name not in suspended.kept and name not in desired), count)
    )
