"""One operation, played in this process: journal on disk, provider in memory, everything watched.

The loop runs what goes to other threads at once, so that a run is the same each time.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidepool.engine import urn as urns
from tidepool.engine.deployment.deployment import Deployment, Result
from tidepool.engine.deployment.live import Durable
from tidepool.engine.deployment.options import Kind, Options, Request, Targets
from tidepool.engine.events import Diagnostic, Event, Op, ResourceOutputs, StepMetadata
from tidepool.engine.providers.discovery import PluginRequest
from tidepool.engine.resource import ResourceState, Snapshot, decode_resource, encode_resource
from tidepool.engine.state import journal
from tidepool.engine.state.checkpoint import (
    decode_deployment,
    encode_deployment,
)
from tidepool.engine.state.folder import FileLog
from tidepool.engine.state.journal import End, Journal, Record
from tidepool.engine.state.references import normalize_urn_references, verify_integrity

from .programs import PROJECT, STACK, Program
from .world import Faults, MemoryProvider, World


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done. ``seed`` decides who goes first wherever several could."""

    kind: Kind = "update"
    faults: Faults = field(default_factory=dict)
    continue_on_error: bool = False
    parallel: int = 8
    refresh: bool = False
    run_program: bool = False
    targets: tuple[str, ...] = ()
    target_dependents: bool = False
    preview: bool = False
    seed: int = 0

    @property
    def refreshes(self) -> bool:
        """Whether everything is looked at."""
        return self.refresh or self.kind == "refresh"


@dataclass(frozen=True, slots=True)
class Moment:
    """How many records were on disk, and what existed."""

    records: int
    world: World


@dataclass(frozen=True, slots=True)
class Played:
    """What an operation came to, and all that was seen of it."""

    base: Snapshot
    result: Result
    records: tuple[Record, ...]
    moments: Sequence[Moment]
    events: Sequence[Event]
    effects: Sequence[str]

    @property
    def errors(self) -> list[str]:
        return [e.message for e in self.events if isinstance(e, Diagnostic) and e.severity == "error"]

    @property
    def snapshot(self) -> Snapshot:
        """The state as it is saved."""
        return saved(self.result.snapshot)

    def at(self, records: int) -> Snapshot:
        """What is recovered where the journal ends after so many records."""
        return saved(journal.fold(self.base, self.records[:records]))


class InlineLoop(asyncio.SelectorEventLoop):
    """A loop without other threads: what is handed to them is done at once."""

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - as an executor does
            future.set_exception(error)
        return future


class WatchedJournal(Journal):
    """A journal that says when records came to disk."""

    wrote: Callable[[], None] = staticmethod(lambda: None)
    records = 0

    def write(self, text: bytes) -> None:
        super().write(text)
        self.records += text.count(b"\n")
        self.wrote()


def play(order: Order, program: Program, base: Snapshot, world: World, folder: Path) -> Played:
    """Do ``order``; ``world`` is changed."""
    with asyncio.Runner(loop_factory=InlineLoop) as runner:
        return runner.run(_play(order, program, base, world, folder))


async def _play(order: Order, program: Program, base: Snapshot, world: World, folder: Path) -> Played:
    chance = random.Random(order.seed)
    events: list[Event] = []
    path = folder / "journal"
    file = None if order.preview else WatchedJournal(FileLog(path), "", order.kind)
    durable = Durable(file, _encode) if file is not None else None
    moments: list[Moment] = []

    def see() -> None:
        moments.append(Moment(file.records - 1 if file is not None else 0, world.copy()))

    if file is not None:
        file.wrote = see
    providers: list[MemoryProvider] = []

    down = {r.id for r in base.resources if r.pending_replacement}
    known = {r.id: r for r in base.resources if is_real(r)}
    retained = {name for n in program.nodes if n.retain for name in (n.name, *(a.name for a in n.aliases))}

    def needing(id: str) -> list[str]:
        """What stands on ``id`` in a destroy. In an update, it may be about to let go of it."""
        if order.kind != "destroy" or id not in known:
            return []
        return [
            t.id
            for t in world.things.values()
            if id in t.inputs.get("refs", ())
            and t.id in known.keys() - world.unsure
            # What ignores the change of its reference does not say that it needs what it has.
            and known[id].urn in known[t.id].dependencies
            and not known[t.id].retain_on_delete
            and not (order.run_program and urns.name_of(known[t.id].urn) in retained)
            # What is inside of another goes with that, whenever it goes.
            and "inside" not in t.inputs
        ]

    async def load(request: PluginRequest) -> MemoryProvider:
        def turns() -> int:
            return chance.choice((0, 0, 1, 2, 5, 40))

        provider = MemoryProvider(world, order.faults, turns, see, deployment.cancel, needing, down)
        providers.append(provider)
        return provider

    options = Options(
        order.kind,
        order.preview,
        order.parallel,
        order.continue_on_error,
        refresh=order.refreshes,
        run_program=order.run_program,
        targets=Targets(tuple(f"**::{name}" for name in order.targets)),
        target_dependents=order.target_dependents,
    )
    request = Request(STACK, PROJECT, "organization", folder, folder, options, base)
    before = len(world.effects)

    def hear(event: Event) -> None:
        events.append(event)
        # What a refresh found is recorded as a whole when all is read: it can be read again.
        if isinstance(event, ResourceOutputs) and file is not None and order.kind != "refresh":
            check_durable(event.metadata, base, path)

    deployment = Deployment(request, hear, load, program.run, durable)
    result = await deployment.run()
    assert all(p.closed for p in providers)
    records: tuple[Record, ...] = ()
    if file is not None and durable is not None:
        await durable.flush()
        durable.close()
        file.close()
        interrupted = journal.read(FileLog(path), _decode)
        assert interrupted is not None
        records = interrupted.records
    played = Played(base, result, records, moments, events, world.effects[before:])
    verify(played, world)
    return played


def check_durable(step: StepMetadata, base: Snapshot, path: Path) -> None:
    """A step that is reported is on disk."""
    interrupted = journal.read(FileLog(path), _decode)
    assert interrupted is not None
    on_disk = {r.id: r for r in journal.fold(base, interrupted.records).resources if is_real(r)}
    new, old = step.new, step.old
    if step.op in (Op.CREATE, Op.CREATE_REPLACEMENT, Op.UPDATE) and new is not None and is_real(new):
        assert on_disk[new.id].inputs == new.inputs
    elif step.op in (Op.DELETE, Op.DELETE_REPLACED) and old is not None:
        assert old.id not in on_disk


def verify(played: Played, world: World) -> None:
    """What holds for every operation, however it ended."""
    for error in played.errors:
        assert "Traceback" not in error
    verify_integrity(played.snapshot)
    assert journal.fold(played.base, played.records) == played.result.snapshot
    states = States(played.base)
    fold = journal.Fold(played.base)
    done = 0
    states.agree(played.base, played.moments[0].world if played.moments else world)
    for moment in played.moments:
        for record in played.records[done : moment.records]:
            fold.apply(record)
            states.learn(record)
            # Integral after each record, not only after each write: the last may be torn anywhere.
            verify_integrity(normalize_urn_references(fold.snapshot()))
        done = moment.records
        states.agree(fold.snapshot(), moment.world)
    for record in played.records[done:]:
        fold.apply(record)
        states.learn(record)
        verify_integrity(normalize_urn_references(fold.snapshot()))
    states.agree(played.snapshot, world)


class States:
    """The last known state of everything, to tell what was let go from what was forgotten."""

    def __init__(self, base: Snapshot) -> None:
        self._last: dict[str, ResourceState] = {r.id: r for r in base.resources if is_real(r)}

    def learn(self, record: Record) -> None:
        """Take up what a record tells."""
        if isinstance(record, End):
            for _, state in (*record.puts, *record.amends):
                self._last[state.id] = state

    def agree(self, snapshot: Snapshot, world: World) -> None:
        """The state is what exists, but for what is listed as pending, and what was let go on purpose."""
        known = {r.id: r for r in snapshot.resources if is_real(r)}
        # What is being made has no id yet; what is being changed may get a new URN at the same time.
        pending = {(op.type, op.resource.id or op.resource.urn) for op in snapshot.pending_operations}
        for id, thing in world.things.items():
            state = known.get(id)
            if state is None:
                if self._was_let_go(id, world):
                    world.let_go.add(id)
                listed = ("creating", thing.urn) in pending
                assert listed or id in world.let_go | world.unsure, f"{id} is forgotten"
            elif not state.init_errors and ("updating", id) not in pending and id not in world.unsure:
                assert state.inputs == thing.inputs, f"{id} is not known as it is"
        for id, state in known.items():
            if id not in world.things and id not in world.unsure:
                # It may have gone with what it was in; its place in another makes it be replaced anyway.
                went_with = "inside" in state.inputs and state.inputs["inside"] not in world.things
                assert ("deleting", id) in pending or went_with, f"{id} is gone"

    def _was_let_go(self, id: str, world: World) -> bool:
        state = self._last.get(id)
        if state is None:
            return False
        # A resource that goes with another is not deleted by itself, as with the CLI: its delete is done
        # when that of the other is.
        inputs = world.things[id].inputs
        # As with the CLI, a destroy that runs the program believes what that says of it now.
        is_said_inside = bool(state.deleted_with) and "inside" not in inputs
        return state.retain_on_delete or is_said_inside or inputs.get("inside") in world.things


def is_real(state: ResourceState) -> bool:
    """Whether the provider has the resource."""
    return state.custom and not state.is_provider and not state.external and not state.pending_replacement


def saved(snapshot: Snapshot) -> Snapshot:
    """``snapshot``, written to a stack's file and read again."""
    written = json.dumps(encode_deployment(snapshot, PLAIN, datetime.now(UTC)))
    return decode_deployment(json.loads(written), PLAIN)


class _Plain:
    """Encrypts nothing."""

    def encrypt(self, plaintext: str, /) -> str:
        return plaintext

    def decrypt(self, ciphertext: str, /) -> str:
        return ciphertext


PLAIN = _Plain()


def lost(snapshot: Snapshot, world: World) -> World:
    """``world`` as it is for an engine that goes on from ``snapshot``: what it does not know is unanswered."""
    known = {r.id for r in snapshot.resources} | world.let_go
    after = world.copy()
    after.unanswered = {t.urn: t.id for t in world.things.values() if t.id not in known}
    after.unsure |= {op.resource.id for op in snapshot.pending_operations if op.resource.id}
    return after


def unprotected(base: Snapshot) -> Snapshot:
    """``base`` after `state unprotect --all`."""
    return replace(base, resources=tuple(replace(r, protect=False) for r in base.resources))


def differences(a: Snapshot, b: Snapshot) -> list[str]:
    """How two snapshots differ, but for their order."""
    of_a, of_b = ({(r.urn, r.id): r for r in s.resources} for s in (a, b))
    if of_a.keys() != of_b.keys():
        return [f"{name}: only in one" for name in of_a.keys() ^ of_b.keys()]
    return [
        f"{x.urn}: {field.name}: {getattr(x, field.name)!r} and {getattr(y, field.name)!r}"
        for name, x in of_a.items()
        for y in [of_b[name]]
        for field in fields(ResourceState)
        if getattr(x, field.name) != getattr(y, field.name)
    ]


def changes(played: Played) -> dict[Op, int]:
    """The steps that changed something."""
    return {op: n for op, n in played.result.changes.items() if op is not Op.SAME}


def _encode(state: ResourceState) -> dict[str, Any]:
    return encode_resource(state, PLAIN.encrypt)


def _decode(raw: Any) -> ResourceState:
    return decode_resource(raw, PLAIN.decrypt)
