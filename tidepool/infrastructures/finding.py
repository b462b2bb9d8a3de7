"""A check before something is needed: what it found, and what an infrastructure gives to be checked so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from tidepool.cluster.failures import Note, unmarked

if TYPE_CHECKING:
    from tidepool.resources.kind import Home

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: Nothing works without what ``lacks``; a ``note`` is for a person to know.
State = Literal["well", "note", "lacks"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of `tidepool doctor`. ``remedy`` is empty where all is well, and where the detail ends with it."""

    what: str
    state: State
    detail: str
    remedy: str = ""


def findings(what: str, lacks: Iterable[str], well: str) -> Iterator[Finding]:
    """Yield a finding for all that is lacking, without the marks of failures; where nothing is, that all is ``well``."""
    # One in an offering is found for each fleet that names it.
    missing = [Finding(what, "lacks", unmarked(lack)[0]) for lack in dict.fromkeys(lacks)]
    yield from missing or [Finding(what, "well", well)]


def gathered(found: Callable[_P, Iterator[_T]]) -> Callable[_P, tuple[_T, ...]]:
    """Have a generator give all that it yields at once."""

    @wraps(found)
    def gather(*args: _P.args, **kwargs: _P.kwargs) -> tuple[_T, ...]:
        return tuple(found(*args, **kwargs))

    return gather


@dataclass(frozen=True, slots=True)
class Preflight:
    """The check of an infrastructure that a preview makes, and `tidepool doctor` the same.

    ``demands`` is the frozen dataclass that the resource `Preflight` has as its input; ``lacks`` gives all that is missing
    of one, each with where it was asked for and the remedy; that nobody answers, too. One may be marked with the kind of
    failure that it is (`tidepool.cluster.failures.marked`). What all else can do without is a `Note`.
    """

    demands: type
    lacks: Callable[[Any, Home], Iterable[str | Note]]
