"""Work for the process's main thread, given by the engine's."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class MainThread:
    """Runs functions one after the other on the thread that calls :meth:`serve`.

    Programs expect to be run on the main thread: signals and some libraries work nowhere else.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        #: True while a function runs on it, whose future is not done.
        self.is_busy = False

    def serve(self) -> None:
        """Run what is asked for until :meth:`end`. Signals are handled while it waits."""
        while (job := self._jobs.get()) is not None:
            job()

    def end(self) -> None:
        """Let :meth:`serve` return."""
        self._jobs.put(None)

    async def run(self, function: Callable[[], T]) -> T:
        """Run ``function`` on the main thread."""
        future: Future[T] = Future()

        def job() -> None:
            # From here on the future cannot be cancelled: nobody can stop the function.
            if not future.set_running_or_notify_cancel():
                return
            self.is_busy = True
            failure: BaseException | None = None
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the result
                failure = error
            # Before the future is done: whoever waits for it may ask at once.
            self.is_busy = False
            if failure is not None:
                future.set_exception(failure)
            else:
                future.set_result(result)

        self._jobs.put(job)
        return await asyncio.wrap_future(future)
