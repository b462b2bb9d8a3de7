"""Copies of runs' journals, and claims to drive them: of several machines one drives, and a sweeper finds what is left."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tidepool.cluster.frozen import FrozenDict
from tidepool.runs.ports import RunError, TakenOver
from tidepool.runs.record import Order, Run
from tidepool.runs.results.records import StoredRecords
from tidepool.runs.results.store import Store

AT = datetime(2026, 11, 27, 20, tzinfo=UTC)
RUN = Run(
    "r1",
    Order("physics", "physics-1", AT, "ada", "s3://b/x", FrozenDict(), FrozenDict()),
    driver="one",
    driver_until=AT + timedelta(seconds=60),
)


def test_one_drives_until_it_has_said_nothing_for_long(store: Store) -> None:
    records = StoredRecords(store, dead=lambda driver: driver == "dead")
    other = replace(RUN, driver="dead", driver_until=AT + timedelta(seconds=500))
    assert records.read("r1") is None
    assert records.claim(RUN, AT) == 1
    assert records.claim(RUN, AT) == 1
    assert records.under_way() == ("r1",)
    with pytest.raises(TakenOver, match="is driven by another process, which has until 20:01:00 UTC"):
        records.claim(other, AT + timedelta(seconds=59))
    # It has said since that it lives.
    records.renew(replace(RUN, epoch=1), AT + timedelta(seconds=120))
    with pytest.raises(TakenOver):
        records.claim(other, AT + timedelta(seconds=61))
    assert records.claim(other, AT + timedelta(seconds=121)) == 2
    with pytest.raises(TakenOver, match="is driven by another machine by now"):
        records.publish(replace(RUN, epoch=1))
    with pytest.raises(TakenOver, match="is driven by another machine by now"):
        records.renew(replace(RUN, epoch=1), AT + timedelta(seconds=999))
    # One that is known to be dead is not waited for.
    assert records.claim(replace(RUN, driver="three"), AT + timedelta(seconds=122)) == 3


def test_of_several_that_claim_at_once_one_has_it(reopen: Callable[[], Store]) -> None:
    def claim(number: int) -> bool:
        store = reopen()
        try:
            return StoredRecords(store).claim(replace(RUN, driver=f"d{number}"), AT) == 1
        except TakenOver:
            return False
        finally:
            store.close()

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(claim, range(6))).count(True) == 1


def test_what_has_ended_is_not_swept(store: Store) -> None:
    records = StoredRecords(store)
    records.claim(RUN, AT)
    records.publish(replace(RUN, epoch=1))
    ended = replace(RUN, epoch=1, phase="done", ended=AT, outcome="succeeded")
    records.publish(ended)
    assert records.under_way() == ()
    assert records.read("r1") == ended
    assert b"succeeded" in store.read("r1/index.html")


def test_what_is_no_record_is_told(store: Store) -> None:
    store.write("r1/run.json", b"{")
    with pytest.raises(RunError, match=r"r1/run.json: it is no record of a run"):
        StoredRecords(store).read("r1")
