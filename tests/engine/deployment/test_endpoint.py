"""The monitor in a program's own process: answers, errors, an operation that ends, and threads, of which few are needed."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, Final, cast

import grpc
import pytest
from pulumi.runtime._context import wrap_with_context

from tidepool.engine.deployment.endpoint import METHODS, LocalMonitor, RequestExecutor, Requests, RpcFailed
from tidepool.engine.deployment.monitor import Monitor
from tidepool.engine.deployment.status import RequestRefused, Status

_MANY: Final = 100
_LIMIT: Final = 20
_of_the_sdk: Final = cast(Callable[[Callable[[], Any]], Callable[[], Any]], wrap_with_context)


class Engine:
    """An engine's loop on a thread of its own, and a monitor there that answers when it is told to."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self.asked: list[Any] = []
        self.open: asyncio.Event
        self.status: Status
        self.monitor: Any = self.call(self._begin)

    def call(self, function: Callable[[], Any]) -> Any:
        """What ``function`` gives on the loop."""

        async def called() -> Any:
            return function()

        return asyncio.run_coroutine_threadsafe(called(), self.loop).result(10)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def _begin(self) -> LocalMonitor:
        self.open, self.status = asyncio.Event(), Status(lambda _event: None)
        service = cast(Monitor, SimpleNamespace(**dict.fromkeys(METHODS.values(), self._answer)))
        return LocalMonitor(service, self.loop, Requests(self.status))

    async def _answer(self, request: Any) -> Any:
        self.asked.append(request)
        await self.open.wait()
        if request == "bad":
            raise RequestRefused("no such thing")
        return f"answer to {request}"


@pytest.fixture
def engine() -> Iterator[Engine]:
    it = Engine()
    yield it
    it.close()


@pytest.fixture
def executor(engine: Engine) -> Iterator[RequestExecutor]:
    it = engine.monitor.executor(_LIMIT)
    yield it
    it.shutdown()


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_requests_wait_without_threads_so_many_at_a_time(engine: Engine, executor: RequestExecutor) -> None:
    ask = engine.monitor.RegisterResource
    futures: list[Future[str]] = [
        executor.submit(_of_the_sdk(functools.partial(ask, n))) for n in range(_MANY)
    ]
    _until(lambda: len(engine.asked) == _LIMIT)
    assert not any(future.done() for future in futures)
    assert not executor._threads
    engine.call(engine.open.set)
    assert [future.result(10) for future in futures] == [f"answer to {n}" for n in range(_MANY)]
    # Each was asked once, though its function ran twice.
    assert engine.asked == list(range(_MANY))


def test_a_program_that_ended_asks_no_more(engine: Engine, executor: RequestExecutor) -> None:
    ask = engine.monitor.RegisterResource
    futures = [executor.submit(_of_the_sdk(functools.partial(ask, n))) for n in range(_MANY)]
    _until(lambda: len(engine.asked) == _LIMIT)
    executor.shutdown(wait=False, cancel_futures=True)
    engine.call(engine.open.set)
    assert [future.result(10) for future in futures[:_LIMIT]] == [f"answer to {n}" for n in range(_LIMIT)]
    assert engine.asked == list(range(_LIMIT))


def test_a_function_that_asks_twice_is_given_both_answers(engine: Engine, executor: RequestExecutor) -> None:
    engine.call(engine.open.set)

    def ask() -> tuple[str, str]:
        return engine.monitor.Invoke("a"), engine.monitor.Call("b")

    assert executor.submit(_of_the_sdk(ask)).result(10) == ("answer to a", "answer to b")
    assert engine.asked == ["a", "b"]


def test_a_refused_request_is_the_functions_to_translate(engine: Engine, executor: RequestExecutor) -> None:
    engine.call(engine.open.set)

    def ask() -> str:
        try:
            return cast(str, engine.monitor.Invoke("bad"))
        except grpc.RpcError as error:
            return f"translated: {error}"

    assert executor.submit(_of_the_sdk(ask)).result(10) == "translated: no such thing"


@pytest.mark.parametrize("begins_late", [False, True])
def test_an_operation_that_ends_ends_its_requests(
    engine: Engine, executor: RequestExecutor, begins_late: bool
) -> None:
    if begins_late:
        engine.call(engine.status.stop)
    future = executor.submit(_of_the_sdk(lambda: engine.monitor.RegisterResource("a")))
    if not begins_late:
        _until(lambda: engine.asked == ["a"])
        engine.call(engine.status.stop)
    error = future.exception(10)
    assert isinstance(error, RpcFailed)
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    # What is under way is finished for its own sake; nobody is there for its answer.
    engine.call(engine.open.set)


def test_others_functions_run_once_on_a_thread_and_wait_there(
    engine: Engine, executor: RequestExecutor
) -> None:
    ran: list[str] = []

    def work() -> str:
        ran.append(threading.current_thread().name)
        return cast(str, engine.monitor.Invoke("a"))

    future = executor.submit(work)
    _until(lambda: engine.asked == ["a"])
    assert not future.done()
    engine.call(engine.open.set)
    assert future.result(10) == "answer to a"
    (name,) = ran
    assert name != threading.current_thread().name


def test_the_context_of_who_asks_is_there_each_time(engine: Engine, executor: RequestExecutor) -> None:
    person = contextvars.ContextVar("person", default="nobody")
    engine.call(engine.open.set)
    person.set("ada")
    ask = _of_the_sdk(lambda: (person.get(), engine.monitor.Invoke("a")))
    assert executor.submit(ask).result(10) == ("ada", "answer to a")
