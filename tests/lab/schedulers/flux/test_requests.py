"""What Flux is given: jobspecs and configuration, whatever the job and the machines."""

from __future__ import annotations

import json
import tomllib
from pathlib import PurePosixPath

from hypothesis import given
from hypothesis import strategies as st

from tidepool.lab.programs.command import command
from tidepool.lab.schedulers.flux.configuration import configuration
from tidepool.lab.schedulers.flux.jobspec import jobspec, urgency
from tidepool.lab.workload import Compute, Job, RunKernel, Sleep

PROGRAMS, RECORDS = PurePosixPath("/home/.lab/programs"), PurePosixPath("/home/.lab/records/flux.bag.1")
NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)
JOBS = st.builds(
    Job,
    name=NAMES,
    submit_at_s=st.floats(0, 100),
    program=st.one_of(
        st.builds(Sleep, st.floats(0, 100)),
        st.builds(Compute, st.floats(0, 100)),
        st.builds(RunKernel, st.sampled_from(["ping_pong", "matrix"]), st.just((64,))),
    ),
    tasks=st.integers(1, 64),
    cpus_per_task=st.integers(1, 8),
    limit_s=st.floats(1, 3600),
    priority=st.integers(-200, 200),
    exit_code=st.integers(0, 3),
)


@given(JOBS)
def test_a_jobspec_asks_for_the_job_s_processors_and_runs_each_task_once(job: Job) -> None:
    said = json.loads(json.dumps(jobspec(job, PROGRAMS, RECORDS)))
    assert said["version"] == 1
    (slot,) = said["resources"]
    (core,) = slot["with"]
    assert (slot["type"], core["type"]) == ("slot", "core")
    assert slot["count"] * core["count"] == job.cpus
    (task,) = said["tasks"]
    assert task["slot"] == slot["label"]
    assert task["count"] == {"per_slot": 1}
    assert tuple(task["command"]) == command(job, PROGRAMS, RECORDS)
    assert said["attributes"]["system"]["duration"] == job.limit_s
    assert said["attributes"]["system"]["job"]["name"] == job.name


@given(JOBS)
def test_what_kernels_print_is_kept_beside_their_records_and_nothing_else_is(job: Job) -> None:
    output = jobspec(job, PROGRAMS, RECORDS)["attributes"]["system"]["shell"]["options"]["output"]
    kept = f"{RECORDS}/{job.name}.{{{{id.dec}}}}.out" if isinstance(job.program, RunKernel) else "/dev/null"
    assert output == {stream: {"type": "file", "path": kept} for stream in ("stdout", "stderr")}


@given(JOBS, JOBS)
def test_urgencies_keep_the_order_of_priorities_and_hold_nobody(one: Job, other: Job) -> None:
    assert 0 < urgency(one) < 31
    if one.priority < other.priority:
        assert urgency(one) <= urgency(other)
    if -15 <= one.priority < other.priority <= 14:
        assert urgency(one) < urgency(other)


def test_a_job_that_asks_for_no_priority_has_flux_s_own() -> None:
    assert urgency(Job("a", 0.0, Sleep(1.0))) == 16


@given(st.lists(NAMES, min_size=2, max_size=20, unique=True), st.integers(1, 128))
def test_a_configuration_names_all_machines_and_gives_jobs_none_of_the_leader(
    hosts: list[str], cores: int
) -> None:
    leader, *machines = hosts
    said = tomllib.loads(configuration(leader, machines, cores, PurePosixPath("/home/.lab/flux/curve.cert")))
    assert [each["host"] for each in said["bootstrap"]["hosts"]] == hosts
    assert said["resource"]["exclude"] == leader
    (config,) = said["resource"]["config"]
    assert config["hosts"].split(",") == hosts
    assert config["cores"] == ("0" if cores == 1 else f"0-{cores - 1}")
