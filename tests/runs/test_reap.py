"""The sweeper ends what nobody drives any more, from another machine; what is driven it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.runs.workloads import job
from tests.runs.world import AT, Killed, World, check
from tidepool.runs.journal import Journal
from tidepool.runs.ports import RunError
from tidepool.runs.reap import UNCLAIMED, Reaped, reap
from tidepool.runs.record import Run
from tidepool.runs.results import open_store
from tidepool.runs.results.records import StoredRecords


class Site:
    """A run whose copy is in a real folder of results, and a sweeper on another machine."""

    def __init__(self, folder: Path) -> None:
        (folder / "results").mkdir()
        self.world = World.of(folder, job())
        self.store = open_store((folder / "results").as_uri(), {})
        # Of processes of another machine nothing is known.
        self.records = StoredRecords(self.store, dead=lambda driver: False)
        self.world.records = self.records
        self.journal: Journal = self.world.journal(1)
        self.first_seen: dict[str, datetime] = {}

    def kill_at(self, number: int) -> None:
        def happens(call: str, after: bool) -> None:
            if len(self.world.calls) == number:
                raise Killed

        self.world.happens = happens
        self.world.begin()
        assert self.world.drive() is None
        self.world.happens = lambda call, after: None

    def on_its_own_machine(self) -> None:
        """Sweep where the run was begun, and processes are known to be gone."""
        self.records = StoredRecords(self.store, dead=lambda driver: (driver, 0) in self.world.dead)
        self.world.records = self.records
        self.journal = self.world.journal(0)

    def reap(self) -> Reaped:
        def go_on(run: Run) -> Run:
            return self.world.go_on(run, self.journal)

        (found,) = reap(
            self.records, self.journal, "s3://results", go_on, lambda: self.world.now, self.first_seen
        )
        return found


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_run_whose_driver_is_gone_is_ended_when_its_lease_is_over(site: Site) -> None:
    site.kill_at(9)
    assert site.world.cluster == "up"
    found = site.reap()
    assert (found.outcome, site.world.cluster) == ("driven", "up")
    assert "its driver has until 20:05:" in found.text
    site.world.now += timedelta(seconds=400)
    found = site.reap()
    assert found.outcome == "ended"
    assert found.run is not None
    check(site.world, found.run)
    assert found.run.outcome == "succeeded"
    assert site.records.read("physics-run-1") == found.run
    assert site.records.under_way() == ()


def test_a_step_that_takes_longer_than_the_lease_is_not_taken_over(site: Site) -> None:
    site.world.boot_s = 3000.0
    seen: list[Reaped] = []

    def happens(call: str, after: bool) -> None:
        if call == "cluster.up" and after and not seen:
            seen.append(site.reap())

    site.world.happens = happens
    site.world.begin()
    run = site.world.drive()
    assert run is not None
    assert run.outcome == "succeeded"
    assert [found.outcome for found in seen] == ["driven"]


def test_what_was_cut_off_before_anything_was_made_is_forgotten(site: Site) -> None:
    site.store.write("under-way/r9", b"")
    assert site.reap().outcome == "driven"
    site.world.now += UNCLAIMED
    assert site.reap().outcome == "nothing"
    assert site.records.under_way() == ()
    assert site.first_seen == {}


@pytest.mark.parametrize("number", [0, 1])
def test_what_was_cut_off_before_its_copy_was_there_its_own_machine_ends(site: Site, number: int) -> None:
    if number:
        site.kill_at(number)
    else:
        site.world.begin()
    site.on_its_own_machine()
    found = site.reap()
    assert found.outcome == "ended"
    assert found.run is not None
    check(site.world, found.run)
    assert site.journal.undriven("s3://results") == ()


def test_what_says_there_that_it_has_ended_ends_here_too(site: Site) -> None:
    write = site.store.remove

    def killed(name: str) -> None:
        write(name)
        if name == "under-way/physics-run-1":
            raise Killed

    site.world.begin()
    site.store.remove = killed  # type: ignore[method-assign]
    assert site.world.drive() is None
    site.store.remove = write  # type: ignore[method-assign]
    assert site.records.under_way() == ()
    site.on_its_own_machine()
    assert site.reap().outcome == "ended"
    assert site.journal.undriven("s3://results") == ()


def test_what_ended_and_was_not_forgotten_is(site: Site) -> None:
    run = replace(
        site.world.begin(), driver="one", driver_until=AT, phase="done", ended=AT, outcome="succeeded"
    )
    run = replace(run, epoch=site.records.claim(run, AT))
    site.records.publish(run)
    site.store.write(f"under-way/{run.id}", b"")
    found = site.reap()
    assert (found.outcome, found.run) == ("nothing", run)


def test_one_that_cannot_be_ended_keeps_no_other_back(site: Site) -> None:
    site.kill_at(9)
    site.world.now += timedelta(seconds=400)
    site.store.write("broken/run.json", b"{")
    site.store.write("under-way/broken", b"")

    def go_on(run: Run) -> Run:
        return site.world.go_on(run, site.journal)

    broken, ended = reap(site.records, site.journal, "s3://results", go_on, lambda: site.world.now, {})
    assert (broken.outcome, ended.outcome) == ("failed", "ended")
    assert "it is no record of a run" in broken.text


def test_a_place_that_is_away_is_told(tmp_path: Path) -> None:
    site = Site(tmp_path)
    (tmp_path / "results").rename(tmp_path / "away")
    # A share that is not mounted now has no runs to show, which is not that there are none.
    with pytest.raises(RunError, match="results is gone"):
        site.reap()
