"""The monitor as programs reach it: an object in this process, or a server of gRPC for others.

Both look like the generated stub to the SDK. A call waits, on a thread that is not the engine's, for a coroutine on the
engine's loop; those of a program in this process are run again when there is an answer (`RequestExecutor`).
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

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

T = TypeVar("T")

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


class Requests:
    """Requests that are under way: each is answered, or told that the operation ends. For the engine's loop."""

    def __init__(self, status: Status) -> None:
        self._status = status
        self._waiting: dict[asyncio.Task[Any], asyncio.Future[Any] | Future[Any]] = {}
        status.when_stopping(self._stop)

    def begin(self, request: Coroutine[Any, Any, Any], answer: asyncio.Future[Any] | Future[Any]) -> None:
        """Work on a request; ``answer`` gets what it comes to, or `MonitorClosed` where the operation ends before."""
        if self._status.stopping.is_set():
            request.close()
            answer.set_exception(MonitorClosed())
            return
        task = asyncio.ensure_future(request)
        self._waiting[task] = answer
        task.add_done_callback(self._end)

    def _stop(self) -> None:
        # The steps may be under way: they are finished for their own sake, and nobody waits for the answers.
        for task in [task for task in self._waiting if not task.done()]:
            self._waiting.pop(task).set_exception(MonitorClosed())

    def _end(self, task: asyncio.Task[Any]) -> None:
        answer = self._waiting.pop(task, None)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            self._take_note(error)
        if answer is None:
            return
        if error is None:
            answer.set_result(task.result())
        elif self._status.stopping.is_set() or task.cancelled():
            answer.set_exception(MonitorClosed())
        else:
            answer.set_exception(error)

    def _take_note(self, error: BaseException) -> None:
        """Let an error in a request end the operation, and report it where that was not done."""
        status = self._status
        if isinstance(error, RequestRefused | MonitorClosed | ValueError | asyncio.CancelledError):
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

    def __init__(self, monitor: Monitor, loop: asyncio.AbstractEventLoop, requests: Requests) -> None:
        self._loop = loop
        self._requests = requests
        self._thread = _ThreadState()
        for name, method in METHODS.items():
            setattr(self, name, self._waiting(getattr(monitor, method)))

    def executor(self, limit: int) -> RequestExecutor:
        """Return an executor for the event loop of a program, of so many threads and requests at a time."""
        return RequestExecutor(limit, self._thread)

    def _waiting(self, method: Callable[[Any], Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
        def call(request: Any, timeout: float | None = None) -> Any:
            answers = self._thread.answers
            if answers:
                answer = answers.pop(0)
            else:
                answer = Future()
                self._loop.call_soon_threadsafe(self._requests.begin, method(request), answer)
                if answers is not None:
                    raise _Unanswered(answer)
            try:
                return answer.result(timeout)
            except MonitorClosed as error:
                raise RpcFailed(
                    grpc.StatusCode.UNAVAILABLE,
                    "resource monitor shut down while waiting on step's done channel",
                ) from error
            except Exception as error:  # noqa: BLE001 - passed on, without those of the engine that are behind it
                raise RpcFailed(grpc.StatusCode.UNKNOWN, str(error)) from None

        return call


class _ThreadState(threading.local):
    #: The answers to what a function asks, in order; beyond them it is not to wait. None lets it wait.
    answers: list[Future[Any]] | None = None


class _Unanswered(BaseException):
    """A function asked the monitor, and is to be run again when there is an answer."""

    def __init__(self, answer: Future[Any]) -> None:
        self.answer = answer


class RequestExecutor(ThreadPoolExecutor):
    """Runs what a program's event loop is not to wait for; what asks the monitor has no thread for that.

    The SDK's functions for executors ask the monitor, and do nothing else but translate its errors. Such a one runs up
    to the question, and once more when the answer is there. A thread for each took a sixth of the time of an idle `up`.
    As many wait for answers at a time as there would be threads: more take memory, and no less time.
    """

    def __init__(self, limit: int, state: _ThreadState) -> None:
        super().__init__(limit)
        self._state = state
        self._free = limit
        self._waiting: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """As of any executor."""
        if not getattr(function, "__module__", "").startswith("pulumi.runtime."):
            return super().submit(function, *args, **kwargs)
        outcome: Future[T] = Future()
        outcome.set_running_or_notify_cancel()
        self._waiting.append(
            functools.partial(self._run, functools.partial(function, *args, **kwargs), (), outcome)
        )
        self._begin()
        return outcome

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As of any executor; what was asked already is not cancelled."""
        if cancel_futures:
            self._waiting.clear()
        super().shutdown(wait, cancel_futures=cancel_futures)

    def _begin(self, ended: int = 0) -> None:
        with self._lock:
            self._free += ended
            if not self._free or not self._waiting:
                return
            self._free -= 1
            begin = self._waiting.popleft()
        begin()

    def _run(self, function: Callable[[], T], answers: tuple[Future[Any], ...], outcome: Future[T]) -> None:
        self._state.answers = [*answers]
        try:
            result = function()
        except _Unanswered as asked:
            asked.answer.add_done_callback(lambda answer: self._run(function, (*answers, answer), outcome))
            return
        except BaseException as error:  # noqa: BLE001 - it is the loop's, which waits for it
            outcome.set_exception(error)
        else:
            outcome.set_result(result)
        finally:
            self._state.answers = None
        self._begin(ended=1)


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
