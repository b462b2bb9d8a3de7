"""`SlurmScheduler` where Slurm is simulated: what it asks for, and what it does when Slurm is silent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tidepool.clients.slurm import Completed, ControllerDown, JobRequest, JobState, Slots
from tidepool.clients.slurm import Job as QueueRecord
from tidepool.lab.errors import LabError, SchedulerFailed
from tidepool.lab.hosting.local import LocalHosting
from tidepool.lab.schedulers import slurm
from tidepool.lab.schedulers.slurm.scheduler import SlurmScheduler
from tidepool.lab.testbed import PROGRAMS, RECORDS, Testbed
from tidepool.lab.workload import Job, Sleep
from tidepool.simulation.slurm.fake import SimulatedSlurm


class Time:
    """A clock that goes on when somebody waits."""

    def __init__(self) -> None:
        self.s = 0.0

    def wait(self, seconds: float) -> None:
        self.s += seconds

    def now(self) -> datetime:
        return datetime(2026, 11, 28, tzinfo=UTC) + timedelta(seconds=self.s)


class Silenced(SimulatedSlurm):
    """Does not answer while it is ``silent``; keeps what it was asked for."""

    silent = False
    asked: Sequence[JobRequest] = ()

    def jobs(self, states: Collection[JobState] = ()) -> tuple[QueueRecord, ...]:
        if self.silent:
            raise ControllerDown("slurmctld does not answer", where="in a test", remedy="wait")
        return super().jobs(states)

    def submit(self, request: JobRequest) -> Any:
        self.asked = [*self.asked, request]
        return super().submit(request)


OF_THE_SPEC = "SchedulerParameters=bf_interval=1"


class Settings:
    """The controller's machine: slurm.conf in it, and `scontrol show config` as slurmctld read that last."""

    where = "in a test"

    def __init__(self) -> None:
        self.files = {"/etc/slurm/slurm.conf": f"ClusterName=c\n{OF_THE_SPEC}\nMaxJobCount=9\n"}
        self.read, self.reconfigured = self.conf, 0

    @property
    def conf(self) -> str:
        return self.files["/etc/slurm/slurm.conf"]

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        return Completed(
            0, self._said([word for word in argv if "=" not in word and word != "env"], stdin), ""
        )

    def _said(self, words: list[str], stdin: str) -> str:
        match words:
            case ["cat", path]:
                return self.files[path]
            case ["cp", path, new]:
                self.files[new] = self.files[path]
            case ["tee", path]:
                assert path in self.files, "it has the mode that whoever wrote it gave it"
                self.files[path] = stdin
            case ["mv", path, to]:
                self.files[to] = self.files.pop(path)
            case ["scontrol", "reconfigure"]:
                self.read, self.reconfigured = self.conf, self.reconfigured + 1
            case ["scontrol", "show", "config"]:
                lines = [line for line in self.read.splitlines() if line.startswith("SchedulerParameters")]
                told = lines[0].partition("=")[2] if lines else "(null)"
                return f"SLURM_VERSION = 22.05.8\nPreemptType = preempt/none\nSchedulerParameters = {told}\n"
            case _:
                raise AssertionError(words)
        return ""

    def close(self) -> None:
        return


@dataclass(frozen=True)
class Simulated(Testbed):
    """A testbed whose Slurm is in memory."""

    simulated: Any = None

    @property
    def slurm(self) -> Any:
        return self.simulated


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def queue(clock: Time) -> Silenced:
    """Slurm with a node of two processors, whose jobs run for 5 s."""
    simulated = Silenced(clock.now, lambda _: 5.0, min_job_age_s=300.0)
    simulated.create_slots(Slots("n-1", "10.0.0.1", 2, 1024, features=("n",)))
    simulated.boot("n-1")
    return simulated


@pytest.fixture
def testbed(queue: Silenced, tmp_path: Path) -> Testbed:
    nothing: dict[int, str] = {}
    return Simulated(
        stack="s", machines=("n-1",), cpus_per_machine=2, memory_mib=1024, home=tmp_path, programs=PROGRAMS, records=RECORDS,
        controller=Settings(), kubeconfig=None, pids=lambda _: nothing, data=tmp_path, hosting=LocalHosting(tmp_path, "s"),
        simulated=queue,
    )  # fmt: skip


@pytest.fixture
def scheduler(testbed: Testbed, clock: Time) -> SlurmScheduler:
    it = SlurmScheduler(testbed, clock.wait, lambda: clock.s)
    it.begin("t", RECORDS)
    return it


def job(name: str, **more: Any) -> Job:
    return Job(name, 0.0, Sleep(5), **more)


def test_a_job_that_has_succeeded_is_not_waited_for_again(scheduler: SlurmScheduler, queue: Silenced) -> None:
    """Slurm forgets jobs after a while, and refuses those that would wait for them."""
    scheduler.submit([job("first"), job("second", after=("first",))])
    assert queue.asked[1].dependency == "afterok:1"
    watching = scheduler.watch()
    while not any(state.name == "first" and state.succeeded for state in next(watching)):
        pass
    scheduler.submit([job("third", after=("first",)), job("fourth", after=("first", "third"))])
    assert [request.dependency for request in queue.asked[2:]] == ["", "afterok:3"]


def test_nodes_of_others_in_the_partition_have_none_of_its_jobs(
    scheduler: SlurmScheduler, queue: Silenced
) -> None:
    queue.create_slots(Slots("other-1", "10.0.0.2", 8, 4096, features=("other",)))
    queue.boot("other-1")
    scheduler.submit([job(name) for name in "abc"])
    assert [record.nodelist for record in queue.jobs({JobState.RUNNING})] == ["n-1", "n-1"]


def test_it_watches_once_a_second_and_tells_what_changed(scheduler: SlurmScheduler, clock: Time) -> None:
    scheduler.submit([job("a")])
    watching = scheduler.watch()
    states = [[(state.name, state.state) for state in next(watching)] for _ in range(8)]
    assert [each for each in states if each] == [[("a", "RUNNING")], [("a", "COMPLETED")]]
    assert clock.s == 7.0
    # Who begins to watch now is told it, too.
    assert [state.state for state in next(scheduler.watch())] == ["COMPLETED"]


def test_slurm_may_be_silent_for_a_minute_and_no_longer(
    scheduler: SlurmScheduler, queue: Silenced, clock: Time
) -> None:
    scheduler.submit([job("a")])
    watching = scheduler.watch()
    next(watching)
    queue.silent = True
    assert not any(next(watching) for _ in range(50))
    queue.silent = False
    assert [state.state for state in next(watching)] == ["COMPLETED"]
    queue.silent = True
    before = clock.s
    with pytest.raises(SchedulerFailed, match="has not answered for 60 s: slurmctld does not answer"):
        list(zip(range(70), watching, strict=False))
    assert clock.s < before + 70


def test_the_end_takes_the_laboratorys_jobs_alone(scheduler: SlurmScheduler, queue: Silenced) -> None:
    queue.submit(JobRequest("#!/bin/sh\n", name="another's"))
    scheduler.submit([job("runs"), job("waits", cpus_per_task=2)])
    scheduler.end()
    assert [record.name for record in queue.jobs()] == ["another's"]


def test_what_it_was_never_given_is_told(scheduler: SlurmScheduler) -> None:
    with pytest.raises(SchedulerFailed, match="was never given a job x in this trial"):
        scheduler.cancel(["x"])
    with pytest.raises(SchedulerFailed, match="was never given a job x in this trial"):
        scheduler.submit([job("a", after=("x",))])


def test_what_slurm_refuses_fails_the_trial(scheduler: SlurmScheduler) -> None:
    with pytest.raises(SchedulerFailed, match=r"submit large: .*configuration is not available"):
        scheduler.submit([job("large", cpus_per_task=3)])


def test_without_preemption_it_has_none(scheduler: SlurmScheduler) -> None:
    assert scheduler.can == {"gang", "array", "dependencies", "priority"}
    assert scheduler.settings() == {
        "SLURM_VERSION": "22.05.8",
        "PreemptType": "preempt/none",
        "SchedulerParameters": "bf_interval=1",
    }


def test_options_and_what_is_missing_are_told(testbed: Testbed, queue: Silenced) -> None:
    assert slurm.KIND.missing(testbed) == ()
    with pytest.raises(LabError, match="slurm has the option SchedulerParameters, and speed are given"):
        slurm.KIND.open(testbed, {"speed": 9})
    for wrong in ("a b", "a=1\nSlurmUser=root", 9):
        with pytest.raises(LabError, match="should be as in slurm"):
            slurm.KIND.open(testbed, {"SchedulerParameters": wrong})


@pytest.mark.parametrize("own", ["", "bf_interval=30,batch_sched_delay=3", "bf_interval=1"])
def test_parameters_are_a_trials_own_and_go_with_it(testbed: Testbed, clock: Time, own: str) -> None:
    machine = testbed.controller
    assert isinstance(machine, Settings)
    before = machine.conf
    it = SlurmScheduler(testbed, clock.wait, lambda: clock.s, own)
    it.begin("t", RECORDS)
    assert it.settings()["SchedulerParameters"] == (own or "(null)")
    it.end()
    assert it.settings()["SchedulerParameters"] == "bf_interval=1"
    assert (machine.conf, machine.reconfigured) == (before, 2)
    it.end()
    assert machine.reconfigured == 2


def test_parameters_of_a_driver_that_was_killed_are_put_back(testbed: Testbed, clock: Time) -> None:
    machine = testbed.controller
    assert isinstance(machine, Settings)
    before = machine.conf
    SlurmScheduler(testbed, clock.wait, lambda: clock.s, "bf_interval=30").begin("t", RECORDS)
    SlurmScheduler(testbed, clock.wait, lambda: clock.s, "").begin("u", RECORDS)
    assert "SchedulerParameters=" not in machine.read.replace(f": {OF_THE_SPEC}", "")
    SlurmScheduler(testbed, clock.wait, lambda: clock.s).begin("v", RECORDS)
    assert machine.conf == before
    assert machine.read == before


def test_a_file_without_parameters_is_nobody_it_knows(testbed: Testbed, clock: Time) -> None:
    machine = testbed.controller
    assert isinstance(machine, Settings)
    machine.files["/etc/slurm/slurm.conf"] = "ClusterName=c\n"
    with pytest.raises(SchedulerFailed, match=r"use SchedulerParameters: /etc/slurm/slurm.conf has no"):
        SlurmScheduler(testbed, clock.wait, lambda: clock.s).begin("t", RECORDS)
