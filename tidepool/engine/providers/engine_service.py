"""The Engine service: where programs and providers send their log messages."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from tidepool.engine.providers import versions
from tidepool.engine.rpc import CHANNEL_OPTIONS, messages

#: The Pulumi CLI that this engine follows.
PULUMI_VERSION: Final = "3.260.0"

#: Takes an ``engine_pb2.LogRequest``; called on gRPC's threads.
LogSink = Callable[[Any], None]

_WORKERS: Final = 4


class EngineServer:
    """The service on a port of the loopback. It is started when its address is first asked for."""

    def __init__(self, log: LogSink, version: str = PULUMI_VERSION) -> None:
        self._log = log
        self._version = version
        self._lock = threading.Lock()
        self._server: Any = None
        self._address = ""

    @property
    def address(self) -> str:
        """``127.0.0.1:PORT``."""
        with self._lock:
            if self._server is None:
                self._start()
            return self._address

    def close(self) -> None:
        """Take no more messages."""
        with self._lock:
            if self._server is not None:
                self._server.stop(grace=None)
                self._server = None

    def _start(self) -> None:
        # grpc takes 0.06 s to import; an operation without providers does without.
        from concurrent.futures import ThreadPoolExecutor

        import grpc

        server = grpc.server(
            ThreadPoolExecutor(_WORKERS, thread_name_prefix="engine-service"), options=CHANNEL_OPTIONS
        )
        messages("engine_pb2_grpc").add_EngineServicer_to_server(_Servicer(self._log, self._version), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self._server = server
        self._address = f"127.0.0.1:{port}"


class _Servicer:
    """The methods as gRPC calls them."""

    def __init__(self, log: LogSink, version: str) -> None:
        from google.protobuf import empty_pb2

        self._messages = messages("engine_pb2")
        self._empty = empty_pb2.Empty()
        self._log = log
        self._version = version
        self._root_urn = ""

    def Log(self, request: Any, _context: Any) -> Any:  # noqa: N802 - the service's names
        self._log(request)
        return self._empty

    def GetRootResource(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        return self._messages.GetRootResourceResponse(urn=self._root_urn)

    def SetRootResource(self, request: Any, _context: Any) -> Any:  # noqa: N802
        self._root_urn = request.urn
        return self._messages.SetRootResourceResponse()

    def StartDebugging(self, _request: Any, context: Any) -> Any:  # noqa: N802
        import grpc

        context.abort(
            grpc.StatusCode.UNIMPLEMENTED,
            "attaching a debugger is not supported by the embedded engine; the Pulumi CLI does it",
        )

    def RequirePulumiVersion(self, request: Any, context: Any) -> Any:  # noqa: N802
        import grpc

        wanted = request.pulumi_version_range
        try:
            admitted = versions.admits(wanted, self._version)
        except ValueError as e:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"invalid version range {wanted!r}: {e}")
        if not admitted:
            context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f'Pulumi CLI version {self._version} does not satisfy the version range "{wanted}"',
            )
        return self._messages.RequirePulumiVersionResponse()
