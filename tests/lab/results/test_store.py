"""A campaign's folder: what is in it is whole, and only what counts is counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.outcomes import campaign, outcome
from tidepool.lab.campaign import Trial
from tidepool.lab.errors import LabError
from tidepool.lab.generators.registry import make_workload
from tidepool.lab.results.store import Results

CAMPAIGN = campaign()
LABORATORY = {"schedulers": ["one", "two"], "workloads": [{"name": "bag", "kind": "bag"}]}
BAG = make_workload("bag", "bag", {"number": 4}, seed=3)


def results_in(folder: Path) -> Results:
    return Results.create(folder / "results", CAMPAIGN, LABORATORY, cpus=8)


def test_what_is_written_is_read_again_as_it_was(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    trial = Trial("one", "bag", 1)
    written = outcome(trial, BAG, noise=0.1)
    results.write(written, BAG)
    again = Results.open(results.folder)
    assert again == results
    assert again.laboratory == LABORATORY
    assert again.outcome(trial) == written
    assert again.workload("bag", 1) == BAG
    assert again.outcome(Trial("two", "bag", 1)) is None


def test_it_is_whole_when_all_but_warm_ups_is_there(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    trials = [each for each in CAMPAIGN.trials() if not each.is_warm_up]
    for trial in trials:
        assert not results.is_whole
        assert trial in results.missing()
        results.write(outcome(trial, BAG), BAG)
    assert results.is_whole
    assert results.done() == frozenset(trials)
    assert [(each.scheduler, each.repeat) for each in results.outcomes()] == [
        (t.scheduler, t.repeat) for t in trials
    ]


def test_disturbed_trials_do_not_count_and_are_kept(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    trial = Trial("two", "bag", 2)
    for number in range(1, 12):
        results.write(outcome(trial, BAG, disturbed=f"stolen {number} s"), BAG)
    assert results.outcome(trial) is None
    assert trial in results.missing()
    assert [each.disturbed for each in results.disturbed()] == [
        f"stolen {number} s" for number in range(1, 12)
    ]


def test_a_second_outcome_hides_none_but_a_warm_up(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    results.write(outcome(Trial("one", "bag", 1), BAG), BAG)
    with pytest.raises(LabError, match="has an outcome already"):
        results.write(outcome(Trial("one", "bag", 1), BAG), BAG)
    for _ in range(2):
        results.write(outcome(Trial("one", "bag", 0), BAG), BAG)
    assert list(results.outcomes()) == [outcome(Trial("one", "bag", 1), BAG)]


def test_another_workload_under_another_scheduler_is_refused(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    results.write(outcome(Trial("one", "bag", 1), BAG), BAG)
    with pytest.raises(LabError, match="is another than the one"):
        results.write(outcome(Trial("two", "bag", 1), BAG), replace(BAG, jobs=BAG.jobs[1:]))


def test_trials_of_other_campaigns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no trial of the campaign"):
        results_in(tmp_path).write(outcome(Trial("three", "bag", 1), BAG), BAG)


def test_folders_say_what_they_lack(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="has no results"):
        Results.open(tmp_path)
    results = results_in(tmp_path)
    with pytest.raises(LabError, match="has results of a campaign already"):
        results_in(tmp_path)
    with pytest.raises(LabError, match="has no workload bag of repeat 1"):
        results.workload("bag", 1)


def test_what_was_disturbed_on_the_disk_is_told_with_its_file(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    trial = Trial("one", "bag", 1)
    results.write(outcome(trial, BAG), BAG)
    path = results.folder / "trials" / trial.id / "outcome.json"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(LabError, match=r"outcome\.json is not what Tidepool wrote"):
        results.outcome(trial)


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file")
    with pytest.raises(LabError, match="cannot be written"):
        results_in(tmp_path)
