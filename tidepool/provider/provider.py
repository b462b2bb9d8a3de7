"""Pulumi's requests, each answered in a thread by the kind of resource that it is about."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

import grpc
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.provider.experimental.provider import (
    CheckFailure,
    CheckRequest,
    CheckResponse,
    ConfigureRequest,
    ConfigureResponse,
    CreateRequest,
    CreateResponse,
    DeleteRequest,
    DiffRequest,
    DiffResponse,
    GetSchemaRequest,
    GetSchemaResponse,
    PropertyDiff,
    PropertyDiffKind,
    Provider,
    ReadRequest,
    ReadResponse,
    UpdateRequest,
    UpdateResponse,
)

from tidepool.cluster.failures import Note, marked
from tidepool.resources.kind import AnyKind, Refusal, Task, Unfinished
from tidepool.resources.reading import Change, Mistake, read
from tidepool.resources.values import UNKNOWN, Inputs, Plain, plain, property_value

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

_Values = dict[str, PropertyValue]
_T = TypeVar("_T")


class InitializationFailed(Exception):
    """A resource that Pulumi has to know although it is not as it should be."""

    def __init__(self, id: str, properties: _Values, reason: str) -> None:
        super().__init__(reason)
        self.id = id
        self.properties = properties
        self.reason = reason


class TidepoolProvider(Provider):
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

    async def get_schema(self, request: GetSchemaRequest) -> GetSchemaResponse:
        return GetSchemaResponse(await self._in_thread(self._schema, request))

    async def check_config(self, request: CheckRequest) -> CheckResponse:
        return CheckResponse(inputs=request.new_inputs)

    async def diff_config(self, request: DiffRequest) -> DiffResponse:
        return DiffResponse(changes=False)

    async def configure(self, request: ConfigureRequest) -> ConfigureResponse:
        return ConfigureResponse(accept_secrets=True, supports_preview=True)

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

    async def cancel(self) -> None:
        # What would wait for long ends; all else is cut off with the process, which it is made for.
        self._cancelled.set()

    async def _in_thread(self, work: Callable[[Any], _T], request: Any) -> _T:
        under_way = self._threads.submit(work, request)
        try:
            return await asyncio.wrap_future(under_way)
        except asyncio.CancelledError:
            if under_way.running():
                # The engine is gone, and threads cannot be stopped: what this one still does, it would do in the middle of
                # the next operation. All that it does may be cut off anywhere.
                self._end()
            raise

    # In threads

    def _schema(self, request: GetSchemaRequest) -> str:
        from tidepool.provider.kinds import public_tokens
        from tidepool.provider.schema import schema_of

        return schema_of([self._kind_of(token).resource for token in public_tokens()], VERSION)

    def _check(self, request: CheckRequest) -> CheckResponse:
        kind = self._kind(request.type)
        declared = kind.resource.properties.values()
        # What is derived is as it was before, until it is derived anew.
        derived = {each.wire for each in declared if each.role == "derived"}
        before = {key: value for key, value in request.old_inputs.items() if key in derived}
        found = read(kind.resource.model, _plain(request.new_inputs | before), strict=True)
        added: dict[str, Plain] = {each.wire: each.default for each in declared if each.role == "condition"}
        mistakes = found.mistakes
        if mistakes or found.has_unknowns:
            added |= dict.fromkeys(derived, UNKNOWN)
        else:
            told = tuple(kind.mistakes(found.value))
            for note in told:
                if isinstance(note, Note):
                    self._log.warn(request.urn, note.text)
            mistakes = tuple(each for each in told if isinstance(each, Mistake))
            if not mistakes:
                added |= kind.derived(found.value)
        return CheckResponse(
            inputs=request.new_inputs | {key: property_value(value) for key, value in added.items()},
            failures=[CheckFailure(mistake.property, mistake.reason) for mistake in mistakes],
        )

    def _diff(self, request: DiffRequest) -> DiffResponse:
        kind = self._kind(request.type)
        found = kind.diff(_plain(request.old_state), _plain(request.new_inputs))
        changes = [change for change in found if change.key not in request.ignore_changes]
        replaces = [change.key for change in changes if change.replaces]
        return DiffResponse(
            changes=bool(changes),
            replaces=replaces,
            delete_before_replace=bool(replaces) and kind.resource.delete_first,
            diffs=[change.key for change in changes],
            detailed_diff={change.key: _property_diff(change) for change in changes},
        )

    def _create(self, request: CreateRequest) -> CreateResponse:
        kind = self._kind(request.type)
        inputs = _plain(request.properties)
        outputs = dict(kind.foreseen(inputs))
        if request.preview:
            return CreateResponse(None, _outputs(kind, request.properties, outputs))
        wanted = _typed(kind, inputs)
        try:
            made = kind.create(wanted, self._task(kind, request.urn, request.timeout))
        except Unfinished as unfinished:
            properties = _outputs(kind, request.properties, {**outputs, **unfinished.outputs})
            raise InitializationFailed(unfinished.id, properties, _marked(unfinished)) from unfinished
        return CreateResponse(made.id, _outputs(kind, request.properties, {**outputs, **made.outputs}))

    def _update(self, request: UpdateRequest) -> UpdateResponse:
        kind = self._kind(request.type)
        state, inputs = _plain(request.olds), _plain(request.news)
        declared = kind.resource.properties.values()
        inputs_of_it = {each.wire for each in declared if each.role != "output"}
        kept = {key: value for key, value in request.olds.items() if key not in inputs_of_it}
        outputs = dict(kind.foreseen(inputs))
        old, found = _typed(kind, state), read(kind.resource.model, inputs)
        if not found.has_unknowns:
            for note in kind.refuse_update(old, found.value) or ():
                self._log.warn(request.urn, note.text)
        if request.preview:
            outputs |= {each.wire: UNKNOWN for each in declared if each.remade}
        else:
            task = self._task(kind, request.urn, request.timeout)
            try:
                outputs |= kind.update(request.resource_id, old, found.value, task)
            except Unfinished as unfinished:
                properties = kept | _outputs(kind, request.news, {**outputs, **unfinished.outputs})
                raise InitializationFailed(unfinished.id, properties, _marked(unfinished)) from unfinished
        return UpdateResponse(kept | _outputs(kind, request.news, outputs))

    def _read(self, request: ReadRequest) -> ReadResponse:
        kind = self._kind(request.type)
        if not request.properties:
            raise Refusal(
                f"{request.type} {request.resource_id!r} cannot be imported: register it in the program, and `up` "
                "takes what is there already"
            )
        state = _plain(request.properties)
        found = kind.look(request.resource_id, _typed(kind, state))
        if found is None:
            return ReadResponse()
        changed = {
            key: property_value(value, secret=key in request.inputs and request.inputs[key].contains_secret())
            for key, value in found.items()
        }
        foreseen = kind.foreseen(state | dict(found)).items()
        new = {key: property_value(value) for key, value in foreseen if state.get(key) != value}
        properties = request.properties | new | changed
        declared = kind.resource.properties.values()
        outputs = {each.wire for each in declared if each.role == "output"}
        inputs = {key: value for key, value in changed.items() if key not in outputs}
        return ReadResponse(request.resource_id, properties, request.inputs | inputs)

    def _delete(self, request: DeleteRequest) -> None:
        kind = self._kind(request.type)
        task = self._task(kind, request.urn, request.timeout)
        kind.delete(request.resource_id, _typed(kind, _plain(request.properties)), task)

    def _kind(self, qualified: str) -> AnyKind:
        # The SDK gives the types of the parents, too: A$B$C.
        token = qualified.rpartition("$")[2]
        try:
            return self._kind_of(token)
        except KeyError:
            raise Refusal(
                f"the provider tidepool has no resources of type {token}; `tidepool.resources` has those that it has"
            ) from None

    def _task(self, kind: AnyKind, urn: str, timeout_s: float) -> Task:
        allowed_s = timeout_s or kind.timeout_s
        return Task(
            urn=urn,
            timeout_s=allowed_s,
            deadline=time.monotonic() + allowed_s,
            status=partial(self._log.status, urn),
            info=partial(self._log.info, urn),
            warn=partial(self._log.warn, urn),
            cancelled=self._cancelled.is_set,
        )


def _marked(unfinished: Unfinished) -> str:
    return marked(unfinished.reason, unfinished.cause)


def _plain(properties: Mapping[str, PropertyValue]) -> dict[str, Plain]:
    return {key: plain(value) for key, value in properties.items()}


def _typed(kind: AnyKind, inputs: Inputs) -> Any:
    found = read(kind.resource.model, inputs)
    if found.mistakes:
        said = "; ".join(f"{mistake.property}: {mistake.reason}" for mistake in found.mistakes)
        raise Refusal(f"the inputs in the state cannot be read ({said}); was it written by another version?")
    return found.value


def _outputs(kind: AnyKind, inputs: _Values, outputs: Mapping[str, Plain]) -> _Values:
    """The inputs as they came, secret ones too, and what the resource has besides."""
    declared = kind.resource.properties.values()
    secrets = {each.wire for each in declared if each.role == "output" and each.is_secret}
    more = {key: property_value(value, secret=key in secrets) for key, value in outputs.items()}
    return inputs | more


def _property_diff(change: Change) -> PropertyDiff:
    if change.is_new:
        kind = PropertyDiffKind.ADD_REPLACE if change.replaces else PropertyDiffKind.ADD
    elif change.is_gone:
        kind = PropertyDiffKind.DELETE_REPLACE if change.replaces else PropertyDiffKind.DELETE
    else:
        kind = PropertyDiffKind.UPDATE_REPLACE if change.replaces else PropertyDiffKind.UPDATE
    return PropertyDiff(kind, input_diff=True)
