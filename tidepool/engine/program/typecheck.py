"""The check of a program's types before it is run: ``runtime.options.typechecker`` of the project.

Source: ``Run`` of pulumi-language-python.
"""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any, Final

from tidepool.engine.deployment.deployment import Deployment
from tidepool.engine.deployment.status import ProgramFailed
from tidepool.engine.errors import EngineError
from tidepool.engine.events import Diagnostic
from tidepool.engine.program.task import STREAMS, Program, Task

_CHECKERS: Final = ("mypy", "pyright")


class CheckedProgram:
    """A program that is only run where ``checker`` finds nothing wrong with it."""

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
