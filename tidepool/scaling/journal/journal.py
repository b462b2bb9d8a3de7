"""The `Journal` of `tidepool.scaling.ports`, by SQL.

Each call is one transaction. A call that writes for the leader first claims the lease's row as this epoch's: who
does not get it writes nothing, and while it is claimed no other gets the lease.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import HostSet
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decision import AccountBudget, Action, Cost, Decision, DeleteOrphan, Waiting, WaitingPod
from tidepool.scaling.journal.codec import Unreadable, dumps, loads
from tidepool.scaling.journal.database import (
    EPOCH,
    Database,
    Row,
    Transaction,
    as_key,
    from_us,
    kept_rows,
    next_numbers,
    put_kept,
    since_us,
    to_us,
)
from tidepool.scaling.memory import Memory, Spent
from tidepool.scaling.ports import (
    Decided,
    Fenced,
    Intent,
    JobRecord,
    JournalError,
    Kept,
    LaunchRecord,
    Lease,
    Look,
    Pause,
    Sample,
    Trouble,
)
from tidepool.scaling.usage import AccountUsage

#: A cluster state of more than this is not kept whole: of JSON, before it is compressed.
LARGEST_STATE_BYTES: Final = 4 << 20
#: About what one takes of that, with much said in it.
_BYTES_OF_A_JOB: Final = 800
_BYTES_OF_A_NODE: Final = 500
_BYTES_OF_A_POD: Final = 500
_NOTHING: Final[FrozenDict[Any, Any]] = FrozenDict()


@dataclass(frozen=True, slots=True)
class _Body:
    """The part of a decision that is not searched for."""

    actions: tuple[Action, ...]
    waiting: Mapping[int, Waiting]
    cost: Cost
    counts: Mapping[str, int]
    waiting_pods: Mapping[str, WaitingPod] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True)
class _Position:
    """The point at which the daemon is by its decisions."""

    desired: Mapping[str, HostSet] | None
    memory: Memory


@dataclass(frozen=True, slots=True)
class _Read:
    """The rest of that, which no decision changes: what Slurm's power saving asks for, and of which version the stack was."""

    up: frozenset[str] = frozenset()
    down: frozenset[str] = frozenset()
    version: str = ""


@dataclass(frozen=True, slots=True)
class _Looked:
    """The part of the newest look that changes with every look, also where nothing happens."""

    epoch: int
    at: datetime
    cost: Cost
    spent: Spent | None
    budgets: Mapping[str, AccountBudget] = field(default_factory=lambda: _NOTHING)


#: The rows of `kept`. The newest look is in two: what seldom changes is large.
_POSITION: Final = 1
_READ: Final = 2
_LOOK: Final = 3
_LOOKED: Final = 4
_TROUBLE: Final = 5


class SqlJournal:
    """The journal of one stack, in ``database``."""

    def __init__(self, database: Database, *, largest_state_bytes: int = LARGEST_STATE_BYTES) -> None:
        self._database = database
        self._largest_state_bytes = largest_state_bytes
        #: What this process wrote last of the newest look, under which epoch.
        self._look: Look | None = None
        #: What was read last of it, as it was written and as it is.
        self._read_look: tuple[bytes, Look | None] = b"", None

    # The lease

    def acquire(self, holder: str, now: datetime, lasting_s: float) -> Lease | None:
        lasting_us = round(lasting_s * 1e6)
        with self._database.writing() as sql:
            sql.change("UPDATE lease SET epoch = epoch WHERE id = 1")
            # A database that several machines share has one clock, and theirs are many.
            clock_us = self._database.now_us()
            now_us = to_us(now) if clock_us is None else clock_us
            ((had, epoch, until_us, is_held),) = sql.run("SELECT holder, epoch, until_us, is_held FROM lease")
            is_valid = is_held and until_us > now_us
            if is_valid and had != holder:
                if until_us > now_us + lasting_us:
                    # The clock went back since: it would be theirs for as long as that jump, though they be dead.
                    sql.change("UPDATE lease SET until_us = ?", [now_us + lasting_us])
                return None
            epoch = epoch if is_valid else epoch + 1
            sql.change(
                "UPDATE lease SET holder = ?, epoch = ?, until_us = ?, is_held = 1",
                [holder, epoch, now_us + lasting_us],
            )
        return Lease(holder, epoch, now + timedelta(microseconds=lasting_us))

    def release(self, lease: Lease) -> None:
        with self._database.writing() as sql:
            sql.change(
                "UPDATE lease SET is_held = 0 WHERE holder = ? AND epoch = ?", [lease.holder, lease.epoch]
            )

    def leader(self) -> Lease | None:
        with self._database.reading() as sql:
            ((holder, epoch, until_us, is_held),) = sql.run(
                "SELECT holder, epoch, until_us, is_held FROM lease"
            )
        return Lease(holder, epoch, from_us(until_us), bool(is_held)) if epoch else None

    # What the leader writes

    def write_kept(self, lease: Lease, kept: Kept) -> None:
        with self._leading(lease) as sql:
            put_kept(sql, _POSITION, dumps(_Position, _Position(kept.desired, kept.memory)))
            put_kept(sql, _READ, dumps(_Read, _Read(kept.power_up, kept.power_down, kept.version)))

    def decided(
        self, lease: Lease, state: ClusterState, before: Memory, decision: Decision
    ) -> tuple[Intent, ...]:
        counts = {
            "jobs": len(state.jobs),
            "nodes": len(state.nodes),
            "machines": len(state.machines or ()),
            "pods": len(state.pools.kubernetes.pods) if state.pools.kubernetes else 0,
        }
        is_small = self._is_small(state)
        body = dumps(
            _Body, _Body(decision.actions, decision.waiting, decision.cost, counts, decision.waiting_pods)
        )
        seen = dumps(ClusterState, state) if is_small else None
        remembered = dumps(Memory, before) if is_small else None
        at_us = to_us(decision.at)
        with self._leading(lease) as sql:
            number = next_numbers(sql, "decision")
            sql.change(
                "INSERT INTO decision (id, epoch, at_us, body, world, memory) VALUES (?, ?, ?, ?, ?, ?)",
                [number, lease.epoch, at_us, body, seen, remembered],
            )
            first = next_numbers(sql, "intent", len(decision.actions))
            intents = tuple(
                Intent(first + place, number, lease.epoch, decision.at, action)
                for place, action in enumerate(decision.actions)
            )
            sql.run_many(
                "INSERT INTO intent (id, decision, epoch, at_us, fleet, result, action, text) VALUES "
                "(?, ?, ?, ?, ?, '', ?, ?)",
                [
                    (
                        each.id,
                        number,
                        lease.epoch,
                        at_us,
                        as_key(_fleet(each.action)),
                        dumps(Action, each.action),
                        b'""',
                    )
                    for each in intents
                ],
            )
            sql.run_many(
                "INSERT INTO intent_node (node, intent) VALUES (?, ?)",
                [(as_key(node), each.id) for each in intents for node in sorted(set(_nodes(each.action)))],
            )
            put_kept(sql, _POSITION, dumps(_Position, _Position(decision.desired, decision.memory)))
        return intents

    def looked(self, lease: Lease, state: ClusterState, decision: Decision) -> None:
        spent = decision.memory.spent
        if spent is not None:
            # Of two years, for every look: reports read what is kept.
            spent = replace(spent, machines=_NOTHING)
        looked = _Looked(lease.epoch, decision.at, decision.cost, spent, decision.budgets)
        # With all times and sums taken out, a look is as the one before where nothing happened.
        usage = decision.memory.usage
        tree = AccountUsage(usage.month, EPOCH, parents=usage.parents) if usage else None
        memory = replace(decision.memory, spent=None, usage=tree, budgets=_NOTHING)
        quiet = replace(decision, at=EPOCH, cost=Cost(), memory=memory, budgets=_NOTHING)
        seen = replace(state, at=EPOCH, usage=None) if self._is_small(state) else None
        look = Look(lease.epoch, state.spec, quiet, seen)
        is_new = look != self._look
        body = dumps(Look, look) if is_new else b""
        with self._leading(lease, durable=False) as sql:
            if is_new:
                put_kept(sql, _LOOK, body)
            put_kept(sql, _LOOKED, dumps(_Looked, looked))
        self._look = look

    def troubled(self, lease: Lease, trouble: Trouble | None) -> None:
        body = dumps(Trouble, trouble) if trouble else None
        with self._leading(lease, durable=False) as sql:
            if body is None:
                sql.change("DELETE FROM kept WHERE id = ?", [_TROUBLE])
            else:
                put_kept(sql, _TROUBLE, body)

    def ended(self, lease: Lease, intents: Sequence[Intent]) -> None:
        with self._leading(lease) as sql:
            sql.run_many(
                "UPDATE intent SET result = ?, ended_us = ?, text = ? WHERE id = ?",
                [
                    (
                        each.result,
                        None if each.ended is None else to_us(each.ended),
                        dumps(str, each.text),
                        each.id,
                    )
                    for each in intents
                ],
            )

    def sample(self, lease: Lease, sample: Sample) -> None:
        with self._leading(lease, durable=False) as sql:
            sql.change(
                "INSERT INTO sample (at_us, body) VALUES (?, ?) "
                "ON CONFLICT (at_us) DO UPDATE SET body = excluded.body",
                [to_us(sample.at), dumps(Sample, sample)],
            )

    def saw(self, lease: Lease, jobs: Sequence[JobRecord]) -> None:
        with self._leading(lease, durable=False) as sql:
            sql.run_many(
                "INSERT INTO job (job_id, submitted_us, body) VALUES (?, ?, ?) "
                "ON CONFLICT (job_id, submitted_us) DO UPDATE SET body = excluded.body",
                [(job.job_id, to_us(job.submitted), dumps(JobRecord, job)) for job in jobs],
            )

    def launched(self, lease: Lease, launches: Sequence[LaunchRecord]) -> None:
        with self._leading(lease, durable=False) as sql:
            sql.run_many(
                "INSERT INTO launch (node, asked_us, body) VALUES (?, ?, ?) "
                "ON CONFLICT (node, asked_us) DO UPDATE SET body = excluded.body",
                [(as_key(each.node), to_us(each.since), dumps(LaunchRecord, each)) for each in launches],
            )

    def prune(self, lease: Lease, before: datetime) -> None:
        limit = [to_us(before)]
        with self._leading(lease) as sql:
            # Decisions of open intents stay, to tell why they are there.
            sql.change("DELETE FROM intent WHERE at_us < ? AND result <> ''", limit)
            sql.change("DELETE FROM intent_node WHERE intent NOT IN (SELECT id FROM intent)")
            sql.change(
                "DELETE FROM decision WHERE at_us < ? AND id NOT IN (SELECT decision FROM intent) "
                "AND id < (SELECT MAX(id) FROM decision)",
                limit,
            )
            sql.change("DELETE FROM sample WHERE at_us < ?", limit)
            sql.change("DELETE FROM job WHERE submitted_us < ?", limit)
            sql.change("DELETE FROM launch WHERE asked_us < ?", limit)

    # What people say

    def pause(self, pause: Pause | None) -> None:
        with self._database.writing() as sql:
            sql.change("DELETE FROM pause")
            if pause is not None:
                sql.change("INSERT INTO pause (id, body) VALUES (1, ?)", [dumps(Pause, pause)])

    def paused(self) -> Pause | None:
        with self._database.reading() as sql:
            rows = sql.run("SELECT body FROM pause")
        return self._read(Pause, rows[0][0]) if rows else None

    # What is read

    def kept(self) -> Kept:
        with self._database.reading() as sql:
            rows = kept_rows(sql, _POSITION, _READ)
        place = self._read(_Position, rows[_POSITION]) if _POSITION in rows else _Position(None, Memory())
        read = self._read(_Read, rows[_READ]) if _READ in rows else _Read()
        return Kept(place.desired, place.memory, read.up, read.down, read.version)

    def open_intents(self) -> tuple[Intent, ...]:
        with self._database.reading() as sql:
            rows = sql.run(
                "SELECT id, decision, epoch, at_us, action, result, ended_us, text FROM intent WHERE result = '' "
                "ORDER BY id"
            )
        return tuple(map(self._intent, rows))

    def intents(
        self, *, node: str = "", fleet: str = "", since: datetime | None = None, limit: int = 100
    ) -> tuple[Intent, ...]:
        with self._database.reading() as sql:
            rows = sql.run(
                "SELECT id, decision, epoch, at_us, action, result, ended_us, text FROM intent WHERE at_us >= ? "
                "AND (? = '' OR id IN (SELECT intent FROM intent_node WHERE node = ?)) AND (? = '' OR fleet = ?) "
                "ORDER BY id DESC LIMIT ?",
                [since_us(since), as_key(node), as_key(node), as_key(fleet), as_key(fleet), limit],
            )
        return tuple(map(self._intent, rows))

    def last_look(self) -> Look | None:
        with self._database.reading() as sql:
            rows = kept_rows(sql, _LOOK, _LOOKED)
        looked = _of_this_release(_Looked, rows.get(_LOOKED))
        written = bytes(rows.get(_LOOK, b""))
        # Who watches reads it twice a second, and it seldom changes.
        if written != self._read_look[0]:
            self._read_look = written, _of_this_release(Look, written or None)
        look = self._read_look[1]
        if look is None or looked is None:
            return None
        memory = replace(look.decision.memory, spent=looked.spent)
        return Look(
            looked.epoch,
            look.spec,
            replace(look.decision, at=looked.at, cost=looked.cost, memory=memory, budgets=looked.budgets),
            replace(look.state, at=looked.at) if look.state else None,
        )

    def trouble(self) -> Trouble | None:
        with self._database.reading() as sql:
            rows = kept_rows(sql, _TROUBLE)
        return _of_this_release(Trouble, rows.get(_TROUBLE))  # type: ignore[no-any-return]

    def decisions(self, since: datetime | None = None, limit: int = 100) -> tuple[Decided, ...]:
        with self._database.reading() as sql:
            rows = sql.run(
                "SELECT id, epoch, at_us, body, world, memory FROM decision WHERE at_us >= ? ORDER BY id DESC LIMIT ?",
                [since_us(since), limit],
            )
        return tuple(map(self._decided, rows))

    def samples(self, since: datetime | None = None) -> tuple[Sample, ...]:
        with self._database.reading() as sql:
            rows = sql.run(
                "SELECT body FROM sample WHERE at_us >= ? ORDER BY at_us",
                [since_us(since)],
            )
        return tuple(self._read(Sample, body) for (body,) in rows)

    def launches(self, since: datetime | None = None) -> tuple[LaunchRecord, ...]:
        with self._database.reading() as sql:
            rows = sql.run(
                "SELECT body FROM launch WHERE asked_us >= ? ORDER BY asked_us, node", [since_us(since)]
            )
        return tuple(self._read(LaunchRecord, body) for (body,) in rows)

    def jobs(self, since: datetime | None = None, *, job_id: int | None = None) -> tuple[JobRecord, ...]:
        with self._database.reading() as sql:
            rows = sql.run(
                "SELECT body FROM job WHERE submitted_us >= ? AND (? < 0 OR job_id = ?) ORDER BY submitted_us, job_id",
                [since_us(since), -1 if job_id is None else job_id, -1 if job_id is None else job_id],
            )
        return tuple(self._read(JobRecord, body) for (body,) in rows)

    def close(self) -> None:
        self._database.close()

    def _is_small(self, state: ClusterState) -> bool:
        about_bytes = len(state.jobs) * _BYTES_OF_A_JOB + len(state.nodes) * _BYTES_OF_A_NODE
        if state.pools.kubernetes is not None:
            about_bytes += len(state.pools.kubernetes.pods) * _BYTES_OF_A_POD
        return about_bytes <= self._largest_state_bytes

    @contextmanager
    def _leading(self, lease: Lease, *, durable: bool = True) -> Iterator[Transaction]:
        with self._database.writing(durable=durable) as sql:
            held = sql.change(
                "UPDATE lease SET epoch = epoch WHERE id = 1 AND holder = ? AND epoch = ? AND is_held = 1",
                [lease.holder, lease.epoch],
            )
            if not held:
                ((holder, epoch, is_held),) = sql.run("SELECT holder, epoch, is_held FROM lease")
                now = f"{holder} has it, with epoch {epoch}" if is_held else "nobody has it"
                raise Fenced(
                    f"{lease.holder} has the lease of the journal {self._database.where} no more "
                    f"(epoch {lease.epoch}): {now}"
                )
            yield sql

    def _decided(self, row: Row) -> Decided:
        id, epoch, at_us, written, state, memory = row
        body = self._read(_Body, written)
        return Decided(
            id,
            epoch,
            from_us(at_us),
            body.actions,
            body.waiting,
            body.cost,
            _of_this_release(ClusterState, state),
            _of_this_release(Memory, memory),
            body.counts,
            body.waiting_pods,
        )

    def _intent(self, row: Row) -> Intent:
        id, decision, epoch, at_us, action, result, ended_us, text = row
        return Intent(
            id,
            decision,
            epoch,
            from_us(at_us),
            self._read(Action, action),
            result,
            None if ended_us is None else from_us(ended_us),
            self._read(str, text),
        )

    def _read(self, kind: Any, written: bytes) -> Any:
        try:
            return loads(kind, bytes(written))
        except Unreadable as error:
            raise JournalError(
                f"the journal {self._database.where} holds what cannot be read ({error}); it is damaged, or another "
                "release of Tidepool wrote it: put back a copy, or move it aside"
            ) from error


def _of_this_release(kind: Any, written: bytes | None) -> Any:
    """Return what is of the past; None where another release, which had other fields, wrote it."""
    if written is None:
        return None
    try:
        return loads(kind, bytes(written))
    except Unreadable:
        return None


def _fleet(action: Action) -> str:
    return action.machine.fleet if isinstance(action, DeleteOrphan) else action.fleet


def _nodes(action: Action) -> Collection[str]:
    return (action.machine.node,) if isinstance(action, DeleteOrphan) else action.nodes
