"""The process's main thread: work that the engine's gives to it, and interrupts, of which the engine hears, too."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final, TypeVar

_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)
_NONE: Final = -1

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


class Interrupts:
    """Tells the engine of each interrupt, whatever the main thread is doing.

    Python calls handlers on the main thread between two of its instructions: a program in a long call of C, or one
    that was interrupted just before it went to sleep, would not come to it. So the engine hears of interrupts by the
    descriptor that Python writes to from the signal itself.
    """

    def __init__(self, tell: Callable[[], None]) -> None:
        """``tell`` is called once for each interrupt, on a thread of its own."""
        self._tell = tell
        #: Where another, who wants to be woken by signals as well, waits for them: an event loop, say.
        self._other = _NONE

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear of interrupts, in place of what the process did with them. Only on the main thread."""
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        thread = threading.Thread(target=self._listen, args=(read_end,), name="interrupts", daemon=True)
        thread.start()
        self._other = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        kept = {number: signal.signal(number, _do_nothing) for number in _NUMBERS}
        try:
            yield
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(self._other)
            os.close(write_end)
            thread.join()

    def _listen(self, read_end: int) -> None:
        with open(read_end, "rb", buffering=0) as signals:
            while numbers := signals.read(64):
                for number in numbers:
                    if number in _NUMBERS:
                        self._tell()
                if self._other != _NONE:
                    _pass_on(self._other, numbers)

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Let a program handle interrupts as if it were alone, while the engine hears of each.

        Without this, a program that ignores interrupts, or waits for them in an event loop, could not be stopped
        any more. Only within :meth:`listening`, on the main thread.
        """
        install, wake = signal.signal, signal.set_wakeup_fd
        programs: dict[int, Any] = {
            signal.SIGINT: signal.default_int_handler,
            signal.SIGTERM: signal.SIG_DFL,
        }
        engines = {number: signal.getsignal(number) for number in _NUMBERS}
        others = self._other

        def set_handler(number: int, handler: Any) -> Any:
            if number not in programs:
                return install(number, handler)
            # An interrupt must reach Python: it is Python that tells the engine.
            install(number, handler if callable(handler) else _do_nothing)
            previous, programs[number] = programs[number], handler
            return previous

        def set_wakeup_fd(fd: int, **_: bool) -> int:
            previous, self._other = self._other, fd
            return previous

        signal.signal = set_handler  # type: ignore[assignment]
        signal.set_wakeup_fd = set_wakeup_fd
        try:
            yield
        finally:
            signal.signal, signal.set_wakeup_fd = install, wake
            self._other = others
            for number, handler in engines.items():
                install(number, handler)


def _do_nothing(_number: int, _frame: object) -> None:
    """A handler: with one in place, Python writes to the descriptor, and the process goes on."""


def _pass_on(descriptor: int, numbers: bytes) -> None:
    try:
        os.write(descriptor, numbers)
    except OSError:
        # Closed meanwhile, or full: as Python does, whoever waits there has enough to wake up for.
        pass
