"""The journal of an operation, and the fold that makes a snapshot of it.

While an operation runs, its checkpoint is not rewritten. Each step appends a record before its effect
(:class:`Begin`) and after it (:class:`End`), made durable by one ``fsync`` for all that wait. The snapshot
at any moment is a fold of the records over the checkpoint that the operation began with: the running
operation folds as it goes, and after a crash :func:`fold` makes it of what is in the file. There is one fold.

Resources are named by numbers: those of the checkpoint by their place in it, new ones by the next free
number. A resource that is updated keeps its number.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tidepool.engine.errors import EngineError
from tidepool.engine.resource import PendingOperation, ResourceState, Snapshot
from tidepool.engine.state.bucket import Log
from tidepool.engine.state.files import StorageError
from tidepool.engine.state.references import normalize_urn_references, ordered, repaired

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Begin:
    """A step is about to have its effect; until its End, what becomes of ``pending`` is not known."""

    step: int
    pending: PendingOperation


@dataclass(frozen=True, slots=True)
class End:
    """The result of a step.

    Attributes:
        step: the number of its Begin; None for steps that have no effect outside the state.
        puts: resources that now stand, in this order, after all that were put before.
        amends: resources whose state changed where they stand; those that are gone stay so.
        keeps: resources of the checkpoint that stand unchanged, in the order of puts.
        drops: resources that are gone.
        repairs: from now on, others that refer to what is gone let go of it.
    """

    step: int | None = None
    puts: tuple[tuple[int, ResourceState], ...] = ()
    amends: tuple[tuple[int, ResourceState], ...] = ()
    keeps: tuple[int, ...] = ()
    drops: tuple[int, ...] = ()
    repairs: bool = False


Record: TypeAlias = Begin | End


class Fold:
    """The resources of a stack while an operation changes them.

    Resources that the operation has seen come first, in the order in which their steps ended; those that
    it has not seen follow, in the order of the checkpoint. So a resource stands after those that it depends
    on; where the two kinds depend on each other, what needs another is moved after it.
    """

    def __init__(self, base: Snapshot) -> None:
        self._origin = base
        self._unseen: dict[int, ResourceState] = dict(enumerate(base.resources))
        self._seen: dict[int, ResourceState] = {}
        self._pending: dict[int, PendingOperation] = {}
        self._repairs = False

    def apply(self, record: Record) -> None:
        if isinstance(record, Begin):
            self._pending[record.step] = record.pending
            return
        if record.step is not None:
            self._pending.pop(record.step, None)
        self._repairs |= record.repairs
        for number in record.drops:
            self._unseen.pop(number, None)
            self._seen.pop(number, None)
        for number in record.keeps:
            state = self._unseen.pop(number, None)
            if state is not None:
                self._seen[number] = state
        for number, state in record.puts:
            self._unseen.pop(number, None)
            self._seen[number] = state
        for number, state in record.amends:
            for home in (self._seen, self._unseen):
                if number in home:
                    home[number] = state

    def resources(self) -> Iterator[ResourceState]:
        """The resources as they stand."""
        yield from self._seen.values()
        yield from self._unseen.values()

    def snapshot(self) -> Snapshot:
        """The stack as it stands.

        A create that was cut off in an earlier operation stays listed until a refresh clears it: whether
        the resource exists can only be told by looking.
        """
        resources = ordered(tuple(self.resources()))
        inherited = [op for op in self._origin.pending_operations if op.type == "creating"]
        return replace(
            self._origin,
            resources=tuple(repaired(resources)) if self._repairs else resources,
            pending_operations=(*self._pending.values(), *inherited),
        )


Encode: TypeAlias = Callable[[ResourceState], Mapping[str, Any]]
Decode: TypeAlias = Callable[[Mapping[str, Any]], ResourceState]


def encode_record(record: Record, encode: Encode) -> dict[str, Any]:
    """A record as JSON; ``encode`` writes a resource as the checkpoint does, its secrets encrypted."""
    if isinstance(record, Begin):
        resource = encode(record.pending.resource)
        return {"step": record.step, "begin": record.pending.type, "resource": resource}
    fields = {
        "puts": [[n, encode(s)] for n, s in record.puts],
        "amends": [[n, encode(s)] for n, s in record.amends],
        "keeps": record.keeps,
        "drops": record.drops,
        "mends": record.repairs,
    }
    return {"step": record.step, **{key: value for key, value in fields.items() if value}}


def decode_record(fields: Mapping[str, Any], decode: Decode) -> Record:
    """The record that :func:`encode_record` wrote."""
    if "begin" in fields:
        pending = PendingOperation(decode(fields["resource"]), fields["begin"])
        return Begin(fields["step"], pending)
    return End(
        fields["step"],
        tuple((n, decode(s)) for n, s in fields.get("puts", ())),
        tuple((n, decode(s)) for n, s in fields.get("amends", ())),
        tuple(fields.get("keeps", ())),
        tuple(fields.get("drops", ())),
        fields.get("mends", False),
    )


class Journal:
    """The journal of an operation, in ``log``: one JSON object a line.

    The first line names the checkpoint that the records build on, by digest. :meth:`append` and
    :meth:`take` belong to one thread; what ``take`` gave may be handed to :meth:`write` on another, one
    call at a time.
    """

    def __init__(self, log: Log, base_digest: str, operation: str) -> None:
        """Begin a journal; raises EngineError where it cannot be written."""
        self._log = log
        #: Whether it holds anything but its first line.
        self.is_empty = True
        self._lines: list[bytes] = []
        self._unwritten = b""
        self.write(_line({"journal": FORMAT, "base": base_digest, "operation": operation}))

    def append(self, fields: Mapping[str, Any]) -> None:
        """Remember one record for the next write."""
        self.is_empty = False
        self._lines.append(_line(fields))

    def take(self) -> bytes:
        """Return the lines that were appended since the last call."""
        lines, self._lines = self._lines, []
        return b"".join(lines)

    def write(self, text: bytes) -> None:
        """Write ``text`` and wait until it is durable.

        Raises EngineError where it cannot; the text is tried again with the next.
        """
        text = self._unwritten + text
        try:
            self._log.write(text)
        except StorageError as error:
            self._unwritten = text
            raise EngineError(
                f"{error}. No step is begun without it; "
                "make room or repair the folder, and run the operation again: it goes on from the steps recorded so far."
            ) from error
        self._unwritten = b""

    def commit(self, digest: str) -> None:
        """Say that all records are in the checkpoint with this digest, which is about to be saved."""
        self.append({"commit": digest})
        self.write(self.take())

    def remove(self) -> None:
        """Delete the journal: its records are in the checkpoint, or there are none."""
        self._log.remove()

    def close(self) -> None:
        """Close the journal and leave it where it is."""
        self._log.close()


def commit_left(log: Log, digest: str) -> None:
    """As :meth:`Journal.commit`, for a journal that an operation left behind."""
    log.amend(_line({"commit": digest}))


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A journal that an operation left behind."""

    base_digest: str
    operation: str
    records: tuple[Record, ...]
    commit_digest: str | None


def read(log: Log, decode: Decode) -> Interrupted | None:
    """The journal in ``log``, or None where there is none.

    A last line that is cut off was never reported to anybody: it is left out. Raises EngineError where a
    line before the last is damaged.
    """
    whole = (log.read() or b"").split(b"\n")[:-1]
    if not whole:
        return None  # not even the header was finished: nothing had begun
    try:
        header = json.loads(whole[0])
        if header["journal"] != FORMAT:
            raise EngineError(f"the journal {log.location} was written by another version of this engine")
        records: list[Record] = []
        commit = None
        for line in whole[1:]:
            fields = json.loads(line)
            if "commit" in fields:
                commit = fields["commit"]
            else:
                records.append(decode_record(fields, decode))
    except (ValueError, KeyError, TypeError) as error:
        raise EngineError(
            f"the journal {log.location} of an interrupted operation is damaged: {error}. "
            "It tells what that operation made. Move it away and run a refresh to go on without it."
        ) from error
    return Interrupted(header["base"], header["operation"], tuple(records), commit)


def fold(base: Snapshot, records: Iterable[Record]) -> Snapshot:
    """The snapshot that ``records`` make of ``base``."""
    state = Fold(base)
    for record in records:
        state.apply(record)
    return state.snapshot()


def _line(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Recovered:
    """A snapshot with its journal in it. ``steps`` counts the records; ``operation`` is what was cut off."""

    snapshot: Snapshot
    operation: str
    steps: int

    @property
    def message(self) -> str:
        pending = len(self.snapshot.pending_operations)
        under_way = f"; {pending} steps were under way and are listed as pending" if pending else ""
        return (
            f"the last {self.operation} of this stack was cut off: {self.steps} records of its journal "
            f"were recovered{under_way}"
        )


def recover(
    log: Log, checkpoint: bytes | None, load: Callable[[], Snapshot], decode: Decode
) -> Recovered | None:
    """Make the journal in ``log`` part of the stack; None where there is nothing to recover.

    ``checkpoint`` is what the stack's file holds, and ``load`` reads it. Changes nothing: without the stack's
    lock, the journal may be that of an operation that is under way.

    Raises:
        EngineError: where the checkpoint was changed by somebody else since.
    """
    interrupted = read(log, decode)
    if interrupted is None or not interrupted.records:
        return None
    current = digest(checkpoint)
    if interrupted.commit_digest == current:
        return None
    if interrupted.base_digest != current:
        made = len(interrupted.records)
        raise EngineError(
            f"the last {interrupted.operation} of this stack was cut off, and its state was changed by "
            f"something else since. The {made} records of what it did are in {log.location} and are not part of "
            f"the state. Look through them, make the state right (`stack export`, `stack import`), and move "
            "the journal away to go on"
        )
    # As the checkpoint that is written of it, so that a renamed resource is found by its new name alone.
    snapshot = normalize_urn_references(fold(load(), interrupted.records))
    return Recovered(snapshot, interrupted.operation, len(interrupted.records))


def digest(checkpoint: bytes | None) -> str:
    """The SHA-256 of what a stack's file holds; empty where there is none."""
    return "" if checkpoint is None else hashlib.sha256(checkpoint).hexdigest()
