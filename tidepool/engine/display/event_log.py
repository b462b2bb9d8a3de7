"""Events for other programs: their JSON, and writing it while they happen (``--event-log``, ``--json``).

The JSON is ``apitype.EngineEvent``: field names, their order and what is left out when empty are those of
``sdk/go/common/apitype/events.go``. Secrets become an encrypted value whose ciphertext is ``[secret]``. The Automation
API follows an operation by ``--event-log FILE``; with recent CLIs it asks for ``tcp://HOST:PORT``, a gRPC stream of
the same JSON.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, NamedTuple

from tidepool.engine import json_text, value_json
from tidepool.engine.display import markup, words
from tidepool.engine.display.settings import MASK, visible
from tidepool.engine.errors import EngineError
from tidepool.engine.events import (
    Cancel,
    Diagnostic,
    Event,
    Op,
    Prelude,
    PropertyDiff,
    ResourceFailed,
    ResourceOutputs,
    ResourcePre,
    Stdout,
    StepMetadata,
    Summary,
)
from tidepool.engine.resource import ResourceState
from tidepool.engine.values import Properties


def event_json(event: Event, sequence: int, timestamp: int, raw_color: bool = False) -> dict[str, Any]:
    """``event`` as JSON.

    ``timestamp`` is in seconds since 1970. With ``raw_color``, messages keep their colour markup.
    """
    return {"sequence": sequence, "timestamp": timestamp, **_body(event, raw_color)}


def _body(event: Event, raw_color: bool) -> dict[str, Any]:
    match event:
        case Prelude():
            return {"preludeEvent": {"config": dict(sorted(event.config.items()))}}
        case ResourcePre():
            return {"resourcePreEvent": _planned(event.metadata, event.planning)}
        case ResourceOutputs():
            return {"resOutputsEvent": _planned(event.metadata, event.planning)}
        case ResourceFailed():
            return {
                "resOpFailedEvent": {
                    "metadata": step_json(event.metadata),
                    "status": event.status,
                    "steps": event.steps,
                }
            }
        case Diagnostic():
            return {"diagnosticEvent": _diagnostic(event, raw_color)}
        case Stdout():
            message = event.message if raw_color else markup.plain(event.message)
            return {"stdoutEvent": {"message": message, "color": "raw" if raw_color else "never"}}
        case Summary():
            return {
                "summaryEvent": {
                    "maybeCorrupt": event.maybe_corrupt,
                    "durationSeconds": math.ceil(event.duration_s),
                    "resourceChanges": changes_json(event.resource_changes),
                    "PolicyPacks": {},
                    "isPreview": event.is_preview,
                    "result": event.result,
                }
            }
        case Cancel():
            return {"cancelEvent": {}}


def step_json(step: StepMetadata) -> dict[str, Any]:
    """A step's metadata. ``detailedDiff`` is null where the provider gave none, which is not the same as {}."""
    result: dict[str, Any] = {
        "op": step.op.value,
        "urn": step.urn,
        "type": step.type,
        "old": _state(step.old),
        "new": _state(step.new),
    }
    if step.keys:
        result["keys"] = list(step.keys)
    if step.diffs:
        result["diffs"] = list(step.diffs)
    result["detailedDiff"] = detailed_diff_json(step.detailed_diff, "diffKind")
    if step.logical:
        result["logical"] = True
    result["provider"] = step.provider
    return result


def changes_json(changes: Mapping[Op, int]) -> dict[str, int]:
    """Counts by operation."""
    return {op.value: count for op, count in sorted(changes.items())}


def detailed_diff_json(diff: Mapping[str, PropertyDiff] | None, kind_key: str) -> dict[str, Any] | None:
    """A detailed diff; the event log and the digest name its kind differently."""
    if diff is None:
        return None
    return {path: {kind_key: d.kind, "inputDiff": d.input_diff} for path, d in sorted(diff.items())}


def properties_json(properties: Properties) -> dict[str, Any]:
    """Properties, with every secret masked in the form of an encrypted value."""
    return value_json.encode_properties(visible(properties, show_secrets=False), lambda _: MASK)


def _planned(step: StepMetadata, planning: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"metadata": step_json(step)}
    if planning:
        result["planning"] = True
    return result


def _state(state: ResourceState | None) -> dict[str, Any] | None:
    if state is None:
        return None
    result: dict[str, Any] = {"type": state.type, "urn": state.urn}
    if state.custom:
        result["custom"] = True
    if state.delete:
        result["delete"] = True
    result["id"] = state.id
    result["parent"] = state.parent
    flags = {
        "protect": state.protect,
        "taint": state.taint,
        "external": state.external,
        "retainOnDelete": state.retain_on_delete,
    }
    result.update({key: True for key, is_set in flags.items() if is_set})
    result["inputs"] = properties_json(state.inputs)
    result["outputs"] = properties_json(state.outputs)
    result["provider"] = state.provider
    if state.init_errors:
        result["initErrors"] = list(state.init_errors)
    if state.hide_diff:
        result["hideDiffs"] = list(state.hide_diff)
    return result


def _diagnostic(event: Diagnostic, raw_color: bool) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if event.urn:
        result["urn"] = event.urn
    before = markup.prefix(event.severity)
    message = markup.without_ansi(event.message)
    if raw_color:
        message = f"{markup.RESET}{message}{markup.RESET}\n"
    else:
        before, message = markup.plain(before), markup.plain(message) + "\n"
    if before:
        result["prefix"] = before
    result["message"] = message
    result["color"] = "raw" if raw_color else "never"
    result["severity"] = event.severity
    if event.ephemeral:
        result["ephemeral"] = True
    return result


# How long a reader of the gRPC stream may take for what is still under way when the operation has ended.
_LAST_EVENTS_S = 10.0
_CONNECT_S = 5.0


class EventLogError(EngineError):
    """The event log cannot be written."""


class LineSink(NamedTuple):
    """``line`` takes one JSON text after the other, each with its newline; ``close`` hands on all that was taken.

    The latter raises EventLogError where a server did not take it.
    """

    line: Callable[[str], object]
    close: Callable[[], object]


class EventLog:
    """A display that writes each event as a line of JSON.

    ``clock`` gives seconds since 1970. With ``internal``, steps that are the engine's own business are
    written too: the event log has them, ``--json`` does not, but their numbers are counted.
    """

    def __init__(
        self, sink: LineSink, clock: Callable[[], float], *, raw_color: bool = False, internal: bool = True
    ) -> None:
        self._sink = sink
        self._clock = clock
        self._raw_color = raw_color
        self._internal = internal
        self._sequence = 0
        self._broken: OSError | None = None

    def event(self, event: Event) -> None:
        sequence = self._sequence
        self._sequence += 1
        if not self._internal and _is_internal(event):
            return
        if self._broken is not None:
            return
        value = event_json(event, sequence, int(self._clock()), self._raw_color)
        try:
            self._sink.line(json_text.dumps(value) + "\n")
        except OSError as error:
            # A full disk is no reason to stop in the middle of an operation; it is told at the end.
            self._broken = error

    def cancelling(self) -> None:
        """Nothing is written: the event that tells of it is."""

    def close(self) -> None:
        """End the log.

        Raises:
            EventLogError: when not all events could be written.
        """
        self._sink.close()
        if self._broken is not None:
            raise EventLogError(f"the event log is not complete: {self._broken}") from self._broken


def stream_sink(stream: IO[str]) -> LineSink:
    """Write lines to a text stream, which stays open."""
    return LineSink(partial(print, end="", file=stream, flush=True), lambda: None)


def file_sink(path: Path) -> LineSink:
    """Write lines to a file, each at once and with one call: readers follow it while it grows."""
    try:
        # Emptied first and then appended to: a reader that has it open already never sees a line twice.
        path.write_bytes(b"")
        file = path.open("ab", buffering=0)
    except OSError as error:
        raise EventLogError(f"cannot write the event log {path}: {error.strerror or error}") from error
    return LineSink(lambda text: file.write(text.encode("utf-8", "replace")), file.close)


def _grpc_sink(address: str) -> LineSink:
    """Send lines to a ``pulumirpc.Events`` server, in order, without waiting for it."""
    # Late: most operations have no such log, and grpc alone takes longer to import than the rest.
    import grpc
    from pulumi.runtime.proto import events_pb2, events_pb2_grpc

    # An address of this machine needs no proxy, and an event may be as large as a stack's outputs.
    options = [("grpc.enable_http_proxy", 0), ("grpc.max_send_message_length", -1)]
    channel = grpc.insecure_channel(address, options=options)
    try:
        grpc.channel_ready_future(channel).result(timeout=_CONNECT_S)
    except grpc.FutureTimeoutError:
        channel.close()
        raise EventLogError(
            f"cannot send events to tcp://{address}: nobody answered within {_CONNECT_S:.0f} s; "
            "--event-log takes a file or the address of a listening events server"
        ) from None
    request: Any = events_pb2.EventRequest
    lines: SimpleQueue[str | None] = SimpleQueue()

    def requests() -> Iterator[Any]:
        while (text := lines.get()) is not None:
            yield request(event=text)

    call = events_pb2_grpc.EventsStub(channel).StreamEvents.future(requests())

    def close() -> None:
        lines.put(None)
        try:
            call.result(timeout=_LAST_EVENTS_S)
        except (grpc.RpcError, grpc.FutureTimeoutError) as error:
            detail = error.details() if isinstance(error, grpc.Call) else "it did not answer in time"
            raise EventLogError(f"the events server did not take all events: {detail}") from error
        finally:
            channel.close()

    return LineSink(lines.put, close)


def open_sink(target: str) -> LineSink:
    """The sink that ``--event-log TARGET`` names.

    Raises:
        EventLogError: when it cannot be opened.
    """
    if target.startswith("tcp://"):
        return _grpc_sink(target.removeprefix("tcp://"))
    return file_sink(Path(target))


def _is_internal(event: Event) -> bool:
    return isinstance(event, ResourcePre | ResourceOutputs | ResourceFailed) and words.is_internal(
        event.metadata
    )
