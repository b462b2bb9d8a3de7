"""The process that is kept warm, and an operation in a process of its own, as whoever began them sees them."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final

from tidepool.engine.automation import with_package

#: As a shell tells of a process that was killed; it is what is told where nobody saw how it ended.
KILLED: Final = 128 + signal.SIGKILL


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


#: How long it may take to import all, and to fork.
_FORK_S: Final = 60.0
_END_S: Final = 5.0
#: What an interpreter, or a library when it is imported, takes from its environment: with others, another is needed.
_READ_AT_START: Final = ("GRPC_", "LD_", "MALLOC_", "PROTOCOL_BUFFERS_", "PYTHON")


class WarmProcess:
    """Forks operations. For one thread at a time."""

    def __init__(self, modules: Sequence[str], watched: Sequence[Path]) -> None:
        """``modules`` are imported ahead; when Python files at or below ``watched`` change, they are imported anew."""
        self._modules = tuple(modules)
        self._watched = tuple(watched)
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._is_made_of: object = None
        self._has_forked = False

    def begin(
        self, words: Sequence[str], cwd: str, env: Mapping[str, str], kept_open: Sequence[int]
    ) -> ForkedOperation:
        """Fork the operation of the command line ``words``. It keeps copies of the descriptors ``kept_open``.

        Raises:
            NotForked: there is no warm process, or none that can do it.
        """
        while True:
            self.ready(env)
            had_forked = self._has_forked
            try:
                return self._fork(words, cwd, env, kept_open)
            except NotForked:
                self.end()
                if not had_forked:
                    raise
            # One that forked before died meanwhile; a new one will do.

    def _fork(
        self, words: Sequence[str], cwd: str, env: Mapping[str, str], kept_open: Sequence[int]
    ) -> ForkedOperation:
        assert self._control is not None
        request = {"words": list(words), "cwd": cwd, "env": dict(env)}
        with ExitStack() as ours:

            def owned(descriptor: int) -> int:
                ours.callback(os.close, descriptor)
                return descriptor

            file = owned(os.memfd_create("request"))
            with os.fdopen(file, "w", encoding="utf-8", closefd=False) as written:
                json.dump(request, written)
            os.lseek(file, 0, os.SEEK_SET)
            stdout, stderr, status = pipes = [os.pipe() for _ in range(3)]
            theirs = [owned(write) for _, write in pipes]
            try:
                socket.send_fds(self._control, [b"\0"], [file, *theirs, *kept_open])
            except OSError as error:
                for read, _ in pipes:
                    os.close(read)
                raise NotForked(f"the warm process is gone: {error.strerror}") from error
        operation = ForkedOperation(stdout[0], stderr[0], status[0], time.monotonic() + _FORK_S)
        self._has_forked = True
        return operation

    def ready(self, env: Mapping[str, str]) -> None:
        """Have one that is as the disk is now; where it is started, it imports while others go on."""
        of = stamps(self._watched), {name: env[name] for name in env if name.startswith(_READ_AT_START)}
        if self._process is not None and (self._process.poll() is not None or of != self._is_made_of):
            self.end()
        if self._control is None:
            self._is_made_of = of
            self._has_forked = False
            self._control = self._start(env)

    def end(self) -> None:
        """End it. Operations that it forked go on."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            process, self._process = self._process, None
            # It ends by itself, now that its socket is closed; nobody need wait for that but for its reaping.
            threading.Thread(target=_reap, args=(process,), name="warm process ends", daemon=True).start()

    def _start(self, env: Mapping[str, str]) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._process = start(theirs, self._modules, env)
            except BaseException:
                ours.close()
                raise
        return ours


def start(control: socket.socket, modules: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start one that serves ``control``, in a process group of its own; raises OSError."""
    return subprocess.Popen(
        [
            sys.executable,
            "-P",  # what lies in its folder is nobody's module
            "-m",
            "tidepool.engine.warm.forking",
            str(control.fileno()),
            *modules,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={**env, "PYTHONPATH": with_package(env.get("PYTHONPATH", ""))},
        pass_fds=(control.fileno(),),
        process_group=0,
    )


def _reap(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


#: Of a file: its time of change in ns, its size, and which file it is.
Stamp = tuple[str, int, int, int]


def stamps(paths: Iterable[Path]) -> frozenset[Stamp]:
    """Stamp the Python files at or below ``paths``, and what is installed for this interpreter.

    With others, what was imported before is old.
    """
    found = set(_installed())
    for path in paths:
        found.update(_stamps(path))
    return frozenset(found)


def _installed() -> Iterator[Stamp]:
    """Packages come and go as entries of these folders, and their versions are in the entries' names."""
    for folder in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), sys.prefix}:
        yield from _stamp(folder, Path(folder).stat)


def _stamps(path: Path) -> Iterator[Stamp]:
    if not path.is_dir():
        yield from _stamp(str(path), path.stat)
        return
    folders = [str(path)]
    while folders:
        try:
            entries = os.scandir(folders.pop())
        except OSError:
            continue  # it went in this moment, and what was in it with it
        with entries:
            for entry in entries:
                if entry.is_dir():
                    if not entry.name.startswith((".", "__pycache__")):
                        folders.append(entry.path)
                elif entry.name.endswith(".py"):
                    yield from _stamp(entry.path, entry.stat)


def _stamp(path: str, look: Callable[[], os.stat_result]) -> Iterator[Stamp]:
    try:
        found = look()
    except OSError:
        return
    yield path, found.st_mtime_ns, found.st_size, found.st_ino
