"""What failed, in words: how often in a row, and until when it is left alone. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from tidepool.cli.scaler.words import between, clock, number
from tidepool.cluster.spec import Fleet
from tidepool.scaling.memory import Backoff, Cause, Memory, at_location

_CAUSES: Final[dict[Cause, str]] = {
    "capacity": "no such machine is to be had",
    "transient": "it may work in a while",
    "permanent": "it will not work as it is asked for",
    "boot": "it never came up",
}


def setback_words(setback: Backoff | None, now: datetime) -> str:
    """``left alone until 20:14:03 (in 40 s) after 2 failures in a row: it never came up: ...``; empty without."""
    if setback is None:
        return ""
    failed = f"{number(setback.failures, 'failure')} in a row: {_CAUSES[setback.cause]}: {setback.text}"
    if setback.until <= now:
        return f"tried again, after {failed}"
    return f"left alone until {clock(setback.until, now)} (for {between(now, setback.until)}) after {failed}"


def fleet_setbacks(fleet: Fleet, memory: Memory) -> Iterator[tuple[str, Backoff]]:
    """Those of a fleet, each with the infrastructure that it closes; of a fleet that has one, with no name."""
    spans = len(fleet.infrastructures) > 1
    for entry in fleet.infrastructures:
        key = entry.key if spans else ""
        if setback := memory.fleet_backoffs.get(at_location(fleet.name, key)):
            yield key, setback


def fleet_setback_words(fleet: Fleet | None, memory: Memory, now: datetime) -> str:
    """All of them in one line; empty without. Of a fleet that the spec does not have any more, nothing is known."""
    if fleet is None:
        return ""
    return "; ".join(
        f"{key}: {setback_words(setback, now)}" if key else setback_words(setback, now)
        for key, setback in fleet_setbacks(fleet, memory)
    )


def is_closed(fleet: Fleet, memory: Memory, now: datetime) -> bool:
    """Whether none of its infrastructures may be asked for a node now."""
    closed = [setback for _, setback in fleet_setbacks(fleet, memory) if setback.until > now]
    return len(closed) == len(fleet.infrastructures)
