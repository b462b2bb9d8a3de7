"""Kinds of failures of an infrastructure: codes that go with what is told to a person.

A provider's errors reach others as lines of text; the code goes with them, as a mark behind the line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, get_args

#: No such machine to be had; it may work in a while; it will not; the machine is there and never came up.
Cause = Literal["capacity", "transient", "permanent", "boot"]


class InfrastructureError(Exception):
    """An infrastructure could not do what was asked. The text is for a person, ``cause`` for a program."""

    cause: ClassVar[Cause] = "transient"


class InsufficientCapacity(InfrastructureError):
    """It has no more such machines: sold out, or the account's quota is reached.

    Asking again at once is of no use; another infrastructure, or another shape, may have some.
    """

    cause = "capacity"


class Transient(InfrastructureError):
    """It did not work this time: a time-out, a lost answer, too many requests. The same may work in a while."""


class Permanent(InfrastructureError):
    """It will not work however often it is asked: what was asked for is wrong, or not allowed."""

    cause = "permanent"


@dataclass(frozen=True, slots=True)
class Note:
    """A line beside the mistakes that a check finds: a person should read it, and all goes on.

    With ``is_warning`` they may want something else; without, it says more of what they asked for.
    """

    text: str
    is_warning: bool = True


def cause_of(error: BaseException) -> Cause | None:
    """The code that a failure carries; None where it carries none, and may be of any kind."""
    return getattr(error, "cause", None)


_CAUSES: Final = get_args(Cause)
_MARK = re.compile(r"\s*\[cause: (\w+)\]")


def marked(text: str, cause: Cause | None) -> str:
    """``text`` with its cause behind it, where there is one."""
    return f"{text.rstrip()} [cause: {cause}]" if cause else text


def unmarked(text: str) -> tuple[str, Cause | None]:
    """The text as it was, and its cause; None where it says none."""
    found = [mark[1] for mark in _MARK.finditer(text) if mark[1] in _CAUSES]
    return (_MARK.sub("", text) if found else text), (found[-1] if found else None)  # type: ignore[return-value]
