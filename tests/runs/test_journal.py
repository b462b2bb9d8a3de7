"""The journal of runs: orders, cancels, who drives, and copies of other machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tidepool.cluster.frozen import FrozenDict
from tidepool.runs.journal import Journal
from tidepool.runs.ports import NotOrdered, RunError, TakenOver
from tidepool.runs.record import Order, Output, Run, RunJob, from_json, to_json

AT = datetime(2026, 11, 27, 20, tzinfo=UTC)
ORDER = Order(
    "physics", "physics-1", AT, "ada", "s3://b/x", FrozenDict({"jobs": ({"name": "a"},)}), FrozenDict()
)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(
        tmp_path / "runs.db", now=lambda: AT, dead=lambda driver: driver == "dead", power_safe=False
    )
    yield opened
    opened.close()


def driven(journal: Journal, driver: str = "me") -> Run:
    journal.order("r1", ORDER)
    assert journal.take_over("r1", driver, AT, 60.0)
    return journal.run("r1")


def test_a_run_is_written_and_read_as_it_is(journal: Journal) -> None:
    run = driven(journal)
    full = replace(
        run,
        phase="collecting",
        began=FrozenDict({**run.began, "collecting": AT}),
        outcome="failed",
        turned_in="running",
        because="of 1 jobs 1 failed",
        nodes=("cpu-1",),
        images=FrozenDict({"debian-12": "sha256:1"}),
        jobs=(RunJob("a", 7, "failed", "exit code 3", FrozenDict({"Elapsed": "7"})),),
        outputs=(Output("out/ä", 3, "ff", is_kept=True),),
        unmatched=("*.h5",),
        epoch=4,
    )
    assert journal.write(full) == full == from_json(to_json(full))


def test_one_of_a_stack_is_under_way(journal: Journal) -> None:
    journal.order("r1", ORDER)
    with pytest.raises(
        NotOrdered, match=r"run r1 of stack physics-1 is under way \(checked\); wait for its end, go on"
    ):
        journal.order("r2", ORDER)
    journal.order("r3", replace(ORDER, stack="physics-2"))
    assert [run.id for run in journal.runs()] == ["r1", "r3"]


def test_one_drives_until_it_is_dead_or_its_lease_is_over(journal: Journal) -> None:
    driven(journal)
    assert not journal.take_over("r1", "other", AT + timedelta(seconds=59), 60.0)
    assert journal.take_over("r1", "dead", AT + timedelta(seconds=61), 60.0)
    assert journal.take_over("r1", "other", AT + timedelta(seconds=62), 60.0)
    with pytest.raises(TakenOver):
        journal.write(replace(journal.run("r1"), driver="me", text="mine"))
    journal.let_go("r1", "other")
    assert journal.take_over("r1", "me", AT + timedelta(seconds=63), 60.0)


def test_a_run_that_was_cancelled_leaves_its_phases_by_that_alone(journal: Journal) -> None:
    run = driven(journal)
    assert journal.cancel("r1", "bob").cancel_by == "bob"
    assert journal.cancel("r1", "eve").cancel_by == "bob"
    assert journal.write(replace(run, phase="collecting")).phase == "checked"
    assert journal.write(replace(run, phase="up")).phase == "up"
    ended = journal.write(replace(journal.run("r1"), phase="done", ended=AT, outcome="cancelled"))
    assert ended.phase == "done"
    assert journal.order("r2", ORDER).phase == "checked"
    with pytest.raises(NotOrdered, match="has no run r9"):
        journal.cancel("r9", "bob")


def test_past_its_jobs_there_is_nothing_to_cancel(journal: Journal) -> None:
    journal.write(replace(driven(journal), phase="collecting"))
    with pytest.raises(NotOrdered, match=r"run r1 is at its end already \(collecting\)"):
        journal.cancel("r1", "bob")


def test_a_copy_of_another_machine_counts_where_its_epoch_is_later(journal: Journal) -> None:
    run = journal.write(replace(driven(journal), phase="running", epoch=2))
    assert journal.adopt(replace(run, phase="up", epoch=1)).phase == "running"
    assert journal.adopt(replace(run, phase="up")).phase == "running"
    adopted = journal.adopt(replace(run, phase="down", epoch=3, driver="there", driver_until=AT))
    assert (adopted.phase, adopted.epoch, adopted.driver) == ("down", 3, "there")
    with pytest.raises(NotOrdered, match="of stack physics-1 is under way"):
        journal.adopt(replace(run, id="r2"))
    assert journal.adopt(replace(run, id="r3", order=replace(ORDER, stack="s"))).id == "r3"


def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_text(
        "something else entirely, and long enough for SQLite to look at it" * 20
    )
    with pytest.raises(RunError, match=r"the journal of runs .* cannot be used"):
        Journal(tmp_path / "runs.db")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 2}', '{"format": 1, "order": {}}'])
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it is no record of a run"):
        from_json(text)
