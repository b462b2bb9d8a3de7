"""Waiting for a descriptor, with a deadline; of any number, where ``select`` ends at 1024."""

from __future__ import annotations

import select
import time


def readable(descriptor: int, deadline: float) -> bool:
    """Return whether there is something to read (or the end) before the deadline, on the clock ``time.monotonic``."""
    return _ready(descriptor, select.POLLIN, deadline)


def writable(descriptor: int, deadline: float) -> bool:
    """Return whether it takes something (or is broken) before the deadline, on the clock ``time.monotonic``."""
    return _ready(descriptor, select.POLLOUT, deadline)


def _ready(descriptor: int, event: int, deadline: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
