"""Whoever waits for an operation waits to its end, whenever he is interrupted."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import IO

import pytest

from tidepool.engine.automation import followed


class Interrupted:
    """An operation that ends at the second interrupt; ``while_interrupted`` happens in the middle of the first."""

    def __init__(self, while_interrupted: Callable[[], None]) -> None:
        out, self._out = os.pipe()
        err, self._err = os.pipe()
        self.stdout: IO[str] = os.fdopen(out)
        self.stderr: IO[str] = os.fdopen(err)
        self._while_interrupted = while_interrupted
        self.interrupts = 0
        self.has_ended = False

    def interrupt(self) -> None:
        self.interrupts = number = self.interrupts + 1
        if number == 1:
            self._while_interrupted()
        if number == 2:
            os.close(self._out)
            os.close(self._err)

    def wait(self) -> int:
        self.has_ended = True
        self.stdout.close()
        self.stderr.close()
        return 255


def _interrupt_main_thread() -> None:
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


def test_an_interrupt_within_another_loses_no_operation() -> None:
    operation = Interrupted(_interrupt_main_thread)
    before = signal.getsignal(signal.SIGINT)
    timer = threading.Timer(0.1, _interrupt_main_thread)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        followed(operation, None, None)
    timer.join()
    assert (operation.interrupts, operation.has_ended) == (2, True)
    assert signal.getsignal(signal.SIGINT) is before


def test_what_a_handler_of_the_callers_raises_is_raised_at_the_end() -> None:
    def end(*_: object) -> None:
        raise SystemExit(3)

    operation = Interrupted(lambda: threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start())
    before = signal.signal(signal.SIGTERM, end)
    try:
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM))
        timer.start()
        with pytest.raises(SystemExit):
            followed(operation, None, None)
        timer.join()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (operation.interrupts, operation.has_ended) == (2, True)


def test_in_another_thread_nothing_is_heard() -> None:
    operation = Interrupted(lambda: None)
    codes = []
    thread = threading.Thread(target=lambda: codes.append(followed(operation, None, None).code))
    thread.start()
    operation.interrupt()
    operation.interrupt()
    thread.join()
    assert codes == [255]
