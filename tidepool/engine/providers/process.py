"""A plugin's process: started, listened to, and ended, without ever blocking the engine's loop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, TypeVar

from tidepool.engine.errors import EngineError

#: Called on the loop's thread with each line that a plugin writes, and whether it was to stderr.
LogSink = Callable[[str, bool], None]

START_DEADLINE_S: Final = 60.0
_KEPT_LINES: Final = 20
#: After SIGINT, as the Pulumi CLI ends its plugins; SIGTERM is for those that were started to ignore SIGINT.
_SIGTERM_AFTER_S: Final = 2.0
_SIGKILL_AFTER_S: Final = 5.0
#: .NET draws a progress bar on the first line, even when it is not to a terminal.
_NOISE: Final = ("\x1b]9;4;3;\x1b\\", "\x1b]9;4;0;\x1b\\")


_T = TypeVar("_T")


# `read` succeeds when the engine calls the watch off by writing a line. Dash takes a process group only
# after `-s KILL`, not after `-KILL`.
_SCRIPT: Final = 'read -r off || kill -s KILL -- "-$1" 2>/dev/null'


class PluginStartError(EngineError):
    """A plugin was found, but its process does not come up."""


class Watchdog:
    """Ends one process group with the engine, even when the engine is killed with SIGKILL.

    A shell reads from a pipe that only the engine holds open for writing. The kernel closes it when the
    engine ends in whatever way, the shell reads the end of the file and kills the child's process group.

    PR_SET_PDEATHSIG, the kernel's own means, is not used: it is bound to the *thread* that started the child
    (which here is one of a pool and may end at any time), has to be set between fork and exec (where Python
    code is not safe in a process with threads), and does not reach the child's own children.
    """

    def __init__(self, process_group: int) -> None:
        read_end, self._write_end = os.pipe()
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "sh", str(process_group)],
                stdin=read_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                # Ctrl-C in the terminal is for the engine alone.
                process_group=0,
            )
        except OSError:
            os.close(self._write_end)
            raise
        finally:
            os.close(read_end)

    @property
    def lifeline(self) -> int:
        """The pipe's descriptor: the child lives as long as anybody has it, or a copy."""
        return self._write_end

    def call_off(self) -> None:
        """End the watch; the process group is left alone."""
        if self._write_end < 0:
            return
        try:
            os.write(self._write_end, b"off\n")
        except BrokenPipeError:
            pass  # The shell was ended by somebody else.
        os.close(self._write_end)
        self._write_end = -1
        self._shell.wait()


class PluginProcess:
    """The process of one plugin, which serves on ``port`` of the loopback.

    It has its own process group, so Ctrl-C in the terminal reaches the engine alone, and a watchdog, so
    it ends even when the engine is killed.
    """

    def __init__(
        self,
        name: str,
        popen: subprocess.Popen[bytes],
        watchdog: Watchdog,
        loop: asyncio.AbstractEventLoop,
        on_log: LogSink,
    ) -> None:
        self.name = name
        self.port = 0
        #: Done once the process has ended; its result is the exit code, negative for a signal.
        self.ended: asyncio.Future[int] = loop.create_future()
        self._popen = popen
        self._loop = loop
        self._on_log = on_log
        self._first_line: asyncio.Future[str] = loop.create_future()
        self._stderr: deque[str] = deque(maxlen=_KEPT_LINES)
        self._watchdog = watchdog
        self._threads = [
            threading.Thread(target=work, args=args, name=f"plugin {name}: {what}", daemon=True)
            for what, work, args in (
                ("stdout", self._read_stdout, (popen.stdout,)),
                ("stderr", self._read_stderr, (popen.stderr,)),
                ("end", self._await_end, ()),
            )
        ]

    @classmethod
    async def start(
        cls,
        name: str,
        argv: Sequence[str],
        *,
        cwd: Path,
        environ: Mapping[str, str],
        on_log: LogSink,
        deadline_s: float = START_DEADLINE_S,
    ) -> PluginProcess:
        """Start ``argv`` and wait until it has told its port.

        Args:
            name: what the plugin is called in messages.
            argv: the command; the engine's address is its last argument.
            cwd: where it runs.
            environ: its whole environment.
            on_log: is given every line of its stdout (but the first) and stderr.
            deadline_s: how long it may take until it tells its port.

        Raises:
            PluginStartError: when it cannot be started, ends before it has told its port, tells something
                else, or tells nothing in time.
        """
        loop = asyncio.get_running_loop()
        try:
            popen, watchdog = await _spawned(argv, cwd, environ)
        except OSError as e:
            what = f"the folder {cwd}" if e.filename == str(cwd) else argv[0]
            raise PluginStartError(f"could not start plugin {name}: {what}: {e.strerror}") from e
        process = cls(name, popen, watchdog, loop, on_log)
        for thread in process._threads:
            thread.start()
        try:
            process.port = await process._announced_port(argv, deadline_s)
        except BaseException:
            # A refused start, or a cancelled one: nothing stays behind.
            process._signal(signal.SIGKILL)
            await asyncio.wait([process.ended])
            raise
        return process

    @property
    def pid(self) -> int:
        """The id of the process, and of its process group."""
        return self._popen.pid

    async def drained(self, patience_s: float = 1.0) -> None:
        """Wait until all that an ended process wrote was read; but not for a grandchild that holds its pipes."""
        await asyncio.to_thread(self._join_readers, patience_s)

    def stderr_tail(self) -> str:
        """The last lines that the process wrote to stderr, indented, after a line feed; empty if none."""
        return "".join(f"\n    {line}" for line in self._stderr)

    def describe_end(self) -> str:
        """Describe its end to a person, with the last lines of its stderr."""
        code = self.ended.result()
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        tail = self.stderr_tail()
        return f"{how}; its last words:{tail}" if tail else f"{how}, without a word on stderr"

    async def stop(self) -> None:
        """Ask the process to end, insist after some seconds, and reap it."""
        for signal_number, patience_s in (
            (signal.SIGINT, _SIGTERM_AFTER_S),
            (signal.SIGTERM, _SIGKILL_AFTER_S - _SIGTERM_AFTER_S),
            (signal.SIGKILL, None),
        ):
            if self.ended.done():
                break
            self._signal(signal_number)
            done, _ = await asyncio.wait([self.ended], timeout=patience_s)
            if done:
                break
        await self.drained()

    async def _announced_port(self, argv: Sequence[str], deadline_s: float) -> int:
        awaited: list[asyncio.Future[Any]] = [self._first_line, self.ended]
        told, _ = await asyncio.wait(awaited, timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
        if not told:
            raise PluginStartError(
                f"plugin {self.name} [{argv[0]}] did not tell its port within {deadline_s:g} s; "
                f"it was ended{_after(self.stderr_tail())}"
            )
        if self._first_line.done() and self._first_line.result():
            return self._port_of(self._first_line.result(), argv)
        # It closed its stdout: it is ending, and stderr says why.
        ended, _ = await asyncio.wait([self.ended], timeout=2.0)
        if not ended:
            raise PluginStartError(
                f"plugin {self.name} [{argv[0]}] closed its stdout and told no port{_after(self.stderr_tail())}"
            )
        await self.drained()
        if self._first_line.done() and self._first_line.result():
            return self._port_of(self._first_line.result(), argv)  # its end was seen before its words
        raise PluginStartError(f"could not start plugin {self.name} [{argv[0]}]: it {self.describe_end()}")

    def _port_of(self, line: str, argv: Sequence[str]) -> int:
        for noise in _NOISE:
            line = line.replace(noise, "")
        port = port_of(line)
        if port is None:
            raise PluginStartError(
                f"plugin {self.name} [{argv[0]}] wrote {line.strip()!r} as its first line to stdout, "
                f"where its port is expected{_after(self.stderr_tail())}"
            )
        return port

    def _signal(self, signal_number: signal.Signals) -> None:
        try:
            # To the group: a plugin is often a script that starts another process.
            os.killpg(self._popen.pid, signal_number)
        except ProcessLookupError:
            pass  # It ended by itself in this moment.

    def _join_readers(self, timeout_s: float) -> None:
        for thread in self._threads[:2]:
            thread.join(timeout_s)

    # -- on threads of their own

    def _read_stdout(self, pipe: IO[bytes]) -> None:
        with pipe:
            self._tell(_resolve, self._first_line, pipe.readline().decode("utf-8", "replace"))
            for line in pipe:
                self._hear(line, False)

    def _read_stderr(self, pipe: IO[bytes]) -> None:
        with pipe:
            for line in pipe:
                self._hear(line, True)

    def _hear(self, raw: bytes, is_stderr: bool) -> None:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if is_stderr and line:
            self._stderr.append(line)
        self._tell(self._on_log, line, is_stderr)

    def _await_end(self) -> None:
        code = self._popen.wait()
        self._watchdog.call_off()
        self._tell(_resolve, self.ended, code)

    def _tell(self, what: Callable[..., None], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(what, *args)
        except RuntimeError:
            # The loop is closed. The pipes are still drained, or the process would block on a full one.
            return


def port_of(text: str) -> int | None:
    """The port that ``text`` names; None where it names none."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() and 0 < int(text) <= 65535 else None


async def _spawned(
    argv: Sequence[str], cwd: Path, environ: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], Watchdog]:
    # Fork and exec take milliseconds, more in a big process: not on the loop.
    spawning = asyncio.create_task(asyncio.to_thread(spawn, argv, cwd, environ))
    try:
        return await asyncio.shield(spawning)
    except asyncio.CancelledError:
        # The thread goes on all the same: what it starts would be nobody's.
        await asyncio.wait([spawning])
        if spawning.exception() is None:
            popen, watchdog = spawning.result()
            with popen:  # its pipes are closed unread: a grandchild may hold them
                os.killpg(popen.pid, signal.SIGKILL)
            watchdog.call_off()
        raise


def spawn(
    argv: Iterable[str],
    cwd: Path,
    environ: Mapping[str, str],
    *,
    stderr: int = subprocess.PIPE,
    bufsize: int = -1,
) -> tuple[subprocess.Popen[bytes], Watchdog]:
    """Start a plugin in a process group of its own, and a watchdog over it; raises OSError."""
    popen = subprocess.Popen(
        list(argv),
        bufsize,
        cwd=cwd,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        process_group=0,
    )
    try:
        return popen, Watchdog(popen.pid)
    except OSError:
        with popen:
            os.killpg(popen.pid, signal.SIGKILL)
        raise


def _resolve(future: asyncio.Future[_T], result: _T) -> None:
    if not future.done():
        future.set_result(result)


def _after(tail: str) -> str:
    return f"; its last words:{tail}" if tail else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
