"""Set-backs: after a failure something is left alone for a while, longer each time in a row. A while for each cause."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from tidepool.scaling.memory import Backoff, Cause

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


def of_node(before: Backoff | None, cause: Cause, text: str, at: datetime, location: str = "") -> Backoff:
    """One more failure of one name, which was to be made at ``location``."""
    failures = before.failures + 1 if before else 1
    first, most = _PAUSES[cause]
    return Backoff(cause, failures, at + _pause(first, most, failures), text, location)


def of_fleet(before: Backoff | None, cause: Cause, text: str, at: datetime) -> Backoff:
    """One more failure of a fleet. Of causes in turn, each counts anew."""
    failures = before.failures + 1 if before and before.cause == cause else 1
    if cause != "boot":
        first, most = _PAUSES[cause]
        return Backoff(cause, failures, at + _pause(first, most, failures), text)
    forgiven = Backoff(cause, failures, at, text)
    if is_forgiven(forgiven):
        return forgiven
    first, most = _BOOTS_OF_A_FLEET
    return Backoff(cause, failures, at + _pause(first, most, failures - BOOTS_FORGIVEN), text)


def is_forgiven(backoff: Backoff) -> bool:
    """Return whether a fleet goes on as if nothing had been: it may be the machines' fault, one by one."""
    return backoff.cause == "boot" and backoff.failures <= BOOTS_FORGIVEN


def _pause(first: timedelta, most: timedelta, failures: int) -> timedelta:
    return min(most, first * (1 << min(failures - 1, _MOST_DOUBLINGS)))
