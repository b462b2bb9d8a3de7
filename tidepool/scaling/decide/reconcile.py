"""Reconciling: for each node that is more than a slot, its phase and what is to be done about it. Pure.

It lays side by side what Slurm, the infrastructure and Pulumi's state say, what is desired, and what was asked for;
`reconcile_table` says what that comes to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from tidepool.clients.slurm import Job, Node
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.slots import fleet_and_number
from tidepool.infrastructures import Machine
from tidepool.scaling.cluster_state import ClusterState, Recorded, is_at_work, job_nodes, nodes_of
from tidepool.scaling.decide.node_status import (
    PROVIDERS,
    Cell,
    NodeAction,
    Power,
    Record,
    RequestStatus,
    Row,
    SlurmStatus,
    holder,
    slurm_status,
)
from tidepool.scaling.decide.reconcile_table import row
from tidepool.scaling.decision import Phase
from tidepool.scaling.memory import Memory

#: What changes a machine, or what is recorded of it, is done only when another look, so much later, says the same.
CONFIRMED_AFTER: Final = timedelta(seconds=1)
#: Within this time Slurm shows what it was told; then it is told again.
REQUEST_TIME: Final = timedelta(seconds=5)
#: An operation of somebody else's is not interfered with for so long after it has drained a node.
OPERATION_TIME: Final = timedelta(seconds=60)
#: For how long a machine of no record is looked at before it is deleted: whoever makes it may be about to record it.
STRAY_GRACE: Final = timedelta(seconds=120)

_NO_RECORD: Final = Recorded()
_IN_SERVICE: Final = frozenset({Phase.IDLE, Phase.BUSY, Phase.STRAY})
_HAS_COME: Final = frozenset({SlurmStatus.UP, SlurmStatus.OURS, SlurmStatus.THEIRS})
_DRAINED: Final = frozenset({Phase.DRAINED, Phase.DRAINING})
#: No subnet has more.
_MOST_SLOTS: Final = 2**24

_CONFIRMED: Final = frozenset(
    {NodeAction.REMOVE, NodeAction.REPLACE, NodeAction.REPAIR, NodeAction.RELEASE_SLOT}
)


class Entry(NamedTuple):
    """One node. ``number`` is its slot's; ``node`` is None where Slurm does not list it."""

    name: str
    fleet: str
    number: int
    phase: Phase
    action: NodeAction
    why: str
    node: Node | None
    has_jobs: bool
    is_desired: bool
    request: RequestStatus
    #: Whether an earlier look said the same.
    is_confirmed: bool
    #: Of which image it was made, where it is known.
    image: str = ""
    #: On which of its fleet's infrastructures it is, or is to be; empty where it has one, or that is not known.
    location: str = ""
    #: Somebody else is deleting its machine, which waits for its jobs.
    is_ending: bool = False


@dataclass(frozen=True, slots=True)
class Reconciled:
    """All nodes that are more than a slot, by name, in the order of fleets and slots."""

    entries: Mapping[str, Entry]
    #: Machines that no record knows and that may be deleted, as far as one look can say.
    strays: tuple[Machine, ...]
    #: Fleets of which Slurm lists no slot, although there are nodes of it: nothing is done about them.
    blind: frozenset[str]
    #: Jobs that run, by the node that they run on; of each, who they are for.
    running: Mapping[str, tuple[Job, ...]]


def reconcile(state: ClusterState, memory: Memory) -> Reconciled:
    """Return what every node comes to."""
    return _Look(state, memory).reconciled()


def running_jobs(jobs: Iterable[Job]) -> dict[str, tuple[Job, ...]]:
    """By node, the jobs that are on it, or about to be."""
    found: defaultdict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        # Of a long queue most have none: they cost no call.
        if job.nodelist:
            for name in job_nodes(job):
                found[name].append(job)
    return {name: tuple(sorted(each, key=lambda job: job.job_id)) for name, each in found.items()}


def reserved_nodes(state: ClusterState) -> dict[str, str]:
    """By node, the reservation that it is kept for: one that is active, or begins before a node could be made."""
    soon = state.at + timedelta(seconds=state.spec.scaling.boot_timeout_s)
    found: dict[str, str] = {}
    for reservation in sorted(state.reservations, key=lambda each: each.name):
        is_on = reservation.is_active or state.at <= reservation.start_time <= soon
        if is_on and reservation.end_time > state.at:
            for name in nodes_of(reservation.nodes):
                when = (
                    ""
                    if reservation.is_active
                    else f", which begins at {reservation.start_time:%H:%M:%S} UTC"
                )
                found.setdefault(name, f"reserved: {reservation.name}{when}")
    return found


class _Look:
    def __init__(self, state: ClusterState, memory: Memory) -> None:
        self._state = state
        self._memory = memory
        self._fleets = {fleet.name for fleet in state.spec.fleets}
        self._nodes = {node.name: node for node in state.nodes}
        self._recorded = state.recorded or {}
        self._desired = {name for fleet in sorted(state.desired) for name in state.desired[fleet]}
        self._machines: dict[str, list[Machine]] = {}
        for machine in sorted(state.machines or (), key=lambda each: each.key):
            self._machines.setdefault(machine.key.node, []).append(machine)
        #: By fleet, the infrastructure of those that have one.
        self._alone = {
            fleet.name: fleet.infrastructures[0].name
            for fleet in state.spec.fleets
            if len(fleet.infrastructures) == 1
        }
        self._running = running_jobs(state.jobs)
        self._reserved = reserved_nodes(state)

    def reconciled(self) -> Reconciled:
        slots = [slot for name in self._names() if (slot := slot_of(name)) is not None]
        should_be = self._desired | self._recorded.keys()
        # Those of no fleet are somebody's own, unless something of ours is there.
        known = should_be | self._machines.keys()
        mine = sorted(slot for slot in slots if slot[0] in self._fleets or slot[2] in known)
        listed = {node.name.rpartition("-")[0] for node in self._state.nodes}
        # A fleet that is gone has no slots; but then nothing of it should be there either.
        should = self._fleets | {fleet for fleet, _, name in mine if name in should_be}
        blind = frozenset(should - listed if self._nodes else {*should, *(fleet for fleet, _, _ in mine)})
        entries = {}
        strays: list[Machine] = []
        for fleet, number, name in mine:
            entry = self._entry(fleet, number, name, is_blind=fleet in blind)
            if entry.phase is not Phase.ABSENT:
                entries[name] = entry
            strays += self._strays(entry)
        return Reconciled(entries, tuple(strays), blind, self._running)

    def _names(self) -> set[str]:
        made = {name for name, record in self._recorded.items() if not record.is_empty}
        # A slot that nothing else knows of is left out at once, for there are ten thousands of them.
        there = {node.name for node in self._state.nodes if not node.state.is_slot}
        others = self._desired | self._machines.keys() | self._state.under_way | made
        return there | others | self._running.keys()

    def _entry(self, fleet: str, number: int, name: str, *, is_blind: bool) -> Entry:
        node = self._nodes.get(name)
        has_jobs = name in self._running or (node is not None and is_at_work(node))
        how, text = self._slurm_status(name, node)
        record = self._record(name)
        has_come = how in _HAS_COME and record is Record.BOTH
        # What Slurm gives back before a look saw it up comes no more.
        is_given_back = how is SlurmStatus.OFF and name in self._state.power_down
        request = self._request(name, is_coming=not has_come and not is_given_back)
        cell = Cell(
            SlurmStatus.STRANGE if is_blind else how,
            has_jobs,
            self._power(name),
            record,
            name in self._desired,
            request,
        )
        found = self._as_requested(name, row(cell))
        since = self._memory.ill_since.get(name)
        why = f"{found.why} ({text})" if text else found.why
        backoff = self._memory.node_backoffs.get(name)
        if request is RequestStatus.FAILED and found.phase is Phase.ILL and backoff is not None:
            why = f"{why}: {backoff.text}"
        is_ending = any(machine.is_ending for machine in self._listed(name))
        if is_ending and how is SlurmStatus.THEIRS:
            why = f"{why}; somebody else deletes its machine, which goes when nobody holds it any more"
        if is_blind:
            why = f"Slurm lists no node and no slot of fleet {fleet}; until it does, nothing is done"
        return Entry(
            name,
            fleet,
            number,
            found.phase,
            found.action,
            why,
            node,
            has_jobs,
            cell.desired,
            request,
            found.action not in _CONFIRMED
            or (since is not None and self._state.at - since >= CONFIRMED_AFTER),
            self._recorded.get(name, _NO_RECORD).image,
            self._location(name),
            is_ending,
        )

    def _as_requested(self, name: str, found: Row) -> Row:
        """With orders to Slurm that were given just now, and that do not show yet."""
        drain = self._memory.drains.get(name)
        if drain is not None and found.phase in _IN_SERVICE and self._is_recent(drain.since):
            phase = Phase.STRAY if found.phase is Phase.STRAY else Phase.DRAINING
            return found._replace(phase=phase, action=NodeAction.WAIT, why="Slurm is asked to drain it")
        since = self._memory.undrained.get(name)
        if since is not None and found.phase in _DRAINED and self._is_recent(since):
            phase = Phase.IDLE if found.phase is Phase.DRAINED else Phase.BUSY
            return found._replace(phase=phase, action=NodeAction.KEEP, why="Slurm is asked to undrain it")
        return found

    def _is_recent(self, since: datetime) -> bool:
        return self._state.at - since < REQUEST_TIME

    def _slurm_status(self, name: str, node: Node | None) -> tuple[SlurmStatus, str]:
        how = slurm_status(node)
        if name in self._reserved and how not in (
            SlurmStatus.UNLISTED,
            SlurmStatus.SLOT,
            SlurmStatus.OFF,
            SlurmStatus.BOOTING,
        ):
            return SlurmStatus.THEIRS, self._reserved[name]
        if node is not None and how is SlurmStatus.THEIRS:
            return how, holder(node)
        if node is not None and how is SlurmStatus.OURS and self._is_being_deleted(node):
            return SlurmStatus.THEIRS, "an operation that is not the scaler's is taking it away"
        if node is not None and node.reason is not None and how in (SlurmStatus.UNFIT, SlurmStatus.DOWN):
            return how, node.reason.text
        return how, ""

    def _is_being_deleted(self, node: Node) -> bool:
        """Return whether an operation of somebody else's has just begun to take it away.

        One that was cut off leaves such a drain behind, which is as good as one of ours then.
        """
        reason = node.reason
        if reason is None or reason.text != PROVIDERS or node.name in self._state.under_way:
            return False
        memory = self._memory
        is_asked = any(node.name in of for of in (memory.awaited, memory.drains, memory.undrained))
        is_new = reason.time is not None and self._state.at - reason.time < OPERATION_TIME
        return is_new and not is_asked

    def _location(self, name: str) -> str:
        return self._recorded.get(name, _NO_RECORD).location or self._memory.locations.get(name, "")

    def _infrastructure(self, name: str) -> str:
        """Return the infrastructure of its machine, now or to be; empty where that is not known."""
        if recorded := self._recorded.get(name, _NO_RECORD).infrastructure:
            return recorded
        location = self._memory.locations.get(name, "")
        return location.partition("/")[0] or self._alone.get(name.rpartition("-")[0], "")

    def _listed(self, name: str) -> Sequence[Machine]:
        """Return its own machines: those of its name, where it is, and there the recorded one alone if that is listed."""
        machines = self._machines.get(name, ())
        if not machines:
            return ()
        here = self._infrastructure(name)
        record = self._recorded.get(name, _NO_RECORD)
        return record.own_machines(
            [each for each in machines if not here or each.key.infrastructure in ("", here)]
        )

    def _power(self, name: str) -> Power:
        if self._state.machines is None:
            return Power.UNKNOWN
        listed = self._listed(name)
        if not listed:
            silent, here = self._state.silent, self._infrastructure(name)
            is_unseen = here in silent if here else bool(silent)
            return Power.UNKNOWN if is_unseen and not self._was_refused(name) else Power.NOT_LISTED
        states = {each.state for each in listed}
        if "running" in states:
            return Power.RUNNING
        return Power.UNKNOWN if "unknown" in states else Power.STOPPED

    def _was_refused(self, name: str) -> bool:
        """Return whether it is known without a look that there is no machine: nothing is recorded, and none was to be had."""
        backoff = self._memory.node_backoffs.get(name)
        return (
            self._state.recorded is not None
            and name not in self._state.recorded
            and backoff is not None
            and backoff.is_of_no_machine
            and backoff.until > self._state.at
        )

    def _record(self, name: str) -> Record:
        if self._state.recorded is None:
            return Record.UNKNOWN
        record = self._state.recorded.get(name)
        if record is None:
            return Record.NONE
        if record.pending:
            return Record.PENDING
        if record.membership:
            return Record.BOTH
        return Record.MACHINE if record.machine else Record.NONE

    def _request(self, name: str, *, is_coming: bool) -> RequestStatus:
        """Return what was asked for it. A launch is over when it is no longer awaited, and when nobody wants it any more."""
        at = self._state.at
        if name in self._state.under_way:
            return RequestStatus.UNDER_WAY
        launch = self._memory.launches.get(name)
        if launch is not None and is_coming and name in self._desired:
            return RequestStatus.LAUNCH if at < launch.deadline else RequestStatus.LATE_LAUNCH
        until = self._memory.awaited.get(name)
        if until is not None:
            return RequestStatus.UP if at < until else RequestStatus.LATE_UP
        backoff = self._memory.node_backoffs.get(name)
        return RequestStatus.FAILED if backoff is not None and backoff.until > at else RequestStatus.NONE

    def _strays(self, entry: Entry) -> Iterable[Machine]:
        """Return the machines of a node's name that may go, were it not for grace."""
        listed = self._listed(entry.name)
        machines = [each for each in self._machines.get(entry.name, ()) if each.state != "unknown"]
        if entry.action is NodeAction.DELETE_ORPHAN:
            yield from machines
            return
        record = self._recorded.get(entry.name, _NO_RECORD)
        if record.machine and not record.pending and not entry.has_jobs:
            # On another infrastructure, where the answer was lost when it was made; or back from the dead.
            yield from (each for each in machines if each not in listed)


def slot_of(name: str) -> tuple[str, int, str] | None:
    """Return the fleet and the number that a name tells, and the name; None where no slot is called so."""
    try:
        fleet, number = fleet_and_number(name)
    except ValueError:
        return None
    return (fleet, number, name) if number <= _MOST_SLOTS else None


def hosts_by_fleet(names: Iterable[str]) -> dict[str, HostSet]:
    """Names, by the fleet that they tell."""
    by_fleet: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        slot = slot_of(name)
        if slot is not None:
            by_fleet[slot[0]].append(name)
    return {fleet: HostSet.from_names(found) for fleet, found in sorted(by_fleet.items())}
