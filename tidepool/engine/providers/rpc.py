"""Calls over gRPC from the engine's loop, and what their failures mean.

The synchronous gRPC client is used, and its futures are carried over to asyncio: the program that runs
in the same process may have a ``grpc.aio`` loop of its own, and two of those in one process break.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tidepool.engine.providers import protocol
from tidepool.engine.providers.contract import ProviderError, ProviderUnimplemented
from tidepool.engine.rpc import CHANNEL_OPTIONS

if TYPE_CHECKING:
    import grpc


class Failure(Exception):
    """A call that failed: gRPC's code by name (``UNAVAILABLE``), the text, and details as messages."""

    def __init__(self, code: str, text: str, details: tuple[Any, ...] = ()) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text
        self.details = details

    def detail(self, name: str) -> Any | None:
        """The first detail whose message is called ``name``."""
        return next((d for d in self.details if d.DESCRIPTOR.name == name), None)


def as_error(failure: Failure, *, of_state: bool = False) -> ProviderError:
    """What is raised for a failure that nothing more is known of.

    ``of_state`` says that the call was to tell or change what a resource is: then some kinds of failure
    leave that open.
    """
    text = failure.text
    cause = failure.detail("ErrorCause")
    if cause is not None:
        text = f"{text}: {cause.message}"
    wrong = failure.detail("InputPropertiesError")
    if wrong is not None:
        text += "".join(f"\n\t\t- property {e.property_path} has a problem: {e.reason}" for e in wrong.errors)
    text = text or f"the provider failed without a message ({failure.code})"
    if failure.code == "UNIMPLEMENTED":
        return ProviderUnimplemented(text)
    return ProviderError(
        text, state_unknown=of_state and failure.code in {"INTERNAL", "DATA_LOSS", "UNKNOWN"}
    )


def open_channel(address: str) -> grpc.Channel:
    """A channel to ``address`` on this machine."""
    # grpc takes 0.06 s to import; verbs that need no provider do without.
    import grpc

    return grpc.insecure_channel(address, options=CHANNEL_OPTIONS)


async def call(
    method: grpc.UnaryUnaryMultiCallable[Any, Any],
    request: Any,
    *,
    deadline_s: float | None = None,
    wait_for_ready: bool = False,
    under_way: set[Any] | None = None,
) -> Any:
    """Call ``method`` without blocking the loop.

    A cancelled task cancels the call; what became of it on the other side is then not known.

    Args:
        method: a method of a stub, or of a channel.
        request: its message.
        deadline_s: after this time the call fails with ``DEADLINE_EXCEEDED``.
        wait_for_ready: wait for a server that does not listen yet, instead of failing.
        under_way: holds gRPC's future of the call for as long as it is one, to be cancelled from outside.

    Raises:
        Failure: when the call failed.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[None] = loop.create_future()
    in_flight = method.future(request, timeout=deadline_s, wait_for_ready=wait_for_ready)
    if under_way is not None:
        under_way.add(in_flight)

    def arrived() -> None:
        if not answer.done():
            answer.set_result(None)

    def hand_over(_: object) -> None:
        # On gRPC's thread.
        try:
            loop.call_soon_threadsafe(arrived)
        except RuntimeError:
            # The loop was closed while the call was under way: nobody is waiting any more.
            return

    in_flight.add_done_callback(hand_over)
    try:
        await answer
    except asyncio.CancelledError:
        in_flight.cancel()  # type: ignore[no-untyped-call]
        raise
    finally:
        if under_way is not None:
            under_way.discard(in_flight)
    return _result(in_flight)


def _result(call: Any) -> Any:
    # gRPC's future of a single answer is its outcome as well: its code and details can be asked for.
    code = call.code()
    if code.name == "OK":
        return call.result()
    raise Failure(code.name, call.details() or "", tuple(_details(call)))


def _details(call: Any) -> list[Any]:
    for key, value in call.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            return _unpack(value)
    return []


def _unpack(status_bytes: bytes) -> list[Any]:
    from google.protobuf.message import DecodeError

    known = [
        getattr(protocol.load(module), name)
        for module, name in (
            ("provider_pb2", "ErrorResourceInitFailed"),
            ("provider_pb2", "ConfigureErrorMissingKeys"),
            ("errors_pb2", "ErrorCause"),
            ("errors_pb2", "InputPropertiesError"),
        )
    ]
    details = []
    try:
        status = protocol.load("status_pb2").Status.FromString(status_bytes)
        for packed in status.details:
            for message_class in known:
                message = message_class()
                if packed.Unpack(message):
                    details.append(message)
    except DecodeError:
        # A provider that does not write details as the protocol has them: its text still says what failed.
        return details
    return details
