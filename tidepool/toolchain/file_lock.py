"""One process at a time at work on something that takes minutes. The kernel lets go of a lock when its holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_LOOK_AGAIN_S: Final = 0.2


class StillHeld(Exception):
    """Another process held the lock for all the time that was given. The text is for a person."""


@contextmanager
def file_lock(path: Path, timeout_s: float, on_wait: Callable[[], None]) -> Iterator[int]:
    """Hold the lock that the file ``path`` stands for; gives the descriptor, which children may inherit.

    ``on_wait`` is called once, if another holds it.

    Raises:
        StillHeld: another held it for ``timeout_s``.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + timeout_s
        waited = False
        while not _took(descriptor):
            if not waited:
                on_wait()
                waited = True
            if time.monotonic() > deadline:
                raise StillHeld(
                    f"another process has held {path} for {timeout_s:.0f} s: `fuser {path}` says which; end it, and begin again"
                )
            time.sleep(_LOOK_AGAIN_S)  # the kernel's own wait has no time limit
        yield descriptor
    finally:
        os.close(descriptor)


def _took(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
