"""The embedded engine behind the Automation API. Importing this imports the SDK."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, Protocol

from pulumi.automation import CommandResult, PulumiCommand
from pulumi.automation.errors import InvalidVersionError, create_command_error
from semver import VersionInfo

from tidepool.engine import choice
from tidepool.engine.choice import COMPATIBLE_VERSION
from tidepool.engine.command import main
from tidepool.engine.errors import EngineError

#: What runs a program and providers: in a process of its own, which can be interrupted and may be killed.
_OPERATIONS: Final = frozenset({"preview", "pre", "up", "update", "refresh", "destroy", "down", "dn"})

Listener = Callable[[str], Any]


class EmbeddedPulumiCommand(PulumiCommand):
    """Serves the command lines of the Automation API without a ``pulumi`` command.

    Quick verbs run in this process, operations in a child process. Nothing is started before :meth:`run`.
    """

    def __init__(self) -> None:
        """Start nothing: the base class would run ``pulumi version``."""
        self.command = sys.executable
        self.version = VersionInfo.parse(COMPATIBLE_VERSION)

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: Listener | None = None,
        on_error: Listener | None = None,
    ) -> CommandResult:
        """Carry out a command line; lines go to the listeners as they come.

        Raises:
            CommandError: or one of its kinds, when it fails.
        """
        env = {**os.environ, **additional_env, "PULUMI_AUTOMATION_API": "true"}
        words = ["--non-interactive", *args]
        if is_operation(args):
            result = followed(engine_operation(words, cwd, env, own_group=False), on_output, on_error)
        else:
            result = _run_here(words, cwd, env, on_output, on_error)
        if result.code != 0:
            raise create_command_error(result)
        return result


def choose_command(env: Mapping[str, str]) -> PulumiCommand:
    """The engine that the Automation API is to use: ``LocalWorkspaceOptions(pulumi_command=...)``.

    ``TIDEPOOL_ENGINE`` names it: "pulumi" or "embedded". Where it does not, it is the Pulumi CLI if there
    is one on PATH, otherwise the embedded engine.

    Raises:
        EngineError: when ``TIDEPOOL_ENGINE`` is something else, or the CLI is asked for and not there, or not fit.
    """
    if choice.chosen_engine(env) == "embedded":
        return EmbeddedPulumiCommand()
    program = choice.pulumi_cli(env)
    try:
        return PulumiCommand(str(choice.BUILT) if program.is_relative_to(choice.BUILT) else None)
    except InvalidVersionError as error:
        raise EngineError(
            f"the Pulumi CLI {program} does not fit the package pulumi: {error} `make pulumi` builds one that does; "
            "TIDEPOOL_ENGINE=embedded does without"
        ) from error


def _run_here(
    words: list[str],
    cwd: str,
    env: Mapping[str, str],
    on_output: Listener | None,
    on_error: Listener | None,
) -> CommandResult:
    stdout, stderr = io.StringIO(), io.StringIO()
    code = main(words, Path(cwd).resolve(), env, stdout, stderr, interactive=False, stdin=io.StringIO())
    return CommandResult(
        stdout="\n".join(_lines(stdout.getvalue(), on_output)),
        stderr="\n".join(_lines(stderr.getvalue(), on_error)),
        code=code,
    )


def is_operation(args: list[str]) -> bool:
    """Tell whether the first word that is no flag is an operation. The Automation API sends it first."""
    return next((a for a in args if not a.startswith("-")), "") in _OPERATIONS


def _lines(text: str, listener: Listener | None) -> list[str]:
    lines = [line.rstrip() for line in text.splitlines()]
    for line in lines if listener is not None else ():
        assert listener is not None
        listener(line)
    return lines


class Operation(Protocol):
    """An operation under way. Calls after its end have no effect."""

    stdout: IO[str]
    stderr: IO[str]

    def interrupt(self) -> None:
        """Ask it to end soon; asked again, at once."""

    def wait(self) -> int:
        """Its exit code, when it has ended; 128 and the signal's number where it was killed."""


class ChildOperation:
    """A process that was started for it."""

    def __init__(
        self,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        kept_open: Sequence[int] = (),
        *,
        own_group: bool = True,
    ) -> None:
        """``own_group`` keeps the terminal's interrupts from it: they are its caller's to give."""
        self._own_group = own_group
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
            process_group=0 if own_group else None,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        self.stdout: IO[str] = self._process.stdout
        self.stderr: IO[str] = self._process.stderr

    def interrupt(self) -> None:
        if self._own_group:
            self._process.send_signal(signal.SIGINT)

    def wait(self) -> int:
        code = self._process.wait()
        self.stdout.close()
        self.stderr.close()
        return code if code >= 0 else 128 - code


def engine_operation(
    words: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    kept_open: Sequence[int] = (),
    *,
    own_group: bool = True,
) -> ChildOperation:
    """Start the embedded engine for one operation; it must find this very package, wherever its working folder is."""
    env = {**env, "PYTHONPATH": with_package(env.get("PYTHONPATH", ""))}
    return ChildOperation(
        [sys.executable, "-m", "tidepool.engine", *words], cwd, env, kept_open, own_group=own_group
    )


def followed(operation: Operation, on_output: Listener | None, on_error: Listener | None) -> CommandResult:
    """Hear what it says, to its end."""
    outputs: list[str] = []
    errors: list[str] = []
    readers = [
        threading.Thread(target=_read_lines, args=(operation.stdout, on_output, outputs)),
        threading.Thread(target=_read_lines, args=(operation.stderr, on_error, errors)),
    ]
    for reader in readers:
        reader.start()
    interrupted: BaseException | None = None
    with _interrupts_forwarded(operation) as interrupts:
        while any(reader.is_alive() for reader in readers):
            try:
                for reader in readers:
                    reader.join()
            except BaseException as error:  # noqa: BLE001 - raised when all is saved
                # Whoever waits is interrupted, and so is what it waits for: soon, and then at once.
                interrupted = error
                operation.interrupt()
        code = operation.wait()
    if interrupted is not None:
        raise interrupted
    if interrupts:
        raise KeyboardInterrupt
    return CommandResult(stdout="\n".join(outputs), stderr="\n".join(errors), code=code)


@contextmanager
def _interrupts_forwarded(operation: Operation) -> Iterator[list[int]]:
    """Hand SIGINT on to the operation, where Python would raise KeyboardInterrupt for it; yields those that came.

    Raised, it may come between any two statements, also in what handles one before it, and nobody would wait for the operation any more.
    """
    interrupts: list[int] = []

    def forward(number: int, _: object) -> None:
        interrupts.append(number)
        operation.interrupt()

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupts
        return
    before = signal.signal(signal.SIGINT, forward)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


def _read_lines(stream: IO[str], listener: Listener | None, lines: list[str]) -> None:
    """Put the lines of a stream into ``lines`` and tell the listener of each, to the end."""
    for line in stream:
        stripped = line.rstrip()
        if listener is not None:
            listener(stripped)
        lines.append(stripped)


def with_package(path: str) -> str:
    """A PYTHONPATH like ``path`` by which a child process finds this very package."""
    root = str(Path(__file__).resolve().parents[2])
    return path if root in path.split(os.pathsep) else os.pathsep.join(filter(None, (root, path)))
