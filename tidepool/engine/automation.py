"""The embedded engine behind the Automation API. Importing this imports the SDK."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Final

from pulumi.automation import CommandResult, PulumiCommand
from pulumi.automation.errors import create_command_error
from semver import VersionInfo

from tidepool.engine.command import chosen_engine, main
from tidepool.engine.verbs.about import COMPATIBLE_VERSION

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
        run = self._run_child if is_operation(args) else _run_here
        result = run(words, cwd, env, on_output, on_error)
        if result.code != 0:
            raise create_command_error(result)
        return result

    def _run_child(
        self,
        words: list[str],
        cwd: str,
        env: Mapping[str, str],
        on_output: Listener | None,
        on_error: Listener | None,
    ) -> CommandResult:
        outputs: list[str] = []
        errors: list[str] = []
        with subprocess.Popen(
            [self.command, "-m", "tidepool.engine", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            cwd=cwd,
            # The child must find this very package, wherever its working directory is.
            env={**env, "PYTHONPATH": with_package(env.get("PYTHONPATH", ""))},
            encoding="utf-8",
        ) as process:
            assert process.stdout is not None and process.stderr is not None
            readers = [
                threading.Thread(target=read_lines, args=(process.stdout, on_output, outputs)),
                threading.Thread(target=read_lines, args=(process.stderr, on_error, errors)),
            ]
            for reader in readers:
                reader.start()
            for reader in readers:
                reader.join()
            code = process.wait()
        return CommandResult(stdout="\n".join(outputs), stderr="\n".join(errors), code=code)


def choose_command(env: Mapping[str, str]) -> PulumiCommand:
    """The engine that the Automation API is to use: ``LocalWorkspaceOptions(pulumi_command=...)``.

    ``TIDEPOOL_ENGINE`` names it: "pulumi" or "embedded". Where it does not, it is the Pulumi CLI if there
    is one on PATH, otherwise the embedded engine.

    Raises:
        EngineError: when ``TIDEPOOL_ENGINE`` is something else, or the CLI is asked for and not there.
    """
    return PulumiCommand() if chosen_engine(env) == "pulumi" else EmbeddedPulumiCommand()


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


def read_lines(stream: IO[str], listener: Listener | None, lines: list[str]) -> None:
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
