"""Work on a machine that converts, and what became of each piece: kept for owners and for `why`. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidepool.conversion.record import Conversion, Work


def seen_now(conversion: Conversion, there: Iterable[Work]) -> tuple[Work, ...]:
    """The record after a look: ``there`` runs, until it has ended; what ran before and is not there has gone.

    What went without a word of who took it away has ended by itself, or was evicted as it was asked; where force was
    used, its owner had been told before, by one who was cut off. What was waited for without a name, and has gone, was
    nobody's in particular: it leaves no line.
    """
    now = {_key(each): replace(each, fate="runs") for each in there}
    kept = []
    for each in conversion.work:
        if _key(each) in now:
            # One that was taken away is there until it has ended.
            still = now.pop(_key(each))
            kept.append(still if each.fate == "runs" else each)
        elif each.fate != "runs":
            kept.append(each)
        elif each.name:
            kept.append(_gone(each, by_force="emptying/forced" in conversion.began))
    return (*kept, *now.values())


def given_up(conversion: Conversion, there: Iterable[Work]) -> tuple[Work, ...]:
    """The record where nobody waits any more: what of ``there`` is on its way will end all the same."""
    waited = {_key(each) for each in conversion.work if each.fate == "runs"}
    return reported(conversion, (each for each in there if each.fate != "runs" and _key(each) in waited))


def reported(conversion: Conversion, done: Iterable[Work]) -> tuple[Work, ...]:
    """The record after something was taken away: what became of each, as it was said."""
    fates = {_key(each): each for each in done}
    kept = [fates.pop(_key(each), each) for each in conversion.work]
    return (*kept, *fates.values())


def _gone(work: Work, *, by_force: bool) -> Work:
    if by_force:
        return replace(work, fate="ended", text="it was to be taken away by force, and is gone")
    return replace(work, fate="ended" if work.kind == "job" else "evicted", text="")


def _key(work: Work) -> tuple[str, str]:
    return work.kind, work.name
