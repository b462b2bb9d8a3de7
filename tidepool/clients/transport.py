"""Contract of how a command gets to where Slurm is: one of `here`, `namespaces` and `ssh`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that ended by itself. ``exit_code`` is negative where a signal ended it."""

    exit_code: int
    stdout: str
    stderr: str


class Transport(Protocol):
    """Runs commands somewhere, several at a time if asked by several threads.

    ``where`` names that place in errors.
    """

    @property
    def where(self) -> str: ...

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        """Run the command ``argv`` (an argument list: no shell reads it), and wait for its end.

        It reads ``stdin``, and nothing else. Output that is not UTF-8 is read with replacement characters.
        After ``timeout_s`` seconds the command is killed, with all that it started.

        Raises:
            Unreachable: the place, or the command in it, is not there.
            TimedOut: it did not end in time.
        """
        ...

    def close(self) -> None:
        """Let go of what is kept between commands. Closing twice is no mistake."""
        ...


def command_name(argv: Sequence[str]) -> str:
    """Return people's name for the command ``argv``: without `nsenter`, and `env` with its variables, before it."""
    words = list(argv)
    if words[0] == "nsenter" and "--" in words:
        words = words[words.index("--") + 1 :]
    while words[0] == "env" or ("=" in words[0] and len(words) > 1):
        del words[0]
    return words[0]
