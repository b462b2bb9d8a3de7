"""What failed, in words: how often in a row, and until when it is left alone. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from tidepool.cli.scaler.words import between, clock, number
from tidepool.scaling.memory import Cause, Setback

_CAUSES: Final[dict[Cause, str]] = {
    "capacity": "no such machine is to be had",
    "transient": "it may work in a while",
    "permanent": "it will not work as it is asked for",
    "boot": "it never came up",
}


def setback_words(setback: Setback | None, now: datetime) -> str:
    """``left alone until 20:14:03 (in 40 s) after 2 failures in a row: it never came up: ...``; empty without."""
    if setback is None:
        return ""
    failed = f"{number(setback.failures, 'failure')} in a row: {_CAUSES[setback.cause]}: {setback.text}"
    if setback.until <= now:
        return f"tried again, after {failed}"
    return f"left alone until {clock(setback.until, now)} (for {between(now, setback.until)}) after {failed}"
