"""A trial under a fake scheduler that keeps the contract, by a hurried clock."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.lab.fake_scheduler import FEATURES, FakeScheduler, hurried
from tidepool.lab.campaign import Trial
from tidepool.lab.course import NEVER
from tidepool.lab.errors import SchedulerFailed
from tidepool.lab.outcome import HostSample, TrialOutcome
from tidepool.lab.programs.records import read_records
from tidepool.lab.trial import Surroundings, run_trial
from tidepool.lab.workload import Death, Job, Sleep, Workload

TRIAL = Trial("fake", "w", 1)


@dataclass
class Bench:
    """A scheduler, and what a trial needs besides."""

    folder: Path
    scheduler: FakeScheduler = field(init=False)
    limit_s: float = 60.0
    disturbed: str = ""
    looked: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scheduler = FakeScheduler(hurried())

    def around(self) -> Surroundings:
        return Surroundings(
            machines=self.scheduler,
            records=lambda trial: self.folder / trial.id,
            clear_records=lambda trial: (self.folder / trial.id).mkdir(),
            read_records=lambda trial, began: read_records(self.folder / trial.id, began),
            host=self._host,
            environment={"kernel": "6.1"},
            disturbed=lambda _samples: self.disturbed,
            clock=self.scheduler.clock,
            limit_s=self.limit_s,
        )

    def run(self, jobs: Sequence[Job], deaths: Sequence[Death] = ()) -> TrialOutcome:
        workload = Workload("w", "bag", 1, tuple(jobs), tuple(deaths))
        return run_trial(TRIAL, workload, self.scheduler, self.around())

    def _host(self, at_s: float) -> HostSample:
        self.looked.append(at_s)
        return HostSample(at_s, 0.0, 0.0, 0.0)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_jobs_are_handed_over_at_their_seconds_and_their_processes_tell_of_themselves(bench: Bench) -> None:
    came = bench.run([Job("a", 0.0, Sleep(1)), Job("b", 3.0, Sleep(1), tasks=3), Job("c", 3.0, Sleep(2))])
    a, b, c = came.jobs
    assert [job.succeeded for job in came.jobs] == [True, True, True]
    for job, at_s in ((a, 0.0), (b, 3.0), (c, 3.0)):
        assert job.accepted_s is not None
        assert at_s <= job.submitted_s <= job.accepted_s
        # Fifty times faster than time, so a pause of this machine's is long.
        assert job.submitted_s < at_s + 15
    assert [process.rank for process in b.processes] == [0, 1, 2]
    (first,) = a.processes
    assert first.started_s >= a.submitted_s
    assert first.ended_s == pytest.approx(first.started_s + 1, abs=1e-3)
    assert a.told["StartTime"] == pytest.approx(first.started_s, abs=1e-3)
    # Four processors, and three are taken.
    assert c.processes[0].started_s >= b.processes[0].started_s
    assert came.requests == {"submit": 3}
    assert came.environment == {"kernel": "6.1", "can": "array, dependencies, gang, priority", "fake": "1.0"}
    assert {sample.part for sample in came.usage} == {"fake"}
    assert came.host[0].at_s == pytest.approx(0.0, abs=5)
    assert came.lasted_s >= 5
    assert not came.disturbed


@pytest.mark.parametrize("can", [FEATURES, FEATURES - {"dependencies"}])
def test_a_dag_goes_in_order_and_what_waits_for_a_failure_is_never_run(
    bench: Bench, can: frozenset[str]
) -> None:
    bench.scheduler.can = can
    came = bench.run(
        [
            Job("a", 0.0, Sleep(1)),
            Job("b", 0.0, Sleep(1), after=("a",)),
            Job("bad", 0.0, Sleep(1), after=("b",), exit_code=3),
            Job("never", 0.0, Sleep(1), after=("bad",)),
        ]
    )
    a, b, bad, never = came.jobs
    assert a.processes[0].ended_s is not None
    assert b.processes[0].started_s >= a.processes[0].ended_s
    assert (bad.succeeded, bad.state, bad.processes[0].exit_code) == (False, "FAILED", 3)
    assert (never.succeeded, never.processes) == (False, ())
    assert never.state == ("CANCELLED" if "dependencies" in can else NEVER)
    assert (never.accepted_s is None) == ("dependencies" not in can)


def test_a_machine_dies_and_comes_back_and_its_jobs_run_again(bench: Bench) -> None:
    jobs = [Job(f"j{i}", 0.0, Sleep(6)) for i in range(4)]
    came = bench.run(jobs, [Death(at_s=2.0, machine=1, back_after_s=3.0)])
    assert all(job.succeeded for job in came.jobs)
    again = [job for job in came.jobs if len(job.processes) == 2]
    assert len(again) == 2
    for job in again:
        killed, whole = job.processes
        assert (killed.attempt, killed.ended_s, killed.exit_code) == (1, None, None)
        assert (whole.attempt, whole.exit_code) == (2, 0)
        assert whole.started_s >= 5.0
    assert bench.scheduler.dead == set()


def test_what_outlasts_the_limit_is_ended_and_did_not_succeed(bench: Bench) -> None:
    # Of this machine's time half a second.
    bench.limit_s = 25.0
    came = bench.run(
        [Job("a", 0.0, Sleep(1)), Job("long", 0.0, Sleep(10_000)), Job("later", 9_000.0, Sleep(1))]
    )
    a, long, later = came.jobs
    assert (a.succeeded, a.state) == (True, "COMPLETED")
    assert not long.succeeded
    assert long.state == "CANCELLED (ended by the trial's limit)"
    assert later.state == "not submitted (ended by the trial's limit)"
    assert came.lasted_s < 1_000


@pytest.mark.parametrize("call", ["begin", "submit", "watch"])
def test_a_scheduler_that_fails_leaves_nothing(bench: Bench, call: str) -> None:
    bench.scheduler.fail_next = {call}
    with pytest.raises(SchedulerFailed, match=f"{call} was refused"):
        bench.run([Job("a", 0.0, Sleep(1))])
    assert bench.scheduler.requests() == {"submit": 0}


def test_what_another_process_began_is_ended_first(bench: Bench) -> None:
    bench.scheduler.begin("of a process that was killed", bench.folder)
    bench.scheduler.submit([Job("a", 0.0, Sleep(10_000))])
    assert bench.run([Job("a", 0.0, Sleep(1))]).jobs[0].succeeded


def test_programs_beside_it_are_named_with_what_they_used(bench: Bench) -> None:
    def others() -> dict[str, tuple[int, ...]]:
        until = time.process_time() + 0.03
        while time.process_time() < until:
            pass
        return {"this test": (os.getpid(),), "idle": ()}

    jobs = Workload("w", "bag", 1, (Job("a", 0.0, Sleep(1)),))
    came = run_trial(TRIAL, jobs, bench.scheduler, replace(bench.around(), others=others))
    assert [*came.others] == ["this test"]
    assert came.others["this test"] >= 0.02


def test_a_trial_that_was_disturbed_says_so(bench: Bench) -> None:
    bench.disturbed = "the hypervisor took 30 %"
    assert bench.run([Job("a", 0.0, Sleep(1))]).disturbed == "the hypervisor took 30 %"
