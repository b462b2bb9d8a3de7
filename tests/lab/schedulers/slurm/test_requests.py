"""Requests to Slurm for a workload's jobs, and states of what it says of them."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.clients.slurm import JobState
from tidepool.clients.slurm.submission import submitted
from tidepool.lab.programs import build
from tidepool.lab.programs.records import read_records
from tidepool.lab.schedulers.slurm.answers import read_requests, read_settings
from tidepool.lab.schedulers.slurm.requests import Folders, Partitions, batches, request
from tidepool.lab.schedulers.slurm.states import job_states
from tidepool.lab.workload import Job, RunKernel, Sleep

FOLDERS = Folders(PurePosixPath("/home/.lab/programs"), PurePosixPath("/home/.lab/records/t"))
PARTITIONS = Partitions("main", "first", "lab")
NOW = datetime(2026, 11, 28, 15, tzinfo=UTC)


def job(name: str, **changes: Any) -> Job:
    return Job(name, 0.0, **{"program": Sleep(1), **changes})


def test_a_job_of_one_task_is_its_batch_script() -> None:
    asked = request([job("a", memory_mib=100, cpus_per_task=3, limit_s=90.5)], FOLDERS, PARTITIONS, {})
    assert (
        asked.script == "#!/bin/sh\nexec /home/.lab/programs/probe /home/.lab/records/t a 0 sleep 1.000000\n"
    )
    assert asked.arguments() == [
        "--job-name=lab.a",
        "--partition=main",
        "--ntasks=1",
        "--cpus-per-task=3",
        "--mem-per-cpu=34M",
        "--constraint=lab",
        "--time=1:31",
        "--chdir=/",
        "--output=/dev/null",
        "--requeue",
        "--priority=1000000",
        "--kill-on-invalid-dep=yes",
    ]


def test_a_gang_is_started_by_srun_and_one_of_mpi_by_pmix() -> None:
    gang = request([job("a", tasks=4)], FOLDERS, PARTITIONS, {})
    assert "exec srun --mpi=none --ntasks=4 --cpus-per-task=1 --kill-on-bad-exit=1 /home" in gang.script
    mpi = request([job("b", tasks=4, program=RunKernel("all_reduce"))], FOLDERS, PARTITIONS, {})
    assert "exec srun --mpi=pmix --ntasks=4" in mpi.script
    assert mpi.output == "/home/.lab/records/t/b.%j.out"


def test_what_a_job_waits_for_and_pushes_out_is_told() -> None:
    waiting = job("c", after=("a", "b"), priority=5, preempts=True)
    asked = request([waiting], FOLDERS, PARTITIONS, {"a": "17", "b": "18_3"})
    assert (asked.dependency, asked.partition, asked.more[0]) == (
        "afterok:17:18_3",
        "first",
        "--priority=1000005",
    )
    assert request([waiting], FOLDERS, Partitions("main"), {}).partition == "main"


@given(
    st.lists(
        st.builds(
            job,
            st.uuids().map(str),
            array=st.sampled_from(["", "x", "y"]),
            memory_mib=st.sampled_from([64, 128]),
            priority=st.sampled_from([0, 1]),
        ),
        max_size=20,
    )
)
def test_no_job_is_lost_or_overtaken_and_an_array_is_alike(jobs: list[Job]) -> None:
    found = list(batches(jobs))
    assert [each for batch in found for each in batch] == jobs
    for batch in found:
        assert len(batch) == 1 or batch[0].array
        assert len({(each.array, each.memory_mib, each.priority) for each in batch}) == 1


def test_each_task_of_an_array_runs_its_own_job(tmp_path: Path) -> None:
    """Its script is really run, as slurmd runs it."""
    build.build(tmp_path / "programs", ["probe"])
    (tmp_path / "records").mkdir()
    jobs = [job(f"it's {n}", program=Sleep(0), exit_code=n, array="all") for n in range(3)]
    asked = request(jobs, Folders(tmp_path / "programs", tmp_path / "records"), PARTITIONS, {})
    assert (asked.array, asked.name) == ("0-2", "lab.all")
    for n in range(3):
        environment = {**os.environ, "SLURM_ARRAY_TASK_ID": str(n)}
        done = subprocess.run(
            ["/bin/sh"], input=asked.script, env=environment, text=True, timeout=30, check=False
        )
        assert done.returncode == n
    assert {name: record[0].exit_code for name, record in read_records(tmp_path / "records", 0).items()} == {
        "it's 0": 0,
        "it's 1": 1,
        "it's 2": 2,
    }


def queued(number: int, state: JobState, array: int = 0, tasks: str = "") -> Any:
    asked = request([job("a")], FOLDERS, PARTITIONS, {})
    record = submitted(asked, number, NOW, "main")
    return record._replace(
        state=state, array_job_id=array or number, array_tasks=tasks, start_time=NOW, end_time=NOW
    )


def test_states_are_told_by_the_names_of_jobs() -> None:
    records = [
        queued(7, JobState.COMPLETED),
        queued(8, JobState.NODE_FAIL),
        queued(9, JobState.PENDING, array=9, tasks="2-3%1"),
        queued(10, JobState.COMPLETING, array=9, tasks="1"),
        queued(11, JobState.RUNNING),
    ]
    names = {"7": "a", "8": "b", "9_1": "c", "9_2": "d", "9_3": "e"}
    states = {state.name: state for state in job_states(records, names)}
    assert {name: (s.state, s.running, s.ended, s.succeeded) for name, s in states.items()} == {
        "a": ("COMPLETED", False, True, True),
        "b": ("NODE_FAIL", False, True, False),
        "c": ("COMPLETING", True, False, False),
        "d": ("PENDING", False, False, False),
        "e": ("PENDING", False, False, False),
    }
    told = {name: set(state.told) for name, state in states.items()}
    assert told["a"] == {"SubmitTime", "EligibleTime", "StartTime", "EndTime"}
    assert told["c"] == {"SubmitTime", "EligibleTime", "StartTime"}
    # What it says of the start of one that waits is a forecast.
    assert told["d"] == {"SubmitTime", "EligibleTime"}
    assert states["a"].told["StartTime"] == NOW.timestamp()


SDIAG = """\
*******************************************************
sdiag output at Sat Nov 28 15:05:11 2026 (1795878311)
*******************************************************
Server thread count:  1
Jobs submitted: 4

Remote Procedure Call statistics by message type
\tREQUEST_PARTITION_INFO                  ( 2009) count:14     ave_time:160    total_time:2250
\tMESSAGE_NODE_REGISTRATION_STATUS        ( 1002) count:3      ave_time:420    total_time:1262

Remote Procedure Call statistics by user
\troot            (       0) count:17     ave_time:206    total_time:3512

Pending RPC statistics
\tNo pending RPCs
"""


def test_requests_are_counted_by_what_they_were() -> None:
    assert read_requests(SDIAG) == {"REQUEST_PARTITION_INFO": 14, "MESSAGE_NODE_REGISTRATION_STATUS": 3}
    with pytest.raises(ValueError, match="no statistics by message type"):
        read_requests("slurm_load_ctl_conf error: Unable to contact slurm controller")


def test_settings_are_read_with_what_stands_in_them() -> None:
    told = "Configuration data as of 2026\nSLURM_VERSION           = 22.05.8\nSchedulerParameters     = a=1,b\nTaskPlugin = \n"
    assert read_settings(told) == {
        "SLURM_VERSION": "22.05.8",
        "SchedulerParameters": "a=1,b",
        "TaskPlugin": "",
    }
