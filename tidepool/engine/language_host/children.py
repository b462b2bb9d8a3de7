"""Processes that the host runs, one for each program and plugin. None is left when the host ends."""

from __future__ import annotations

import queue
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, Literal

from tidepool.engine.errors import EngineError

Stream = Literal["stdout", "stderr"]

#: From the interrupt to the end of one that does not heed it, as for plugins that the CLI starts itself.
GRACE_S: Final = 5.0
_PIECE_BYTES: Final = 1 << 16


class Children:
    """The processes under way. They are of the host's process group, whose interrupts they hear, too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._over = False

    @contextmanager
    def running(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, piped: bool = False
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start a process and hold it to its end. What it says is the host's own output, unless it is ``piped``.

        Raises:
            EngineError: it cannot be started; all were ended.
        """
        where = subprocess.PIPE if piped else None
        with self._lock:
            if self._over:
                raise EngineError("cancelled")
            try:
                process = subprocess.Popen(
                    argv, env=dict(env), cwd=cwd, stdin=subprocess.DEVNULL, stdout=where, stderr=where
                )
            except OSError as error:
                raise EngineError(f"could not run {error.filename or argv[0]}: {error.strerror}") from error
            self._running.add(process)
        try:
            yield process
            process.wait()
        finally:
            self.end(process)
            process.wait()
            self._running.discard(process)

    def end_all(self) -> None:
        """End all, and start no more."""
        with self._lock:
            self._over = True
            running = list(self._running)
        for process in running:
            self.end(process)
        for process in running:
            process.wait()

    @staticmethod
    def end(process: subprocess.Popen[bytes]) -> None:
        """Interrupt a process, and kill it when it has not ended in time. One that has ended is left alone."""
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            late = threading.Timer(GRACE_S, process.kill)
            late.daemon = True
            late.start()


def said(process: subprocess.Popen[bytes]) -> Iterator[tuple[Stream, bytes]]:
    """Yield what a process writes, as it comes, to the end of both its streams."""
    assert process.stdout is not None and process.stderr is not None
    pieces: queue.SimpleQueue[tuple[Stream, bytes]] = queue.SimpleQueue()

    def pump(name: Stream, stream: IO[bytes]) -> None:
        with stream:
            while piece := stream.read1(_PIECE_BYTES):  # type: ignore[attr-defined]
                pieces.put((name, piece))
        pieces.put((name, b""))

    streams: tuple[tuple[Stream, IO[bytes]], ...] = (("stdout", process.stdout), ("stderr", process.stderr))
    for each in streams:
        threading.Thread(target=pump, args=each, daemon=True).start()
    open_streams = len(streams)
    while open_streams:
        name, piece = pieces.get()
        if piece:
            yield name, piece
        else:
            open_streams -= 1
