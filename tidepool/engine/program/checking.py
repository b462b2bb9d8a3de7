"""Type checkers that are run before a program, as ``runtime.options.typechecker`` asks. Source: ``Run`` of pulumi-language-python."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidepool.engine.errors import EngineError

_CHECKERS: Final = ("mypy", "pyright")


@dataclass(frozen=True, slots=True)
class Checker:
    """A type checker: ``name`` as a module of the interpreter ``python``, for the program in ``folder``."""

    name: str
    python: Path
    folder: Path

    @classmethod
    def of(cls, name: Any, python: Path, folder: Path, file: Path) -> Checker:
        """Return the one that ``file``, the project's, names.

        Raises:
            EngineError: when it is not known.
        """
        if name not in _CHECKERS:
            raise EngineError(
                f"'{file}': runtime.options.typechecker: unknown {name!r}; allowed are {', '.join(_CHECKERS)}"
            )
        return cls(name, python, folder)

    @property
    def command(self) -> list[str]:
        """The command line, for the program's folder."""
        environment = os.path.relpath(self.python.parent.parent, self.folder)
        excluded = ["--exclude", re.escape(environment)] if self.name == "mypy" else []
        return [str(self.python), "-m", self.name, *excluded, str(self.folder)]

    def is_missing(self, code: int, output: str) -> bool:
        """Tell whether it ended so because it is not installed."""
        return bool(code) and f"No module named {self.name}" in output

    def missing(self) -> str:
        """Return what a person is told when it is not installed."""
        return (
            f"The typechecker option is set to {self.name}, but {self.name} is not installed. Please add an entry for "
            f"{self.name} to requirements.txt and run `{self.python} -m pip install -r requirements.txt`"
        )

    def failed(self, code: int, output: str) -> str:
        """Return what a person is told when it found something."""
        return f"{self.name} failed: exit status {code}\n{output}"
