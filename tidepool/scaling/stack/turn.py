"""Whose turn it is to change a stack: one operation at a time, and a person's before the scaler's next.

``<data>/<stack>/operation.lock`` is held by whoever runs an operation, ``operation.next`` beside it by the person who
waits for it. Both are let go of by the kernel when their holders end, however they end. Pulumi has a lock of its own,
which fails where this one waits, and which a raw `pulumi up` takes as well.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

_OPERATION: Final = "operation.lock"
_NEXT: Final = "operation.next"


@contextlib.contextmanager
def person_turn(folder: Path, waiting: Callable[[], object]) -> Iterator[None]:
    """For a person: wait until it is free. Meanwhile the scaler begins nothing new. ``folder`` is the stack's.

    ``waiting`` is called once where it is not free at once, to say so.
    """
    with _held(folder / _NEXT, waiting), _held(folder / _OPERATION, waiting):
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
        return _try(folder / _OPERATION)
    finally:
        os.close(waits)


def forget_turns(folder: Path) -> None:
    """Remove both files. Only for who has the turn: whoever waits for a file that is gone looks again."""
    for name in (_NEXT, _OPERATION):
        (folder / name).unlink(missing_ok=True)


@contextlib.contextmanager
def _held(path: Path, waiting: Callable[[], object]) -> Iterator[None]:
    descriptor = _try(path)
    if descriptor is None:
        waiting()
        while (descriptor := _wait(path)) is None:
            pass
    try:
        yield
    finally:
        os.close(descriptor)


def _try(path: Path) -> int | None:
    return _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _wait(path: Path) -> int | None:
    return _locked(path, fcntl.LOCK_EX)


def _locked(path: Path, how: int) -> int | None:
    """A descriptor with the lock; None where somebody has it, or the file is another one by now."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass  # somebody has it; or it was removed, and its lock is worth nothing
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
