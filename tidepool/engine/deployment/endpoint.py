"""The monitor as programs reach it: an object in this process, or a server of gRPC for others.

Both look like the generated stub to the SDK. Each call waits, on a thread that is not the engine's, for a
coroutine on the engine's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any, Final

import grpc
from pulumi.runtime.proto import resource_pb2_grpc

from tidepool.engine.deployment.monitor import Monitor
from tidepool.engine.deployment.status import EXPECTED, MonitorClosed, RequestRefused, Status, Stopped
from tidepool.engine.rpc import CHANNEL_OPTIONS

#: The methods of the service, and those of :class:`Monitor` that serve them.
METHODS: Final = {
    "GetDeploymentInfo": "get_deployment_info",
    "SupportsFeature": "supports_feature",
    "Invoke": "invoke",
    "Call": "call",
    "ReadResource": "read_resource",
    "RegisterResource": "register_resource",
    "RegisterResourceOutputs": "register_resource_outputs",
    "RegisterStackTransform": "register_stack_transform",
    "RegisterStackInvokeTransform": "register_stack_invoke_transform",
    "RegisterResourceHook": "register_resource_hook",
    "RegisterErrorHook": "register_error_hook",
    "RegisterPackage": "register_package",
    "SignalAndWaitForShutdown": "signal_and_wait_for_shutdown",
}

#: Registrations that may wait at the same time: each holds a thread until its step is done.
_MAX_WAITING: Final = 1024


class RpcFailed(grpc.RpcError):
    """The error that a stub would raise."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self._code = code
        self._details = details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details


async def serve(status: Status, request: Coroutine[Any, Any, Any]) -> Any:
    """Answer one request of a program.

    Raises:
        MonitorClosed: where the operation ends before the answer is there.
    """
    if status.stopping.is_set():
        request.close()
        raise MonitorClosed
    task = asyncio.ensure_future(request)
    stopping = asyncio.ensure_future(status.stopping.wait())
    await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        stopping.cancel()
        error = task.exception()
        if error is None:
            return task.result()
        _take_note(status, error)
        if status.stopping.is_set():
            raise MonitorClosed
        raise error

    def outlived(task: asyncio.Future[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _take_note(status, error)

    # The step may be under way: it is finished for its own sake, and nobody waits for the answer.
    task.add_done_callback(outlived)
    raise MonitorClosed


def _take_note(status: Status, error: BaseException) -> None:
    """Let an error in a request end the operation, and report it where that was not done."""
    if isinstance(error, RequestRefused | MonitorClosed | ValueError):
        return
    if isinstance(error, EXPECTED):
        if not status.stopping.is_set():
            status.error(str(error), getattr(error, "urn", ""))
            status.fail()
    elif isinstance(error, Stopped) or not isinstance(error, Exception):
        status.fail()
    else:
        status.is_fault(error)


class LocalMonitor:
    """The monitor as the SDK of a program in this process sees it."""

    def __init__(self, monitor: Monitor, loop: asyncio.AbstractEventLoop, status: Status) -> None:
        for name, method in METHODS.items():
            setattr(self, name, _waiting(getattr(monitor, method), loop, status))


def _waiting(
    method: Callable[[Any], Coroutine[Any, Any, Any]], loop: asyncio.AbstractEventLoop, status: Status
) -> Callable[..., Any]:
    def call(request: Any, timeout: float | None = None) -> Any:
        future = asyncio.run_coroutine_threadsafe(serve(status, method(request)), loop)
        try:
            return future.result(timeout)
        except (MonitorClosed, CancelledError) as error:
            raise RpcFailed(
                grpc.StatusCode.UNAVAILABLE, "resource monitor shut down while waiting on step's done channel"
            ) from error
        except Exception as error:  # noqa: BLE001 - passed on, without those of the engine that are behind it
            raise RpcFailed(grpc.StatusCode.UNKNOWN, str(error)) from None

    return call


class MonitorServer:
    """The monitor for programs and providers in other processes, on a port of the loopback."""

    def __init__(self, local: LocalMonitor) -> None:
        self._server = grpc.server(
            ThreadPoolExecutor(_MAX_WAITING, thread_name_prefix="monitor"), options=CHANNEL_OPTIONS
        )
        resource_pb2_grpc.add_ResourceMonitorServicer_to_server(_Servicer(local), self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        self._server.start()

    def close(self) -> None:
        self._server.stop(grace=None)


class _Servicer(resource_pb2_grpc.ResourceMonitorServicer):
    def __init__(self, local: LocalMonitor) -> None:
        for name in METHODS:
            setattr(self, name, _serving(getattr(local, name)))


def _serving(call: Callable[[Any], Any]) -> Callable[[Any, grpc.ServicerContext], Any]:
    def serve(request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return call(request)
        except RpcFailed as error:
            context.abort(error.code(), error.details())

    return serve
