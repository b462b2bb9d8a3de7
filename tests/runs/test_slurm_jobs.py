"""The jobs of a run in Slurm: held until all are there, known by their names, each once, and how arrays stand together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.runs.workloads import job, workload
from tests.scaling.decide.cluster_states import job as record
from tests.simulation.slurm import FakeSlurm
from tidepool.clients.slurm import JobRequest, JobState, Slots
from tidepool.clients.slurm.contract import ControllerDown
from tidepool.runs.ports import Refused, RunError
from tidepool.runs.record import JobStanding
from tidepool.runs.slurm_jobs import SlurmJobs, _run_job
from tidepool.runs.workload import Workload


class Site:
    """A Slurm in memory with two nodes that are up, whose jobs run for a minute."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 27, 20, tzinfo=UTC)
        self.slurm = FakeSlurm(now=lambda: self.now, run_time_s=lambda _: 60.0)
        self.slurm.create_slots(Slots("cpu-[1-2]", "127.7.1.[1-2]", 2, 500))
        self.slurm.boot("cpu-1", "cpu-2")

    def jobs(self, of: Workload) -> SlurmJobs:
        return SlurmJobs(self.slurm, of, "ada", "/home/ada/run")


def standings(jobs: SlurmJobs) -> dict[str, str]:
    return {each.name: each.standing for each in jobs.see()}


def test_jobs_are_held_until_they_are_released_and_seen_to_their_end() -> None:
    site = Site()
    of = workload(job("a", memory=100), job("b", after=[{"job": "a", "ends": "any"}], memory=100, time="10"))
    jobs = site.jobs(of)
    first = jobs.submit("a", {})
    second = jobs.submit("b", {"a": first})
    request = site.slurm.queue.requests[second]
    assert (request.user, request.work_dir, request.output) == ("ada", "/home/ada/run", "b-%j.out")
    assert request.dependency == f"afterany:{first}"
    assert "--signal=B:TERM@60" in request.arguments()
    assert standings(jobs) == {"a": "held", "b": "held"}
    jobs.release([first, second])
    assert standings(jobs)["a"] == "running"
    site.now += timedelta(seconds=70)
    assert standings(jobs)["a"] == "succeeded"
    site.now += timedelta(seconds=70)
    assert standings(jobs) == {"a": "succeeded", "b": "succeeded"}
    accounting = {each.name: each.accounting for each in jobs.see()}["a"]
    assert accounting["NodeList"] in ("cpu-1", "cpu-2")
    assert (accounting["ElapsedRaw"], accounting["CPUTimeRAW"]) == ("60", "60")


def test_the_accounting_of_an_array_is_that_of_all_its_tasks() -> None:
    begin = datetime(2026, 11, 27, 20, tzinfo=UTC)
    made = [
        record(
            i,
            state=JobState.COMPLETED,
            cpus=2,
            nodelist=f"cpu-{i % 2 + 1}",
            start_time=begin + timedelta(seconds=i),
            end_time=begin + timedelta(seconds=i + 10),
        )
        for i in range(3)
    ]
    found = _run_job("a", 7, [*made, record(9, state=JobState.CANCELLED)]).accounting
    assert found == {
        "Start": "2026-11-27T20:00:00+00:00",
        "End": "2026-11-27T20:00:12+00:00",
        "NodeList": "cpu-[1-2]",
        "ElapsedRaw": "30",
        "CPUTimeRAW": "60",
    }


def test_jobs_of_others_are_none_of_the_run_s() -> None:
    site = Site()
    site.slurm.submit(JobRequest("#!/bin/sh\n", name="first", user="bob", memory_mib=1))
    site.slurm.submit(JobRequest("#!/bin/sh\n", name="mine", user="ada", memory_mib=1))
    assert site.jobs(workload()).see() == ()


def test_of_one_that_came_twice_the_first_is_the_run_s_and_the_other_is_cancelled() -> None:
    site = Site()
    jobs = site.jobs(workload(job(memory=100)))
    first, second = jobs.submit("first", {}), jobs.submit("first", {})
    assert [each.job_id for each in jobs.see()] == [first]
    jobs.release([first])
    assert [each.state for each in site.slurm.job(second)] == [JobState.CANCELLED]
    assert standings(jobs) == {"first": "running"}


def test_jobs_that_run_and_wait_are_stopped() -> None:
    site = Site()
    jobs = site.jobs(workload(job("a", memory=100), job("b", memory=100)))
    ids = [jobs.submit(name, {}) for name in ("a", "b")]
    jobs.release(ids[:1])
    jobs.stop([*ids, 999_999])
    assert standings(jobs) == {"a": "cancelled", "b": "cancelled"}


def test_what_slurm_does_not_take_is_refused_and_its_silence_is_not() -> None:
    site = Site()
    jobs = site.jobs(workload(job(features="nix")))
    with pytest.raises(Refused, match="Invalid feature specification"):
        jobs.submit("first", {})
    site.slurm.controller = "down"
    with pytest.raises(RunError) as error:
        jobs.see()
    assert not isinstance(error.value, Refused)
    assert isinstance(error.value.__cause__, ControllerDown)


@pytest.mark.parametrize(
    ("records", "standing", "text"),
    [
        ([{"state": "COMPLETED"}], "succeeded", ""),
        ([{"state": "FAILED"}], "failed", "FAILED"),
        ([{"state": "TIMEOUT"}, {"state": "COMPLETED"}], "failed", "1 COMPLETED, 1 TIMEOUT"),
        ([{"state": "CANCELLED"}, {"state": "COMPLETED"}], "cancelled", "1 CANCELLED, 1 COMPLETED"),
        ([{"state": "COMPLETING"}], "running", "COMPLETING"),
        ([{"state": "RUNNING"}, {"array_tasks": "1-9"}], "running", "9 PENDING, 1 RUNNING"),
        ([{"reason": "JobHeldUser"}], "held", ""),
        ([{"reason": "Resources"}], "waiting", "Resources"),
        ([{"reason": "DependencyNeverSatisfied"}], "never", "DependencyNeverSatisfied"),
        ([{"state": "FAILED"}, {"reason": "DependencyNeverSatisfied"}], "never", "DependencyNeverSatisfied"),
    ],
)
def test_the_records_of_a_job_stand_together(
    records: list[dict[str, Any]], standing: JobStanding, text: str
) -> None:
    made = [
        record(i, **{**each, "state": JobState(each.get("state", "PENDING"))})
        for i, each in enumerate(records)
    ]
    found = _run_job("a", 7, made)
    assert (found.standing, found.text) == (standing, text)
