"""Set-backs: after a failure something is left alone for a while, longer each time in a row. A while for each cause."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from tidepool.scaling.memory import Cause, Setback

#: By cause: for how long after the first failure, and for how long at most. Each failure doubles it.
_PAUSES: Final[dict[Cause, tuple[timedelta, timedelta]]] = {
    # Others want the same machines: they come back by the minute at best.
    "capacity": (timedelta(seconds=60), timedelta(hours=1)),
    "transient": (timedelta(seconds=5), timedelta(minutes=5)),
    # Until a person has done something about it; looked at again, for a person may forget to tell.
    "permanent": (timedelta(minutes=10), timedelta(hours=6)),
    # Of a node's name: it is quarantined, and another name is taken.
    "boot": (timedelta(minutes=5), timedelta(hours=6)),
}
#: A fleet goes on with other names after so many of its nodes did not come up in a row. Then it backs off itself.
BOOTS_FORGIVEN: Final = 2
_BOOTS_OF_A_FLEET: Final = (timedelta(seconds=30), timedelta(minutes=30))
_MOST_DOUBLINGS: Final = 16

#: A set-back never lasts longer, whatever clocks do.
LONGEST: Final = max(most for _, most in _PAUSES.values())


def of_node(before: Setback | None, cause: Cause, text: str, at: datetime, place: str = "") -> Setback:
    """One more failure of one name, which was to be made at ``place``."""
    failures = before.failures + 1 if before else 1
    first, most = _PAUSES[cause]
    return Setback(cause, failures, at + _pause(first, most, failures), text, place)


def of_fleet(before: Setback | None, cause: Cause, text: str, at: datetime) -> Setback:
    """One more failure of a fleet. Of causes in turn, each counts anew."""
    failures = before.failures + 1 if before and before.cause == cause else 1
    if cause != "boot":
        first, most = _PAUSES[cause]
        return Setback(cause, failures, at + _pause(first, most, failures), text)
    forgiven = Setback(cause, failures, at, text)
    if is_forgiven(forgiven):
        return forgiven
    first, most = _BOOTS_OF_A_FLEET
    return Setback(cause, failures, at + _pause(first, most, failures - BOOTS_FORGIVEN), text)


def is_forgiven(setback: Setback) -> bool:
    """Whether a fleet goes on as if nothing had been: it may be the machines' fault, one by one."""
    return setback.cause == "boot" and setback.failures <= BOOTS_FORGIVEN


def _pause(first: timedelta, most: timedelta, failures: int) -> timedelta:
    return min(most, first * (1 << min(failures - 1, _MOST_DOUBLINGS)))
