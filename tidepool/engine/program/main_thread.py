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
        #: Whether something runs on it.
        self.is_busy = False

    def serve(self) -> None:
        """Run what is asked for until :meth:`end`. Signals are handled while it waits."""
        while (job := self._jobs.get()) is not None:
            self.is_busy = True
            job()
            self.is_busy = False

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
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the result
                future.set_exception(error)
            else:
                future.set_result(result)

        self._jobs.put(job)
        return await asyncio.wrap_future(future)
