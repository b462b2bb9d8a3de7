"""`run --record`: what a pipeline keeps of a run that this process has left, and that another one drives."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.cli.standins import SPEC, Person
from tests.runs.workloads import job, workload
from tidepool.cli.errors import NOT_THERE
from tidepool.cluster.frozen import FrozenDict, frozen
from tidepool.runs.record import Order, Run, from_json
from tidepool.runs.results import open_store
from tidepool.runs.results.records import StoredRecords

ELSEWHERE = "another-boot/17/1/a"


def test_the_record_of_a_run_that_was_left_is_as_far_as_is_known(somebody: Person, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    url, now = (tmp_path / "results").as_uri(), datetime.now(UTC)
    asked = frozen(workload(job()).model_dump(mode="json", by_alias=False))
    order = Order("nightly", "nightly", now, "ada", url, asked, frozen(dict(SPEC)))
    began = FrozenDict({"checked": now, "checked/claimed": now, "up": now, "running": now})
    run = Run("nightly", order, "running", began, driver=ELSEWHERE, driver_until=now)
    with closing(open_store(url, {})) as store:
        records = StoredRecords(store)
        run = replace(run, epoch=records.claim(run, now))
        records.publish(run)
        # Who drives it has said more since the record was written.
        records.renew(run, now + timedelta(minutes=5))
    said = somebody.runs("run", "--resume", "nightly", "--results", url, "--record", "kept")
    assert said.exit_code == NOT_THERE, said.output
    assert "run nightly is driven by another process" in said.output
    folder = somebody.folder / "kept"
    there = from_json((folder / "run.json").read_text())
    assert (there.id, there.phase, there.order) == ("nightly", "running", order)
    assert '<strong class="running">' in (folder / "index.html").read_text()
