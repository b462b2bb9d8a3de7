"""A conversion in words: how far it is, what holds it, until when, and what comes then. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

from tidepool.conversion.record import patience_ends

if TYPE_CHECKING:
    from tidepool.conversion.record import Conversion, Work

_AT_DEADLINE: Final = {
    "stop": "then it is given up, and the machine stays what it was",
    "force": "then jobs are requeued and pods killed",
}
_PHASES: Final = {
    "asked": "is ordered, and nobody has begun yet",
    "holding": "lets nothing new come",
    "emptying": "waits for its work to end",
    "leaving": "leaves its role",
    "joining": "takes its new role",
    "restoring": "goes back to what it was",
    "done": "is done",
    "stopped": "was given up",
    "failed": "failed: the machine has no role",
}


def moment(at: datetime, now: datetime) -> str:
    """A time with its date and its year, in the zone of ``now``: ``2026-11-22 14:00:00``."""
    return at.astimezone(now.tzinfo).strftime("%Y-%m-%d %H:%M:%S")


def deadline(conversion: Conversion) -> datetime | None:
    """When one that waits for work waits no longer; None of one that does not wait."""
    if conversion.order.is_forced or conversion.phase not in ("asked", "holding", "emptying"):
        return None
    return patience_ends(conversion)


def way(conversion: Conversion) -> str:
    """``slurm -> kubernetes``."""
    return f"{conversion.leaves or 'no role'} -> {conversion.order.to}"


def holds(conversion: Conversion) -> Iterator[str]:
    """Yield a line for each job and pod that it waits for; where there is none, its own text."""
    waited = [work for work in conversion.work if work.fate == "runs"]
    for work in waited:
        yield work_words(work)
    if conversion.text and not waited:
        yield conversion.text


def work_words(work: Work) -> str:
    """``pod default/web-0 of ReplicaSet/web: budget web allows no eviction``."""
    owner = f" of {work.owner}" if work.owner else ""
    fate = "" if work.fate == "runs" else f" was {work.fate}" if work.fate != "ended" else " ended"
    return f"{work.title}{owner}{fate}" + (f": {work.text}" if work.text else "")


def what_comes(conversion: Conversion, now: datetime) -> str:
    """``until 2026-11-22 14:00:00; then it is given up, ...``: of one that waits."""
    until = deadline(conversion)
    if until is None:
        return ""
    return f"until {moment(until, now)}; {_AT_DEADLINE[conversion.order.at_deadline]}"


def phase_words(conversion: Conversion) -> str:
    """``waits for its work to end``."""
    if conversion.cancel_by and conversion.is_under_way:
        return f"is cancelled by {conversion.cancel_by}: {_PHASES[conversion.phase]}"
    return _PHASES[conversion.phase]


def phases(conversion: Conversion) -> dict[str, float]:
    """By phase that it went through how many seconds that took, in order; the present one is not told of."""
    marks = sorted(
        ((at, name) for name, at in conversion.began.items() if "/" not in name), key=lambda mark: mark[0]
    )
    ends = [at for at, _ in marks[1:]] + [conversion.ended]
    return {
        name: round((end - at).total_seconds(), 3)
        for (at, name), end in zip(marks, ends, strict=True)
        if end is not None and name not in ("done", "stopped", "failed")
    }


def took_s(conversion: Conversion) -> float | None:
    """From the order to its end, in seconds."""
    return None if conversion.ended is None else (conversion.ended - conversion.order.at).total_seconds()
