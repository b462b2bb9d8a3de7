"""The engine seam: the same command lines for the Pulumi CLI and for the embedded engine."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TextIO

from tidepool.cli.context import Context
from tidepool.cli.errors import Failure
from tidepool.engine.command import EngineName, chosen_engine


@dataclass(frozen=True, slots=True)
class Answer:
    """The exit code and the output of a quick verb of the engine."""

    code: int
    stdout: str
    stderr: str


class Engine(Protocol):
    """Carries out command lines of the Pulumi CLI in a project's folder. ``env`` is the whole environment."""

    @property
    def name(self) -> EngineName:
        """The name that TIDEPOOL_ENGINE chooses it by."""
        ...

    def run(self, words: Sequence[str], folder: Path, env: Mapping[str, str], *, aside: bool) -> int:
        """An operation, shown to the person as it goes on; its exit code.

        ``aside`` shows it on standard error: standard output is somebody else's.
        """
        ...

    def ask(self, words: Sequence[str], folder: Path, env: Mapping[str, str]) -> Answer:
        """A quick verb; nobody is asked anything."""
        ...


_ASK_S: Final = 60.0


def choose(context: Context) -> Engine:
    """The engine that ``context`` wants (`tidepool.engine.command`).

    Raises:
        EngineError: TIDEPOOL_ENGINE names none that is there.
    """
    if context.engine is not None:
        return context.engine
    if chosen_engine(context.env) == "embedded":
        return Embedded(context.person, context.owns_process)
    return Pulumi(shutil.which("pulumi", path=context.env.get("PATH")) or "pulumi")


@dataclass(frozen=True, slots=True)
class Embedded:
    """The embedded engine, in this process."""

    person: bool
    owns_process: bool
    name: EngineName = "embedded"

    def run(self, words: Sequence[str], folder: Path, env: Mapping[str, str], *, aside: bool) -> int:
        import gc

        from tidepool.engine.command import main

        if self.owns_process:
            # As `python -m tidepool.engine` does for an operation: many objects, few cycles; no words of gRPC's.
            gc.set_threshold(100_000, 50, 1000)
            os.environ.update({"GRPC_VERBOSITY": "ERROR", **env})
        stdout: TextIO = sys.stderr if aside else sys.stdout
        env = {"GRPC_VERBOSITY": "ERROR", **env}
        return main(words, folder, env, stdout, sys.stderr, self.person, owns_process=self.owns_process)

    def ask(self, words: Sequence[str], folder: Path, env: Mapping[str, str]) -> Answer:
        from tidepool.engine.command import main

        stdout, stderr = io.StringIO(), io.StringIO()
        code = main(
            ["--non-interactive", *words], folder, env, stdout, stderr, interactive=False, stdin=io.StringIO()
        )
        return Answer(code, stdout.getvalue(), stderr.getvalue())


@dataclass(frozen=True, slots=True)
class Pulumi:
    """The Pulumi CLI: its path."""

    program: str
    name: EngineName = "pulumi"

    def run(self, words: Sequence[str], folder: Path, env: Mapping[str, str], *, aside: bool) -> int:
        stdout = sys.stderr if aside else None
        # It hears of the terminal's interrupts by itself, and ends what is under way before it ends.
        with (
            _passing_on() as begun,
            subprocess.Popen([self.program, *words], cwd=folder, env=env, stdout=stdout) as process,
        ):
            begun(process)
            return process.wait()

    def ask(self, words: Sequence[str], folder: Path, env: Mapping[str, str]) -> Answer:
        command = [self.program, "--non-interactive", *words]
        try:
            ended = subprocess.run(
                command,
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_ASK_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Failure(f"`pulumi {' '.join(words)}` did not end within {_ASK_S:g} s") from None
        return Answer(ended.returncode, ended.stdout, ended.stderr)


@contextlib.contextmanager
def _passing_on() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Outlive interrupts, which are the child's to answer, and pass on what only this process was sent.

    It begins before the child, which must not be left alone; gives what is told of the child once it is there.
    """
    children: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, _frame: object) -> None:
        for child in children:
            child.send_signal(number)
        if not children:
            early.append(number)

    def begun(child: subprocess.Popen[bytes]) -> None:
        children.append(child)
        for number in early:
            child.send_signal(number)

    kept = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda _number, _frame: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, pass_on),
    }
    try:
        yield begun
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
