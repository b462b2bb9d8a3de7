"""Calls over gRPC from the engine's loop.

The engine uses gRPC's synchronous stubs and waits for their futures. It does not use ``grpc.aio``: the
program's SDK may run an event loop with ``grpc.aio`` of its own in this process, and two such loops in
one process take each other's events.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

#: No limit that a large state could meet (the Pulumi CLI's is 400 MiB), and no proxy on the loopback.
CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", 400 * 1024 * 1024),
    ("grpc.max_send_message_length", 400 * 1024 * 1024),
    ("grpc.enable_http_proxy", 0),
)


async def call(method: Any, request: Any, timeout_s: float | None = None) -> Any:
    """The response of a stub's ``method``; raises ``grpc.RpcError``."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def finished(_: Any) -> None:
        loop.call_soon_threadsafe(_settle, done)

    rpc = method.future(request, timeout=timeout_s)
    rpc.add_done_callback(finished)
    try:
        await done
    except asyncio.CancelledError:
        rpc.cancel()
        raise
    return rpc.result()


def _settle(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
