"""Whether somebody looks after the cluster, said plainly."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.cli.explain.records import LEADER, NOW, ago, record
from tidepool.cli.explain.record import Record, health
from tidepool.scaling.ports import Pause, Trouble


def test_it_runs() -> None:
    well = health(record())
    assert (well.state, well.is_well, well.is_stale, well.epoch) == ("runs", True, False, 3)
    assert "(ctl/77, epoch 3)" in well.words
    assert "0.5 s ago" in well.words


def test_nobody_ever_ran() -> None:
    well = health(Record("dev", NOW))
    assert (well.state, well.age_s) == ("never", None)
    assert "tidepool scale" in well.remedy


def test_it_was_killed() -> None:
    dead = replace(LEADER, until=ago(190))
    well = health(record(at=ago(200), leader=dead))
    assert well.state == "stopped"
    assert "3 min 10 s ago" in well.words
    assert "tidepool scale" in well.remedy
    assert well.is_stale


def test_it_was_ended_before_its_lease_was_over() -> None:
    well = health(record(leader=replace(LEADER, is_held=False)))
    assert well.state == "stopped"
    assert "was ended" in well.words


def test_it_lives_and_does_not_look() -> None:
    well = health(record(at=ago(34)))
    assert well.state == "late"
    assert "34 s" in well.words
    assert "tidepool status" in well.remedy


def test_it_says_what_it_complains_of() -> None:
    trouble = Trouble(ago(30), ("slurmctld does not answer (ctl)",))
    well = health(record(at=ago(34), trouble=trouble))
    assert (well.trouble, well.remedy, well.is_well) == (trouble.complaints, "", False)
    # What one complained of that does not run any more is over.
    assert health(record(trouble=trouble, leader=replace(LEADER, until=ago(1)))).trouble == ()


def test_it_has_only_begun() -> None:
    well = health(record(look=None))
    assert well.state == "late"
    assert "not decided" in well.words


def test_somebody_paused_it() -> None:
    well = health(record(pause=Pause("ada", ago(65), "new switch")))
    assert not well.is_well
    assert "ada" in well.paused
    assert "new switch" in well.paused
    assert "19:58:55" in well.paused


def test_a_lease_ends_on_the_second() -> None:
    assert not record(leader=replace(LEADER, until=NOW)).runs
    assert record(leader=replace(LEADER, until=NOW + timedelta(microseconds=1))).runs
