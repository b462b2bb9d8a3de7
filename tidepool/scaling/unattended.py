"""Operations of the engine that outlive whoever asked for them: half an operation is worse than a whole one.

The Automation API runs an operation as a child that talks to it by pipes. A daemon that is killed would take the pipes
with it, and an interrupt at its terminal would reach the child as well.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pulumi.automation import CommandResult, PulumiCommand
from pulumi.automation.errors import create_command_error

from tidepool.engine.automation import EmbeddedPulumiCommand

_OPERATIONS: Final = frozenset({"preview", "up", "refresh", "destroy"})
#: After the first interrupt the engine lets what is under way come to its end.
_PATIENCE_S: Final = 90.0

Listener = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Terms:
    """What an operation is run with: how long it may take, where its events go, and descriptors that it inherits."""

    timeout_s: float
    events: Path
    descriptors: tuple[int, ...] = ()


class Unattended(PulumiCommand):
    """A command of the Automation API that runs operations by ``terms``; all else is done by the command behind it."""

    def __init__(self, behind: PulumiCommand, terms: Terms) -> None:
        """Start nothing: the base class would run ``pulumi version``."""
        self.command = behind.command
        self.version = behind.version
        self._behind = behind
        self._terms = terms

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: Listener | None = None,
        on_error: Listener | None = None,
    ) -> CommandResult:
        """Carry out a command line.

        Raises:
            CommandError: or one of its kinds, when it fails.
            TimeoutError: an operation took too long, and was ended.
        """
        if args[0] not in _OPERATIONS:
            return self._behind.run(args, cwd, additional_env, on_output, on_error)
        env = {
            **os.environ,
            **additional_env,
            "PULUMI_AUTOMATION_API": "true",
            # The CLI knows the flag of the event log only then.
            "PULUMI_DEBUG_COMMANDS": "true",
        }
        words = ["--non-interactive", *args, "--event-log", str(self._terms.events)]
        result = self._operation([*self._program, *words], cwd, env)
        if result.code != 0:
            raise create_command_error(result)
        return result

    @property
    def _program(self) -> list[str]:
        if isinstance(self._behind, EmbeddedPulumiCommand):
            return [sys.executable, "-m", "tidepool.engine"]
        return [self._behind.command]

    def _operation(self, argv: list[str], cwd: str, env: Mapping[str, str]) -> CommandResult:
        said = [self._terms.events.with_suffix(f".{stream}") for stream in ("out", "err")]
        with said[0].open("wb") as out, said[1].open("wb") as err:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=cwd,
                env=env,
                pass_fds=self._terms.descriptors,
                start_new_session=True,
            )
        try:
            code = process.wait(self._terms.timeout_s)
        except subprocess.TimeoutExpired:
            _end(process)
            raise TimeoutError(f"it did not end within {self._terms.timeout_s:g} s, and was ended") from None
        texts = [path.read_text(errors="replace").rstrip("\n") for path in said]
        return CommandResult(stdout=texts[0], stderr=texts[1], code=code)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
