"""Starts the first process of a machine or a switch, and talks to it until it stands by itself."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from tidepool.infrastructures.local.kernel.errors import BootFailed, LocalError, TimedOut
from tidepool.infrastructures.local.kernel.lifeline import Lifeline, readable, writable
from tidepool.infrastructures.local.kernel.lock import locked

#: What the first process is made of.
_SOURCES: Final = Path(__file__).parent / "init"
_COMPILING_S: Final = 120.0
COMPILER: Final = "cc"
COMPILER_REMEDY: Final = "apt-get install gcc libc6-dev"


def init_program(data: Path) -> Path:
    """The compiled ``init/``, kept in the data folder under its digest; compiled when it is not there.

    Raises:
        LocalError: there is no C compiler, or it failed.
    """
    sources = sorted(_SOURCES.iterdir())
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()
    program = data / f"init-{digest[:16]}"
    if program.exists():
        return program
    with locked(data / "init.lock", _COMPILING_S):
        if not program.exists():
            _compile([str(source) for source in sources if source.suffix == ".c"], program)
    return program


def _compile(sources: list[str], program: Path) -> None:
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise LocalError(f"there is no C compiler ({COMPILER}) on PATH: {COMPILER_REMEDY}")
    beside = program.with_suffix(".new")
    command = [compiler, "-static", "-O2", *sources, "-o", str(beside)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_COMPILING_S, check=False)
    except subprocess.TimeoutExpired:
        raise TimedOut(f"compiling init took longer than {_COMPILING_S:g} s") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise LocalError(f"init does not compile here ({COMPILER_REMEDY}):\n{said}")
    beside.chmod(0o755)
    os.replace(beside, program)


@dataclass(frozen=True, slots=True)
class Newborn:
    """A first process in new namespaces, which waits for its plan. It ends when its maker dies before that."""

    lifeline: Lifeline
    _plan: BinaryIO
    _answers: int

    def boot(self, plan: bytes, deadline: float) -> None:
        """Hand over the plan, and wait until its steps are done and services begin to start.

        ``plan`` is as :func:`tidepool.infrastructures.local.kernel.plan.encode` makes it, ``deadline`` on the clock
        ``time.monotonic``.

        Raises:
            BootFailed: a step failed; says which and why.
            TimedOut: the deadline passed.
        """
        if time.monotonic() > deadline:  # what has its plan boots, whether or not anybody waits for it
            raise TimedOut("there was no time left for its boot")
        os.set_blocking(
            self._plan.fileno(), False
        )  # a plan may be longer than a pipe, and its reader may hang
        rest = memoryview(plan)
        try:
            while rest:
                if not writable(self._plan.fileno(), deadline):
                    raise TimedOut("the machine did not take its plan in time")
                rest = rest[self._plan.write(rest) :]
        except BrokenPipeError:
            pass  # it ended; its answer says why
        self._plan.close()
        line = _read_line(self._answers, deadline)
        if line is None:
            raise TimedOut("the machine did not say in time whether it booted")
        if line != "ok":
            code, _, reason = line.partition(": ")
            raise BootFailed(reason or "its first process ended without a word", code)


@contextmanager
def newborn(program: Path, log: Path, status: Path, deadline: float) -> Iterator[Newborn]:
    """A new first process. What becomes of it when the block fails is the caller's business.

    ``program`` is what :func:`init_program` gave; to ``log`` its log is appended, and ``status`` is the file for its table
    of services. ``deadline`` is on the clock ``time.monotonic``.

    Raises:
        BootFailed: the kernel gives no namespaces.
        TimedOut: the deadline passed.
    """
    plan_read, plan_write = os.pipe2(os.O_CLOEXEC)
    answers_read, answers_write = os.pipe2(os.O_CLOEXEC)
    with os.fdopen(plan_write, "wb", buffering=0) as plan:
        try:
            begin = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
            given = [plan_read, answers_write]
            try:
                given.append(os.open(log, begin | os.O_APPEND, 0o600))
                given.append(os.open(status, begin | os.O_TRUNC, 0o600))
                child = _spawn([str(program), "boot"], given)
            finally:
                for descriptor in given:
                    os.close(descriptor)
            with contextlib.suppress(ChildProcessError):  # a caller may reap all children by itself
                os.waitpid(child, 0)  # it only makes the namespaces, and leaves its child there
            yield Newborn(_first_process(answers_read, deadline), plan, answers_read)
        finally:
            os.close(answers_read)


def _first_process(answers: int, deadline: float) -> Lifeline:
    line = _read_line(answers, deadline)
    if line is None:
        raise TimedOut("no namespaces were made in time")
    word, _, rest = line.partition(" ")
    if word != "pid":
        raise BootFailed(rest or "its first process ended without a word")
    lifeline = Lifeline.of(int(rest))
    if lifeline is None:
        raise BootFailed("its first process ended at once")
    return lifeline


def _spawn(command: list[str], descriptors: Sequence[int]) -> int:
    """Start it in a session of its own, without environment, with these as its descriptors 0 and on."""
    # Copied from above the numbers that they get, so that none is overwritten before its turn.
    sources = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 16) for descriptor in descriptors]
    try:
        return os.posix_spawn(
            command[0],
            command,
            {},
            file_actions=[(os.POSIX_SPAWN_DUP2, source, number) for number, source in enumerate(sources)],
            setsid=True,
            setsigmask=[],
            setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
        )
    finally:
        for source in sources:
            os.close(source)


def _read_line(descriptor: int, deadline: float) -> str | None:
    """One line without its end; what there was, where the writer ended; None when the deadline passed."""
    line = b""
    while not line.endswith(b"\n"):
        if not readable(descriptor, deadline):
            return None
        byte = os.read(descriptor, 1)  # no more: what follows is the next answer
        if not byte:
            break
        line += byte
    return line.decode(errors="replace").rstrip("\n")
