"""Parts of a process that was forked from one with one thread: streams of its own, an end of its own, and a parent that it ends with."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

#: linux/prctl.h
_PR_SET_PDEATHSIG: Final = 1


def has_threads() -> bool:
    """Tell whether this process has threads beside the first, those of libraries as well: gRPC begins its own again in a fork."""
    return sum(1 for _ in Path("/proc/self/task").iterdir()) > 1


def have_streams(out: int, err: int) -> None:
    """Have these descriptors as output and errors, and nothing to read."""
    given = os.open(os.devnull, os.O_RDONLY)
    for descriptor, stream in ((given, 0), (out, 1), (err, 2)):
        os.dup2(descriptor, stream)
    for descriptor in {given, out, err}:
        os.close(descriptor)
    # Those of the process that forked it may be of anything. What forks from this one has them in its turn: nobody closes them.
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(stream, "r" if stream == 0 else "w", closefd=False) for stream in range(3)
    )


def end_with(parent: int, number: signal.Signals) -> None:
    """Have this process sent a signal when ``parent``, which forked it, is gone, however that went."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def never_return(main: Callable[[], int]) -> NoReturn:
    """End this process with what ``main`` gives: what its parent has open and is about to do is not its own."""
    code = 255
    try:
        code = main()
    except BaseException:  # noqa: BLE001 - the process ends with it
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
