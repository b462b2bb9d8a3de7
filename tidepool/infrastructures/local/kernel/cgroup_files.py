"""Files of control groups: both versions are folders, and files that are written to."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path
from typing import Final

from tidepool.infrastructures.local.kernel.errors import TimedOut

_EMPTYING_S: Final = 5.0


def write(file: Path, text: str) -> None:
    """Write to a file of the kernel's: at once, and never making one."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from None  # what the kernel refused, and where
    finally:
        os.close(descriptor)


def read(file: Path) -> str:
    """Read a file of the kernel's.

    Raises:
        FileNotFoundError: its group is gone, or goes while it is read.
    """
    try:
        return file.read_text()
    except OSError as error:
        if error.errno == errno.ENODEV:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file)) from None
        raise


def make_group(folder: Path) -> None:
    """Make a group's folder, and those above it, which another's :func:`remove_group` may be taking away."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileNotFoundError:
            continue
        return


def names_below(folder: Path) -> tuple[str, ...]:
    """The last parts of the names of the groups in one; none where it is gone."""
    try:
        return tuple(each.name for each in os.scandir(folder) if each.is_dir())
    except FileNotFoundError:
        return ()


def members_of(folder: Path) -> frozenset[int]:
    """The processes of the group and of those below it (slurmd makes some)."""
    found: set[int] = set()
    for inner, _, files in os.walk(folder):
        if "cgroup.procs" in files:
            try:
                found.update(int(pid) for pid in read(Path(inner) / "cgroup.procs").split())
            except FileNotFoundError:
                continue  # it was removed while it was read
    return frozenset(found)


def remove_group(hierarchy: Path, group: str) -> None:
    """Remove the group with those below it, then those above it that are empty.

    Raises:
        TimedOut: processes were still in it after some seconds.
    """
    for inner, _, _ in os.walk(hierarchy / group, topdown=False):
        _remove_when_empty(Path(inner))
    for above in list(Path(group).parents)[:-1]:
        try:
            (hierarchy / above).rmdir()
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
                raise
            return  # others are in it


def _remove_when_empty(folder: Path) -> None:
    """A process that ended counts for a moment longer, and the kernel has no event for it that all versions know."""
    deadline, pause = time.monotonic() + _EMPTYING_S, threading.Event()
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
                raise
            if time.monotonic() > deadline:
                raise TimedOut(
                    f"the control group {folder} did not become empty in {_EMPTYING_S:g} s"
                ) from None
            pause.wait(0.002)
        else:
            return
