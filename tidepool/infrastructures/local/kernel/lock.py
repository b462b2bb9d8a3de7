"""One caller at a time on a machine, a network or the host's own network. The kernel lets go of a lock when its holder dies."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidepool.infrastructures.local.kernel.errors import TimedOut
from tidepool.infrastructures.local.kernel.layout import Paths
from tidepool.infrastructures.local.kernel.lifeline import network_namespace
from tidepool.infrastructures.local.kernel.private import make_private, remove_if_empty


@contextmanager
def locked(path: Path, timeout_s: float) -> Iterator[None]:
    """Hold the lock that the file ``path`` stands for. The file may be removed while it is held.

    Raises:
        TimedOut: somebody else held it for ``timeout_s``.
    """
    descriptor = _acquire(path, time.monotonic() + timeout_s)
    if descriptor is None:
        raise TimedOut(f"{path} was locked by another process for {timeout_s:g} s; is it stuck?")
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def host_locked(timeout_s: float) -> Iterator[None]:
    """Hold the lock of the network that this thread is in, the host's: for who takes what is there once, whatever the data folder.

    Raises:
        TimedOut: somebody else held it for ``timeout_s``.
    """
    # The namespace is a file that is there once, and nobody can remove it.
    descriptor = os.open(network_namespace("thread-self"), os.O_RDONLY | os.O_CLOEXEC)
    try:
        if not _flock(descriptor, time.monotonic() + timeout_s):
            raise TimedOut(f"another process made an uplink for {timeout_s:g} s; is it stuck?")
        yield
    finally:
        os.close(descriptor)


def _acquire(path: Path, deadline: float) -> int | None:
    while True:
        make_private(path.parent)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # the folder went between the two: whoever had it before was deleting
        if not _flock(descriptor, deadline):
            os.close(descriptor)
            return None
        if _is_still(path, descriptor):
            return descriptor
        os.close(descriptor)  # its holder removed the file: a lock on it excludes nobody


def _flock(descriptor: int, deadline: float) -> bool:
    pause = threading.Event()  # never set: flock has no time-out, and signals belong to the caller
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            pause.wait(0.005)
        else:
            return True


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def remove_lock(place: Paths) -> None:
    """Remove the lock, which the caller holds, and the folders above where they are empty."""
    place.lock.unlink(missing_ok=True)
    kind = place.lock.parent
    remove_if_empty(kind, below=kind.parent.parent)
