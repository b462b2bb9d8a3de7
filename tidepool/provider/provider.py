"""Pulumi's requests, each answered in a thread by the kind of resource that it is about."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.struct_pb2 import Struct, Value
from pulumi.runtime.proto.provider_pb2 import (
    CheckFailure,
    CheckRequest,
    CheckResponse,
    CreateRequest,
    CreateResponse,
    DeleteRequest,
    DiffRequest,
    DiffResponse,
    PropertyDiff,
    ReadRequest,
    ReadResponse,
    UpdateRequest,
    UpdateResponse,
)

from tidepool.cluster.failures import Note, marked
from tidepool.resources.kind import AnyKind, Refusal, Task, Unfinished
from tidepool.resources.reading import Change, Mistake, read
from tidepool.resources.values import UNKNOWN, Inputs, Plain, Properties, has_secret, plain, property_value

_TIMEOUT_S: Final = 5.0


class EngineLog:
    """Messages to the engine at ``address``; with an empty one they go nowhere. For many threads."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._channel: Any = None

    def attach(self, address: str) -> None:
        """Send messages to another engine from here on."""
        with self._lock:
            channel, self._channel, self._address = self._channel, None, address
        if channel is not None:
            channel.close()

    def status(self, urn: str, text: str) -> None:
        """Show how far an operation is, until the next status or its end."""
        self._send("INFO", urn, text, ephemeral=True)

    def info(self, urn: str, text: str) -> None:
        self._send("INFO", urn, text)

    def warn(self, urn: str, text: str) -> None:
        self._send("WARNING", urn, text)

    def note(self, urn: str, note: Note) -> None:
        (self.warn if note.is_warning else self.info)(urn, note.text)

    def _send(self, severity: str, urn: str, text: str, *, ephemeral: bool = False) -> None:
        if not self._address:
            return
        from pulumi.runtime.proto import engine_pb2

        message = engine_pb2.LogRequest(
            severity=engine_pb2.LogSeverity.Value(severity), message=text, urn=urn, ephemeral=ephemeral
        )
        try:
            self._stub().Log(message, timeout=_TIMEOUT_S)
        except (grpc.RpcError, ValueError):
            # An engine that is ending listens no more, and the channel to one that has ended is closed; that is no
            # reason to fail what is under way.
            return

    def _stub(self) -> Any:
        from pulumi.runtime.proto import engine_pb2_grpc

        with self._lock:
            if self._channel is None:
                self._channel = grpc.insecure_channel(self._address)
            return engine_pb2_grpc.EngineStub(self._channel)


#: More than the engine runs at once: most of them only wait.
_WORKERS: Final = 320

VERSION: Final = "0.1.0"

_T = TypeVar("_T")


class InitializationFailed(Exception):
    """A resource that Pulumi has to know although it is not as it should be."""

    def __init__(self, id: str, properties: Struct, reason: str) -> None:
        super().__init__(reason)
        self.id = id
        self.properties = properties
        self.reason = reason


class TidepoolProvider:
    """The provider. ``kind_of`` finds a kind by its token, and raises KeyError where there is none.

    It serves one operation after the other, for as long as none leaves work behind: ``end`` is called then.
    """

    def __init__(
        self, kind_of: Callable[[str], AnyKind], log: EngineLog, end: Callable[[], None] = lambda: None
    ) -> None:
        self._kind_of = kind_of
        self._log = log
        self._end = end
        self._threads = ThreadPoolExecutor(_WORKERS, thread_name_prefix="operation")
        self._cancelled = threading.Event()

    def begin(self) -> None:
        """Another operation begins, which nobody has cancelled."""
        self._cancelled = threading.Event()

    async def schema(self) -> str:
        return await self._in_thread(self._schema)

    async def configure(self, configuration: Properties) -> None:
        """Take the configuration of the provider, of which this one has none."""

    async def check(self, request: CheckRequest) -> CheckResponse:
        return await self._in_thread(self._check, request)

    async def diff(self, request: DiffRequest) -> DiffResponse:
        return await self._in_thread(self._diff, request)

    async def create(self, request: CreateRequest) -> CreateResponse:
        return await self._in_thread(self._create, request)

    async def read(self, request: ReadRequest) -> ReadResponse:
        return await self._in_thread(self._read, request)

    async def update(self, request: UpdateRequest) -> UpdateResponse:
        return await self._in_thread(self._update, request)

    async def delete(self, request: DeleteRequest) -> None:
        await self._in_thread(self._delete, request)

    def cancel(self) -> None:
        # What would wait for long ends; all else is cut off with the process, which it is made for.
        self._cancelled.set()

    async def _in_thread(self, work: Callable[..., _T], *request: Any) -> _T:
        under_way = self._threads.submit(work, *request)
        try:
            return await asyncio.wrap_future(under_way)
        except asyncio.CancelledError:
            if under_way.running():
                # The engine is gone, and threads cannot be stopped: what this one still does, it would do in the middle of
                # the next operation. All that it does may be cut off anywhere.
                self._end()
            raise

    # In threads

    def _schema(self) -> str:
        from tidepool.provider.kinds import public_tokens
        from tidepool.provider.schema import schema_of

        return schema_of([self._kind_of(token).resource for token in public_tokens()], VERSION)

    def _check(self, request: CheckRequest) -> CheckResponse:
        kind = self._kind(request.urn)
        declared = kind.resource.properties.values()
        # What is derived is as it was before, until it is derived anew.
        derived = {each.wire for each in declared if each.role == "derived"}
        news = request.news.fields
        before = {key: value for key, value in request.olds.fields.items() if key in derived}
        found = read(kind.resource.model, _plain({**news, **before}), strict=True)
        added: dict[str, Plain] = {each.wire: each.default for each in declared if each.role == "condition"}
        mistakes = found.mistakes
        if mistakes or found.has_unknowns:
            added |= dict.fromkeys(derived, UNKNOWN)
        else:
            told = tuple(kind.mistakes(found.value))
            for note in told:
                if isinstance(note, Note):
                    self._log.note(request.urn, note)
            mistakes = tuple(each for each in told if isinstance(each, Mistake))
            if not mistakes:
                added |= kind.derived(found.value)
        return CheckResponse(
            inputs=Struct(fields={**news, **_values(added)}),
            failures=[CheckFailure(property=each.property, reason=each.reason) for each in mistakes],
        )

    def _diff(self, request: DiffRequest) -> DiffResponse:
        kind = self._kind(request.urn)
        found = kind.diff(_plain(request.olds.fields), _plain(request.news.fields))
        changes = [change for change in found if change.key not in request.ignoreChanges]
        replaces = [change.key for change in changes if change.replaces]
        return DiffResponse(
            changes=DiffResponse.DIFF_SOME if changes else DiffResponse.DIFF_NONE,
            replaces=replaces,
            deleteBeforeReplace=bool(replaces) and kind.resource.delete_first,
            diffs=[change.key for change in changes],
            detailedDiff={change.key: _property_diff(change) for change in changes},
            hasDetailedDiff=True,
        )

    def _create(self, request: CreateRequest) -> CreateResponse:
        kind = self._kind(request.urn)
        properties = request.properties.fields
        inputs = _plain(properties)
        outputs = dict(kind.foreseen(inputs))
        if request.preview:
            return CreateResponse(properties=_outputs(kind, properties, outputs))
        wanted = _typed(kind, inputs)
        try:
            made = kind.create(wanted, self._task(kind, request))
        except Unfinished as unfinished:
            so_far = _outputs(kind, properties, {**outputs, **unfinished.outputs})
            raise InitializationFailed(unfinished.id, so_far, _marked(unfinished)) from unfinished
        return CreateResponse(id=made.id, properties=_outputs(kind, properties, {**outputs, **made.outputs}))

    def _update(self, request: UpdateRequest) -> UpdateResponse:
        kind = self._kind(request.urn)
        olds, news = request.olds.fields, request.news.fields
        inputs = _plain(news)
        declared = kind.resource.properties.values()
        inputs_of_it = {each.wire for each in declared if each.role != "output"}
        properties = {key: value for key, value in olds.items() if key not in inputs_of_it} | {**news}
        outputs = dict(kind.foreseen(inputs))
        old, found = _typed(kind, _plain(olds)), read(kind.resource.model, inputs)
        if not found.has_unknowns:
            for note in kind.refuse_update(old, found.value) or ():
                self._log.note(request.urn, note)
        if request.preview:
            outputs |= {each.wire: UNKNOWN for each in declared if each.remade}
        else:
            try:
                outputs |= kind.update(request.id, old, found.value, self._task(kind, request))
            except Unfinished as unfinished:
                so_far = _outputs(kind, properties, {**outputs, **unfinished.outputs})
                raise InitializationFailed(unfinished.id, so_far, _marked(unfinished)) from unfinished
        return UpdateResponse(properties=_outputs(kind, properties, outputs))

    def _read(self, request: ReadRequest) -> ReadResponse:
        kind = self._kind(request.urn)
        properties, inputs = request.properties.fields, request.inputs.fields
        if not properties:
            raise Refusal(
                f"{_token(request.urn)} {request.id!r} cannot be imported: register it in the program, and `up` "
                "takes what is there already"
            )
        state = _plain(properties)
        found = kind.look(request.id, _typed(kind, state))
        if found is None:
            return ReadResponse()
        secrets = {key for key in found if key in inputs and has_secret(inputs[key])}
        changed = _values(found, secrets)
        foreseen = kind.foreseen(state | dict(found)).items()
        new = _values({key: value for key, value in foreseen if state.get(key) != value})
        outputs = {each.wire for each in kind.resource.properties.values() if each.role == "output"}
        of_inputs = {key: value for key, value in changed.items() if key not in outputs}
        return ReadResponse(
            id=request.id,
            properties=Struct(fields={**properties, **new, **changed}),
            inputs=Struct(fields={**inputs, **of_inputs}),
        )

    def _delete(self, request: DeleteRequest) -> None:
        kind = self._kind(request.urn)
        kind.delete(request.id, _typed(kind, _plain(request.properties.fields)), self._task(kind, request))

    def _kind(self, urn: str) -> AnyKind:
        token = _token(urn)
        try:
            return self._kind_of(token)
        except KeyError:
            raise Refusal(
                f"the provider tidepool has no resources of type {token}; `tidepool.resources` has those that it has"
            ) from None

    def _task(self, kind: AnyKind, request: CreateRequest | UpdateRequest | DeleteRequest) -> Task:
        allowed_s = request.timeout or kind.timeout_s
        return Task(
            urn=request.urn,
            timeout_s=allowed_s,
            deadline=time.monotonic() + allowed_s,
            status=partial(self._log.status, request.urn),
            info=partial(self._log.info, request.urn),
            warn=partial(self._log.warn, request.urn),
            cancelled=self._cancelled.is_set,
        )


def _token(urn: str) -> str:
    """Return the type of ``urn:pulumi:STACK::PROJECT::TYPE::NAME``, where that of its parents stands as well: A$B$C."""
    return urn.split("::")[2].rpartition("$")[2]


def _marked(unfinished: Unfinished) -> str:
    return marked(unfinished.reason, unfinished.cause)


def _plain(properties: Properties) -> dict[str, Plain]:
    return {key: plain(value) for key, value in properties.items()}


def _values(properties: Mapping[str, Plain], secrets: Collection[str] = ()) -> dict[str, Value]:
    return {key: property_value(value, secret=key in secrets) for key, value in properties.items()}


def _typed(kind: AnyKind, inputs: Inputs) -> Any:
    found = read(kind.resource.model, inputs)
    if found.mistakes:
        said = "; ".join(f"{mistake.property}: {mistake.reason}" for mistake in found.mistakes)
        raise Refusal(f"the inputs in the state cannot be read ({said}); was it written by another version?")
    return found.value


def _outputs(kind: AnyKind, inputs: Properties, outputs: Mapping[str, Plain]) -> Struct:
    """The inputs as they came, secret ones too, and what the resource has besides."""
    declared = kind.resource.properties.values()
    secrets = {each.wire for each in declared if each.role == "output" and each.is_secret}
    return Struct(fields={**inputs, **_values(outputs, secrets)})


def _property_diff(change: Change) -> PropertyDiff:
    if change.is_new:
        kind = PropertyDiff.ADD_REPLACE if change.replaces else PropertyDiff.ADD
    elif change.is_gone:
        kind = PropertyDiff.DELETE_REPLACE if change.replaces else PropertyDiff.DELETE
    else:
        kind = PropertyDiff.UPDATE_REPLACE if change.replaces else PropertyDiff.UPDATE
    return PropertyDiff(kind=kind, inputDiff=True)
