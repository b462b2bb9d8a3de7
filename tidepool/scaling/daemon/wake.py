"""`Wake`: what the daemon waits for between turns, which signal handlers may set."""

from __future__ import annotations

import os
import select
import weakref
from contextlib import suppress


class Wake:
    """A `threading.Event` that a handler of a signal may set while its own thread clears it or waits for it.

    `threading.Event` takes a lock for each of that: a handler that runs while its thread holds it waits for ever. This is a counter
    of the kernel's (eventfd(2)).
    """

    def __init__(self) -> None:
        self._counter = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._set = select.poll()
        self._set.register(self._counter, select.POLLIN)
        weakref.finalize(self, os.close, self._counter)

    def set(self) -> None:
        """Have who waits go on, and who waits next; from any thread, and from a handler."""
        # Full, it is set as well.
        with suppress(BlockingIOError):
            os.eventfd_write(self._counter, 1)

    def clear(self) -> None:
        """Forget that it was set."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._counter)

    def wait(self, timeout_s: float) -> None:
        """Wait until it is set, so many seconds at most; in one thread at a time."""
        self._set.poll(timeout_s * 1000)
