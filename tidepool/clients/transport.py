"""Contract of how a command gets to where Slurm is: one of `here` and `ssh`; and how it fails to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class ClientError(Exception):
    """The other side was not asked, did not answer, refused, or was not understood.

    ``what`` happened, ``where`` (the transport and the command), and the ``remedy`` are for people; the message is
    made of all three.
    """

    def __init__(self, what: str, *, where: str, remedy: str) -> None:
        super().__init__(f"{what} ({where}); {remedy}")
        self.what = what
        self.where = where
        self.remedy = remedy


class Unreachable(ClientError):
    """The machine or the command that would be asked cannot be reached; nothing was asked.

    A connection of SSH that breaks while a command runs is one too: then the request may have been carried out.
    """


class NotRunning(Unreachable):
    """The machine is gone, or does not run: not merely out of reach."""


class TimedOut(ClientError):
    """No answer in time. What was asked for may have been done, or may still be."""


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

    def close(self) -> None:
        """Let go of what is kept between commands. Closing twice is no mistake."""


def late(argv: Sequence[str], timeout_s: float, where: str) -> TimedOut:
    """Return the error of a command that did not end in time."""
    what = f"{command_name(argv)} did not end within {timeout_s:g} s"
    return TimedOut(what, where=where, remedy="see whether slurmctld hangs, or allow more time")


def command_name(argv: Sequence[str]) -> str:
    """Return people's name for the command ``argv``: without `env` with its variables before it."""
    words = list(argv)
    while words[0] == "env" or ("=" in words[0] and len(words) > 1):
        del words[0]
    return words[0]
