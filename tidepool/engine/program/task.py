"""A program to be run, whoever runs it, and the check of its types before: ``runtime.options.typechecker``."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from tidepool.engine.deployment.deployment import Deployment
from tidepool.engine.deployment.status import ProgramFailed
from tidepool.engine.errors import EngineError
from tidepool.engine.events import Diagnostic, Severity

#: What a program prints is a stream of text, whose pieces belong together: standard output, standard error.
STREAMS: Final[Mapping[Severity, int]] = {"info": 1, "info#err": 2}


_CHECKERS: Final = ("mypy", "pyright")


@dataclass(frozen=True, slots=True)
class Task:
    """A program of a project. ``path`` is its file or folder, ``folder`` where it is run."""

    path: Path
    folder: Path
    root: Path
    env: Mapping[str, str]


class Program(Protocol):
    """Something that runs a program against the monitor of an operation."""

    async def run(self, deployment: Deployment) -> None:
        """Run it to its end; cancelling the coroutine ends it.

        Raises:
            ProgramFailed: where it ends with an error.
        """
        ...


def settings(deployment: Deployment, task: Task) -> dict[str, Any]:
    """The SDK's settings but for monitor and engine."""
    return {
        "project": deployment.request.project,
        "stack": deployment.request.stack,
        "parallel": deployment.request.options.parallel,
        "dry_run": deployment.request.options.preview,
        "organization": deployment.request.organization,
        "root_directory": str(task.root),
    }


def environment(deployment: Deployment) -> dict[str, str]:
    """Variables that a program may read its settings from, as the CLI sets them."""
    return {
        "PULUMI_CONFIG": json.dumps(dict(deployment.request.program_config)),
        "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(deployment.request.secret_config_keys)),
        "PULUMI_DRY_RUN": "true" if deployment.request.options.preview else "false",
        "PULUMI_ORGANIZATION": deployment.request.organization,
        "PULUMI_PARALLEL": str(deployment.request.options.parallel),
        "PULUMI_PROJECT": deployment.request.project,
        "PULUMI_STACK": deployment.request.stack,
    }


def failure(code: int) -> str:
    """Return the message about a program that ended with that exit code."""
    return f"an unhandled error occurred: program exited with non-zero exit code: {code}"


class CheckedProgram:
    """A program that is only run where ``checker`` finds nothing wrong with it. Source: ``Run`` of pulumi-language-python."""

    def __init__(self, program: Program, task: Task, python: Path, checker: Any, file: Path) -> None:
        """``file`` is the project's, for messages.

        Raises:
            EngineError: when ``checker`` is not known.
        """
        if checker not in _CHECKERS:
            raise EngineError(
                f"'{file}': runtime.options.typechecker: unknown {checker!r}; allowed are {', '.join(_CHECKERS)}"
            )
        self._program = program
        #: Relative to the program's folder, where the checker is run.
        self._environment = os.path.relpath(python.parent.parent, task.folder)
        self._task = task
        self._python = python
        self._checker = checker

    async def run(self, deployment: Deployment) -> None:
        """Check it, and run it to its end."""
        code, output = await self._check()
        if code and f"No module named {self._checker}" in output:
            raise ProgramFailed(
                f"The typechecker option is set to {self._checker}, but {self._checker} is not installed. Please add an "
                f"entry for {self._checker} to requirements.txt and run `{self._python} -m pip install -r requirements.txt`",
                reported=False,
            )
        for line in output.splitlines():
            deployment.emit(Diagnostic("info", f"{line}\n", stream_id=STREAMS["info"]))
        if code:
            raise ProgramFailed(f"{self._checker} failed: exit status {code}\n{output}", reported=False)
        await self._program.run(deployment)

    async def _check(self) -> tuple[int, str]:
        folder = self._task.folder
        excluded = ["--exclude", re.escape(self._environment)] if self._checker == "mypy" else []
        process = await asyncio.create_subprocess_exec(
            str(self._python), "-m", self._checker, *excluded, str(folder),
            env=dict(self._task.env), cwd=folder, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        return process.returncode or 0, output.decode(errors="replace")
