"""What an engine does for the command, whichever it is: the grammar of its command lines is the Pulumi CLI's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tidepool.engine.choice import EngineName


@dataclass(frozen=True, slots=True)
class Answer:
    """What a quick verb of the engine came to."""

    code: int
    stdout: str
    stderr: str


class Engine(Protocol):
    """Carries out command lines of the Pulumi CLI in a project's folder. ``env`` is the whole environment."""

    @property
    def name(self) -> EngineName:
        """Which one it is."""
        ...

    def run(self, words: Sequence[str], folder: Path, env: Mapping[str, str], *, aside: bool) -> int:
        """An operation, shown to the person as it goes on; its exit code.

        ``aside`` shows it on standard error: standard output is somebody else's.
        """
        ...

    def ask(self, words: Sequence[str], folder: Path, env: Mapping[str, str]) -> Answer:
        """A quick verb; nobody is asked anything."""
        ...
