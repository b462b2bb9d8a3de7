"""The driver of a campaign: the trials that are missing, in their order, each tried until it counts. Going on is beginning again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from tidepool.cluster.roles import Role
from tidepool.lab.campaign import Campaign, Trial
from tidepool.lab.errors import SchedulerFailed
from tidepool.lab.laboratory import Laboratory
from tidepool.lab.results.store import Results
from tidepool.lab.schedulers.contract import Scheduler
from tidepool.lab.trial import Surroundings, run_trial


@dataclass(frozen=True, slots=True)
class Tried:
    """A trial that was tried once.

    Attributes:
        trial: which.
        attempt: counted from 1.
        number: which of those that this process does, counted from 1.
        total: how many those are.
        lasted_s: how long it took, moving machines to its scheduler among it.
        amiss: why it does not count; empty where it does.
        left_s: how long the others will take, as far as can be told; None where nothing can.
    """

    trial: Trial
    attempt: int
    number: int
    total: int
    lasted_s: float
    amiss: str
    left_s: float | None


@dataclass(frozen=True, slots=True)
class Bench:
    """All that trials need besides the laboratory's file.

    Attributes:
        move: brings the machines to the side that a scheduler, by its name in the file, needs; and back to life, and to their processors.
        open: opens that scheduler on them.
        side: the role that machines have under it.
        around: what is handed to each trial.
        told: hears of each trial that was tried.
        begun: hears of each before it is tried: the trial, its attempt, and the number of those that this process has done.
    """

    move: Callable[[Role], None]
    open: Callable[[str], Scheduler]
    side: Callable[[str], Role]
    around: Surroundings
    told: Callable[[Tried], None] = lambda _: None
    begun: Callable[[Trial, int, int, int], None] = lambda _trial, _attempt, _number, _total: None


@dataclass(frozen=True, slots=True)
class Drive:
    """The part of a campaign that a process has done.

    Attributes:
        done: trials that count, warm-ups among them.
        given_up: why the others do not, by trial.
    """

    done: tuple[Trial, ...] = ()
    given_up: Mapping[Trial, str] = field(default_factory=dict)


def to_do(
    campaign: Campaign, missing: Iterable[Trial], only: Callable[[Trial], bool] = lambda _: True
) -> tuple[Trial, ...]:
    """Return the trials that a process has to do, in their order.

    Warm-ups are done anew by each process, of schedulers of which something is missing.
    """
    wanted = {trial for trial in missing if only(trial)}
    schedulers = {trial.scheduler for trial in wanted}
    return tuple(
        trial
        for trial in campaign.trials()
        if trial in wanted or (trial.is_warm_up and trial.scheduler in schedulers)
    )


def drive(
    laboratory: Laboratory, results: Results, bench: Bench, only: Callable[[Trial], bool] = lambda _: True
) -> Drive:
    """Do the trials that are missing, as far as ``only`` wants them, and write each down when it has ended.

    One that is disturbed, or whose scheduler fails, is tried again, as often as the laboratory says; then the others are gone on
    with, and the campaign is not whole.

    Raises:
        LabError: nothing more can be measured: a scheduler cannot be opened, machines do not come, results cannot be written.
    """
    trials = to_do(results.campaign, results.missing(), only)
    durations = _Durations()
    done: list[Trial] = []
    given_up: dict[Trial, str] = {}
    for number, trial in enumerate(trials, 1):
        attempts = 1 if trial.is_warm_up else laboratory.attempts
        for attempt in range(1, attempts + 1):
            bench.begun(trial, attempt, number, len(trials))
            began = time.monotonic()
            amiss = _try(trial, laboratory, results, bench)
            lasted_s = time.monotonic() - began
            durations.add(trial, lasted_s)
            bench.told(
                Tried(trial, attempt, number, len(trials), lasted_s, amiss, durations.left_s(trials[number:]))
            )
            if not amiss:
                done.append(trial)
                break
        else:
            # A warm-up is in no figure.
            if not trial.is_warm_up:
                given_up[trial] = amiss
    return Drive(tuple(done), given_up)


def _try(trial: Trial, laboratory: Laboratory, results: Results, bench: Bench) -> str:
    """Run a trial once, and write it down; why it does not count, where it does not."""
    workload = laboratory.workload(trial.workload, results.campaign.seed_of(trial.workload, trial.repeat))
    try:
        bench.move(bench.side(trial.scheduler))
        outcome = run_trial(trial, workload, bench.open(trial.scheduler), bench.around)
    except SchedulerFailed as failure:
        return str(failure)
    results.write(outcome, workload)
    return outcome.disturbed


class _Durations:
    """Durations of trials: the mean of those of the same scheduler and workload, else of the same workload, else of all."""

    def __init__(self) -> None:
        self._took: dict[Trial, list[float]] = {}

    def add(self, trial: Trial, lasted_s: float) -> None:
        self._took.setdefault(trial, []).append(lasted_s)

    def left_s(self, left: Sequence[Trial]) -> float | None:
        if not self._took:
            return None
        return sum(self._expected_s(trial) for trial in left)

    def _expected_s(self, trial: Trial) -> float:
        same = [
            s
            for other, took in self._took.items()
            for s in took
            if (other.scheduler, other.workload) == (trial.scheduler, trial.workload)
        ]
        alike = [s for other, took in self._took.items() for s in took if other.workload == trial.workload]
        return fmean(same or alike or [s for took in self._took.values() for s in took])
