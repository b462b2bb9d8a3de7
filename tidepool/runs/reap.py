"""The sweeper: runs whose drivers are gone are ended, from any machine that reaches the results and the clusters' machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from tidepool.runs.journal import Journal
from tidepool.runs.ports import RunError
from tidepool.runs.record import Run
from tidepool.runs.results.records import StoredRecords

#: A run that nobody has claimed is waited for so long: who wrote that it is under way is about to.
UNCLAIMED: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Reaped:
    """Outcome of a sweep for a run that was found under way.

    ``driven``: its driver may be alive. ``ended``: it was driven to its end. ``nothing``: it had ended, or nothing was made of it.
    ``failed``: it could not be; the next sweep tries again.
    """

    id: str
    outcome: Literal["driven", "ended", "nothing", "failed"]
    run: Run | None = None
    text: str = ""


def reap(
    records: StoredRecords,
    journal: Journal,
    results: str,
    go_on: Callable[[Run], Run],
    now: Callable[[], datetime],
    first_seen: dict[str, datetime],
) -> tuple[Reaped, ...]:
    """Look for runs at one place of results, and end those whose drivers are gone. One that cannot be keeps no other back.

    Of runs that were cut off before their copy was written there, only the ``journal`` of their own machine knows; ``results`` is
    the place's URL, as it says it. ``go_on`` drives a run of ``journal`` to its end (`tidepool.runs.drive`). ``first_seen`` is kept by the caller between sweeps.

    Raises:
        RunError: the place cannot be asked.
    """
    here = {run.id: run for run in journal.undriven(results)}
    ids = dict.fromkeys((*records.under_way(), *here))
    return tuple(_one(id, here.get(id), records, journal, go_on, now, first_seen) for id in ids)


def _one(
    id: str,
    here: Run | None,
    records: StoredRecords,
    journal: Journal,
    go_on: Callable[[Run], Run],
    now: Callable[[], datetime],
    first_seen: dict[str, datetime],
) -> Reaped:
    try:
        copy, until = records.read(id), records.driven_until(id)
        if until is not None and until > now():
            return Reaped(id, "driven", copy, f"its driver has until {until:%H:%M:%S} UTC to say more")
        if here is not None and (copy is None or not copy.is_under_way):
            # Cut off before its copy was there, or when that said that it has ended, and nothing here did yet.
            return _gone_on(here if copy is None else journal.adopt(copy), go_on)
        if copy is None and now() < first_seen.setdefault(id, now()) + UNCLAIMED:
            # The copy is written before anything is made, and after the claim.
            return Reaped(
                id, "driven", None, "it begins just now, or was cut off at that; the next sweep tells"
            )
        if copy is None or not copy.is_under_way:
            records.unlist(id)
            first_seen.pop(id, None)
            return Reaped(id, "nothing", copy)
        return _gone_on(journal.adopt(copy), go_on)
    except RunError as error:
        return Reaped(id, "failed", None, str(error))


def _gone_on(run: Run, go_on: Callable[[Run], Run]) -> Reaped:
    run = go_on(run)
    return Reaped(run.id, "driven" if run.is_under_way else "ended", run)
