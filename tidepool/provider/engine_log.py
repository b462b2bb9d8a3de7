"""Messages of a provider while it works: the engine shows it beside the resource that it is about."""

from __future__ import annotations

import threading
from typing import Any, Final

import grpc

_TIMEOUT_S: Final = 5.0


class EngineLog:
    """Messages to the engine at ``address``; with an empty one they go nowhere. For many threads."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._channel: Any = None

    def attach(self, address: str) -> None:
        """From here on, send them to another engine."""
        with self._lock:
            channel, self._channel, self._address = self._channel, None, address
        if channel is not None:
            channel.close()

    def status(self, urn: str, text: str) -> None:
        """Show how far an operation is, until the next status or its end."""
        self._send("INFO", urn, text, ephemeral=True)

    def info(self, urn: str, text: str) -> None:
        """Tell something that stays."""
        self._send("INFO", urn, text)

    def warn(self, urn: str, text: str) -> None:
        """Tell something that a person should look at."""
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
