"""An operation in a process of its own, as whoever began it sees it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import IO, Final, Protocol

#: As a shell tells of a process that was killed; it is what is told where nobody saw how it ended.
KILLED: Final = 128 + signal.SIGKILL


class Operation(Protocol):
    """An operation under way. Calls after its end have no effect."""

    stdout: IO[str]
    stderr: IO[str]

    def interrupt(self) -> None:
        """Ask it to end soon; asked again, at once."""
        ...

    def wait(self) -> int:
        """Its exit code, when it has ended; 128 and the signal's number where it was killed."""
        ...


class ChildOperation:
    """A process that was started for it."""

    def __init__(
        self, argv: Sequence[str], cwd: str, env: Mapping[str, str], kept_open: Sequence[int]
    ) -> None:
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=dict(env),
            encoding="utf-8",
            errors="replace",
            pass_fds=kept_open,
            # Interrupts of the terminal are its caller's to give.
            process_group=0,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        self.stdout: IO[str] = self._process.stdout
        self.stderr: IO[str] = self._process.stderr

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def wait(self) -> int:
        code = self._process.wait()
        self.stdout.close()
        self.stderr.close()
        return code if code >= 0 else 128 - code


class NotForked(Exception):
    """A process that should have been forked was not; why is in the text."""


class ForkedOperation:
    """A process that another forked. It has ended when its status, a pipe that it and its parent hold, has an end."""

    def __init__(self, stdout: int, stderr: int, status: int, deadline: float) -> None:
        """Wait until it has begun.

        The descriptors are the reading ends, and belong to it from here on.

        Raises:
            NotForked: it did not begin.
        """
        self.stdout: IO[str] = os.fdopen(stdout, encoding="utf-8", errors="replace")
        self.stderr: IO[str] = os.fdopen(stderr, encoding="utf-8", errors="replace")
        self._status: IO[bytes] = os.fdopen(status, "rb", buffering=0)
        self._process = -1
        try:
            readable, _, _ = select.select([self._status], [], [], max(0.0, deadline - time.monotonic()))
            told = self._status.readline() if readable else b""
            if not told.endswith(b"\n"):
                raise NotForked("it was not forked in time" if not readable else "its parent ended")
            self._process = _descriptor_of(int(told))
        except BaseException:
            self._close()
            raise

    def interrupt(self) -> None:
        if self._process < 0:
            return
        try:
            signal.pidfd_send_signal(self._process, signal.SIGINT)
        except ProcessLookupError:
            return  # it has ended in this moment

    def wait(self) -> int:
        code = self._status.readline()
        self._close()
        return int(code) if code.endswith(b"\n") else KILLED

    def _close(self) -> None:
        for stream in (self.stdout, self.stderr, self._status):
            stream.close()
        if self._process >= 0:
            process, self._process = self._process, -1
            os.close(process)


def _descriptor_of(process: int) -> int:
    try:
        return os.pidfd_open(process)
    except ProcessLookupError:
        return -1  # it has ended already, and its status says how
