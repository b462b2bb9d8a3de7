"""The driver of a campaign: order, going on after a kill, what is tried again, and what is given up."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.fake_scheduler import FakeScheduler, hurried
from tidepool.cluster.roles import Role
from tidepool.lab.campaign import Campaign, Trial
from tidepool.lab.drive import Bench, Drive, Tried, drive, to_do
from tidepool.lab.errors import LabError
from tidepool.lab.laboratory import read_laboratory
from tidepool.lab.outcome import HostSample
from tidepool.lab.programs.records import read_records
from tidepool.lab.results.store import Results
from tidepool.lab.trial import Surroundings

is_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system, which takes root")
LABORATORY = read_laboratory(
    {
        "schedulers": ["slurm", "kubernetes"],
        "workloads": [{"name": "bag", "parameters": {"number": 3, "seconds": 0.2}}],
        "repeats": 2,
        "attempts": 2,
    }
)


class Killed(BaseException):
    """As a kill: nothing catches it."""


@dataclass
class Lab:
    """A campaign's results, and fake schedulers to measure."""

    folder: Path
    tried: list[Tried] = field(default_factory=list)
    moves: list[Role] = field(default_factory=list)
    #: Says of a trial why it is disturbed, and may raise.
    disturbed: Callable[[Trial], str] = lambda _: ""

    def __post_init__(self) -> None:
        self.scheduler = FakeScheduler(hurried())
        self._now: Trial | None = None

    @property
    def results(self) -> Results:
        folder = self.folder / "results"
        if folder.exists():
            return Results.open(folder)
        return Results.create(folder, LABORATORY.campaign("c"), LABORATORY.to_plain(), cpus=4)

    def drive(self, only: Callable[[Trial], bool] = lambda _: True) -> Drive:
        around = Surroundings(
            machines=self.scheduler,
            records=lambda trial: self.folder / trial.id,
            clear_records=lambda trial: (self.folder / trial.id).mkdir(exist_ok=True),
            read_records=lambda trial, began: read_records(self.folder / trial.id, began),
            host=lambda at_s: HostSample(at_s, 0.0, 0.0, 0.0),
            environment={},
            disturbed=lambda _: self.disturbed(self._now) if self._now is not None else "",
            clock=self.scheduler.clock,
        )
        bench = Bench(
            move=self.moves.append,
            open=lambda _: self.scheduler,
            side=lambda name: "slurm" if name == "slurm" else "kubernetes",
            around=around,
            told=self.tried.append,
            begun=self._begun,
        )
        return drive(LABORATORY, self.results, bench, only)

    def _begun(self, trial: Trial, attempt: int, number: int, total: int) -> None:
        self._now = trial


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_a_campaign_comes_to_its_end_in_its_order(lab: Lab) -> None:
    done = lab.drive()
    assert done.given_up == {}
    assert list(done.done) == list(LABORATORY.campaign("c").trials())
    assert lab.results.is_whole
    assert [each.number for each in lab.tried] == list(range(1, 7))
    assert lab.tried[-1].left_s == 0
    assert (lab.tried[0].left_s or 0) > 0
    assert lab.moves == ["slurm" if trial.scheduler == "slurm" else "kubernetes" for trial in done.done]
    assert lab.drive() == Drive()


def test_one_that_was_killed_goes_on_where_it_was(lab: Lab) -> None:
    trials = list(LABORATORY.campaign("c").trials())

    def die(trial: Trial) -> str:
        if trial == trials[4]:
            raise Killed
        return ""

    lab.disturbed = die
    with pytest.raises(Killed):
        lab.drive()
    assert lab.results.missing()
    kept = {trial: lab.results.outcome(trial) for trial in trials[2:4]}
    lab.disturbed = lambda _: ""
    done = lab.drive()
    assert [trial for trial in done.done if not trial.is_warm_up] == trials[4:]
    assert lab.results.is_whole
    assert kept == {trial: lab.results.outcome(trial) for trial in trials[2:4]}


@is_root
def test_one_that_had_no_room_for_its_results_goes_on_when_there_is(lab: Lab) -> None:
    disk = lab.results.folder / "trials"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk], check=True)
    try:
        with pytest.raises(LabError, match="cannot be written: No space left on device; free some space"):
            lab.drive()
        kept = {trial: lab.results.outcome(trial) for trial in lab.results.done()}
        assert kept
        assert lab.results.missing()
        subprocess.run(["mount", "-o", "remount,size=1m", disk], check=True)
        done = lab.drive()
        assert not {trial for trial in done.done if not trial.is_warm_up} & kept.keys()
        assert lab.results.is_whole
        for trial, outcome in kept.items():
            assert trial.is_warm_up or lab.results.outcome(trial) == outcome
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_trial_that_is_disturbed_is_kept_beside_and_tried_again(lab: Lab) -> None:
    disturbed = Trial("slurm", "bag", 1)
    tries = Counter[Trial]()

    def once(trial: Trial) -> str:
        tries[trial] += 1
        return "stolen" if trial == disturbed and tries[trial] == 1 else ""

    lab.disturbed = once
    assert lab.drive().given_up == {}
    assert [each.amiss for each in lab.tried if each.trial == disturbed] == ["stolen", ""]
    assert [each.disturbed for each in lab.results.disturbed()] == ["stolen"]
    assert lab.results.is_whole


def test_one_that_is_always_disturbed_is_given_up_and_the_others_are_run(lab: Lab) -> None:
    lost = Trial("slurm", "bag", 2)
    lab.disturbed = lambda trial: "stolen" if trial == lost else ""
    assert lab.drive().given_up == {lost: "stolen"}
    assert lab.results.missing() == (lost,)
    assert len(lab.results.disturbed()) == LABORATORY.attempts


def test_a_scheduler_that_fails_once_is_tried_again(lab: Lab) -> None:
    lab.scheduler.fail_next = {"submit"}
    done = lab.drive(lambda trial: trial.scheduler == "slurm")
    # The warm-up had it, which is in no figure.
    assert lab.tried[0].amiss == "submit was refused"
    assert done.given_up == {}
    assert {trial.scheduler for trial in lab.results.missing()} == {"kubernetes"}


def test_what_nothing_can_be_measured_without_ends_it(lab: Lab) -> None:
    def fail(_: Trial) -> str:
        raise LabError("no disk")

    lab.disturbed = fail
    with pytest.raises(LabError, match="no disk"):
        lab.drive()


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.data())
def test_what_is_to_do_is_what_is_missing_and_warm_ups_of_its_schedulers(
    schedulers: int, workloads: int, repeats: int, data: st.DataObject
) -> None:
    campaign = Campaign(
        "c", tuple(f"s{i}" for i in range(schedulers)), tuple(f"w{i}" for i in range(workloads)), repeats, 1
    )
    counted = [trial for trial in campaign.trials() if not trial.is_warm_up]
    missing = data.draw(st.sets(st.sampled_from(counted)))
    found = to_do(campaign, missing)
    assert {trial for trial in found if not trial.is_warm_up} == missing
    assert {trial.scheduler for trial in found if trial.is_warm_up} == {trial.scheduler for trial in missing}
    order = list(campaign.trials())
    assert list(found) == sorted(found, key=order.index)
