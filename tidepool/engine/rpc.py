"""Calls over gRPC from the engine's loop, and the messages of Pulumi's protocol.

The engine uses gRPC's synchronous stubs and waits for their futures. It does not use ``grpc.aio``: the
program's SDK may run an event loop with ``grpc.aio`` of its own in this process, and two such loops in
one process take each other's events.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from tidepool.engine.errors import EngineError

if TYPE_CHECKING:
    import grpc

#: No limit that a large state could meet (the Pulumi CLI's is 400 MiB), and no proxy on the loopback. What a resource is that was
#: made and is not well comes as metadata of an error, of which Go takes 16 MiB.
CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", 400 * 1024 * 1024),
    ("grpc.max_send_message_length", 400 * 1024 * 1024),
    ("grpc.max_metadata_size", 16 * 1024 * 1024),
    ("grpc.absolute_max_metadata_size", 16 * 1024 * 1024),
    ("grpc.enable_http_proxy", 0),
)
_PACKAGE: Final = "tidepool.engine._pulumi_protocol"
_PULUMI: Final = "pulumi.runtime.proto"


def messages(name: str) -> Any:
    """Return the module ``name`` of Pulumi's protocol, such as ``provider_pb2`` or ``provider_pb2_grpc``.

    Raises:
        EngineError: when the package pulumi is not installed.

    ``import pulumi.runtime.proto`` would run ``pulumi/__init__.py``, which takes 0.2 s; the messages alone take 0.02 s,
    and an operation that runs no program needs nothing else. They import each other relatively, so they are loaded
    below a package of our own whose path is their folder, unless Pulumi is loaded already. Message classes are the
    same objects either way: protobuf keeps one class for each descriptor.
    """
    if _PULUMI in sys.modules:
        return importlib.import_module(f"{_PULUMI}.{name}")
    if _PACKAGE not in sys.modules:
        # Of a top-level package this finds the files and runs nothing.
        spec = importlib.util.find_spec("pulumi")
        if spec is None or not spec.submodule_search_locations:
            raise EngineError(
                f"the Python package 'pulumi' is not installed for {sys.executable}; "
                "it carries the protocol that providers speak: `pip install pulumi`"
            )
        package = ModuleType(_PACKAGE)
        package.__path__ = [f"{folder}/runtime/proto" for folder in spec.submodule_search_locations]
        sys.modules[_PACKAGE] = package
    return importlib.import_module(f"{_PACKAGE}.{name}")


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
        getattr(messages(module), name)
        for module, name in (
            ("provider_pb2", "ErrorResourceInitFailed"),
            ("provider_pb2", "ConfigureErrorMissingKeys"),
            ("errors_pb2", "ErrorCause"),
            ("errors_pb2", "InputPropertiesError"),
        )
    ]
    details = []
    try:
        status = messages("status_pb2").Status.FromString(status_bytes)
        for packed in status.details:
            for message_class in known:
                message = message_class()
                if packed.Unpack(message):
                    details.append(message)
    except DecodeError:
        # A provider that does not write details as the protocol has them: its text still says what failed.
        return details
    return details
