"""The copy of a run's journal where its results are, and who may write it; by it any machine can end the run.

```
 URL/under-way/RUN             it has to be ended: what a sweeper looks for
 URL/RUN/run.json              the record, and index.html, a page of it; at the end timeline.svg, the chart in that
 URL/RUN/credentials.json      what tells the tokens of its cluster (`tidepool.runs.credentials`), until it has ended
 URL/RUN/claims/000002.json    the second driver, and until when it is taken to be alive
 URL/RUN/outputs/...           the results
```
A claim is written where none of its number is, so of several machines one drives. One that comes back late finds a later
claim, and stops.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Final

from tidepool.journals.processes import is_dead
from tidepool.runs.page import page
from tidepool.runs.ports import RunError, TakenOver
from tidepool.runs.record import Run, from_json, to_json
from tidepool.runs.results.store import Store
from tidepool.runs.timeline import timeline

#: Folder of what has to be ended.
UNDER_WAY: Final = "under-way"
#: Folder of sweeps, beside those of runs.
SWEEPS: Final = "sweeps"


class StoredRecords:
    """Records in a place of results. ``dead`` tells drivers whose process is gone, as far as that is known here."""

    def __init__(self, store: Store, *, dead: Callable[[str], bool] = is_dead) -> None:
        self._store, self._dead = store, dead

    def claim(self, run: Run, now: datetime) -> int:
        # Before anything is made: a sweeper finds it from here on.
        self._store.write(f"{UNDER_WAY}/{run.id}", b"")
        last = self._last_epoch(run.id)
        if last:
            driver, until = self._claimed(run.id, last)
            if driver == run.driver:
                return last
            if until > now and not self._dead(driver):
                raise TakenOver(
                    f"run {run.id} is driven by another process, which has until {until:%H:%M:%S} UTC to say more"
                )
        assert run.driver_until is not None
        claim = _claim(run.driver, run.driver_until)
        if not self._store.write_new(_claim_name(run.id, last + 1), claim):
            raise TakenOver(f"run {run.id} is driven by another process, since just now")
        return last + 1

    def renew(self, run: Run, until: datetime) -> None:
        if self._last_epoch(run.id) > run.epoch:
            raise TakenOver(f"run {run.id} is driven by another machine by now")
        self._store.write(_claim_name(run.id, run.epoch), _claim(run.driver, until))

    def publish(self, run: Run) -> None:
        if self._last_epoch(run.id) > run.epoch:
            raise TakenOver(f"run {run.id} is driven by another machine by now")
        self._store.write(f"{run.id}/run.json", to_json(run).encode())
        self._store.write(f"{run.id}/index.html", page(run).encode())
        if not run.is_under_way:
            self._store.write(f"{run.id}/timeline.svg", timeline(run).encode())
            self._store.remove(credentials_name(run.id))
            self.unlist(run.id)

    def read(self, id: str) -> Run | None:
        """Return the copy of a run; None where there is none yet.

        Raises:
            RunError: the place cannot be used, or it is no record.
        """
        try:
            return from_json(self._store.read(f"{id}/run.json").decode())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise RunError(f"{self._store.location(f'{id}/run.json')}: {error}") from error

    def under_way(self) -> tuple[str, ...]:
        """Return the ids of the runs that have to be ended, driven or not."""
        return tuple(name.removeprefix(f"{UNDER_WAY}/") for name in self._store.names(f"{UNDER_WAY}/"))

    def driven_until(self, id: str) -> datetime | None:
        """Return until when a run's driver is taken to be alive; None where it is known to be dead, or there is none."""
        last = self._last_epoch(id)
        if not last:
            return None
        driver, until = self._claimed(id, last)
        return None if self._dead(driver) else until

    def unlist(self, id: str) -> None:
        """Look for a run no more: it has ended, or nothing was made of it."""
        self._store.remove(f"{UNDER_WAY}/{id}")

    def _last_epoch(self, id: str) -> int:
        names = self._store.names(f"{id}/claims/")
        return int(names[-1].rpartition("/")[2].removesuffix(".json")) if names else 0

    def _claimed(self, id: str, epoch: int) -> tuple[str, datetime]:
        """Return who drives it, and until when it is taken to be alive: as it said last."""
        claim = json.loads(self._store.read(_claim_name(id, epoch)))
        return claim["driver"], datetime.fromisoformat(claim["until"])


def credentials_name(id: str) -> str:
    """Return the name of what tells the tokens of a run's cluster."""
    return f"{id}/credentials.json"


def _claim(driver: str, until: datetime) -> bytes:
    return json.dumps({"driver": driver, "until": until.isoformat()}).encode()


def _claim_name(id: str, epoch: int) -> str:
    return f"{id}/claims/{epoch:06}.json"
