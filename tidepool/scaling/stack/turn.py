"""Whose turn it is to change a stack: one operation at a time, and a person's before the scaler's next.

``<data>/<stack>/operation.lock`` is held by whoever runs an operation, ``operation.next`` beside it by the person who
waits for it. Both are let go of by the kernel when their holders end, however they end. Pulumi has a lock of its own,
which fails where this one waits, and which a raw `pulumi up` takes as well.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

_OPERATION: Final = "operation.lock"
_NEXT: Final = "operation.next"
#: What stands in the first while a person has it.
_PERSON: Final = b"person"
_POLL_S: Final = 0.05


@contextlib.contextmanager
def person_turn(
    folder: Path, waiting: Callable[[], object], *, after_persons: bool = False
) -> Iterator[None]:
    """For a person: wait until the scaler is done. Meanwhile it begins nothing new. ``folder`` is the stack's.

    ``waiting`` is called once where it is not free at once, to say so. Another person is not waited for, who may be
    asked something, or be stopped: then nothing is held here, and Pulumi's own lock says who is at work. With
    ``after_persons`` that one is waited for as well: for what was ordered before, and goes on by itself.
    """
    with contextlib.ExitStack() as held:
        is_told = False
        for name in (_NEXT, _OPERATION):
            while (taken := _try(folder / name)) is None:
                if _holder(folder) == _PERSON and not after_persons:
                    yield
                    return
                if not is_told:
                    waiting()
                    is_told = True
                time.sleep(_POLL_S)
            held.callback(os.close, taken)
            if name == _OPERATION:
                os.pwrite(taken, _PERSON, 0)
                held.callback(os.ftruncate, taken, 0)
        yield


def try_turn(folder: Path) -> int | None:
    """For the scaler: its turn, as a descriptor that holds it until it is closed; None where it is not to be had.

    A child that inherits the descriptor holds it too, until it ends.
    """
    # Somebody who waits is not overtaken.
    waits = _try(folder / _NEXT)
    if waits is None:
        return None
    try:
        turn = _try(folder / _OPERATION)
    finally:
        os.close(waits)
    if turn is not None:
        os.ftruncate(turn, 0)  # of a person who was killed
    return turn


def remove_turns(folder: Path) -> None:
    """Remove both files. Only for who has the turn: whoever waits for a file that is gone looks again."""
    for name in (_NEXT, _OPERATION):
        (folder / name).unlink(missing_ok=True)


def _holder(folder: Path) -> bytes:
    """Return what who holds the turn wrote of itself; nothing where it is the scaler."""
    try:
        return (folder / _OPERATION).read_bytes()
    except FileNotFoundError:
        return b""


def _try(path: Path) -> int | None:
    """A descriptor with the lock; None where somebody has it, or the file is another one by now."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass  # somebody has it; or it was removed, and its lock is worth nothing
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
