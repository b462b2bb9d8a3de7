"""What slurmctld's log says of jobs is read, and each slurmd has a port of its own."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import runs
from tidepool.lab.scale.slurm_files import MOST_NODES, controller_conf, job_events, node_conf

FOLDER = Path("/mnt")
#: As slurmctld 22.05.8 wrote it.
LOG = """\
[2026-11-28T15:24:23.009] _slurm_rpc_submit_batch_job: JobId=20 InitPrio=4294901740 usec=198
[2026-11-28T15:24:24.011] sched: Allocate JobId=20 NodeList=n3 #CPUs=1 Partition=nodes
[2026-11-28T15:24:26.190] sched: Allocate JobId=21_61(82) NodeList=n8 #CPUs=1 Partition=nodes
[2026-11-28T15:24:26.200] sched/backfill: _start_job: Started JobId=22 in nodes on n9
[2026-11-28T15:24:26.291] _job_complete: JobId=21_61(82) WEXITSTATUS 0
[2026-11-28T15:24:26.292] _job_complete: JobId=21_61(82) done
[2026-11-28T15:24:26.301] _job_complete: JobId=20 done
"""


def test_jobs_and_tasks_of_arrays_are_told_apart() -> None:
    assert [(each.what, each.job, each.task) for each in job_events(LOG.splitlines())] == [
        ("decided", 20, 0),
        ("decided", 21, 61),
        ("decided", 22, 0),
        ("done", 21, 61),
        ("done", 20, 0),
    ]


@given(
    st.lists(
        st.tuples(st.integers(0, 10**9), st.integers(1, 10**6), st.none() | st.integers(0, 9999)), max_size=20
    )
)
@runs()
def test_each_decision_is_read_with_its_time(decisions: list[tuple[int, int, int | None]]) -> None:
    began = datetime(2026, 1, 1, tzinfo=UTC)
    times = [began + timedelta(milliseconds=ms) for ms, _, _ in decisions]
    lines = [
        f"[{at.strftime('%Y-%m-%dT%H:%M:%S')}.{at.microsecond // 1000:03}] sched: Allocate JobId={job}"
        f"{'' if task is None else f'_{task}({job + 1})'} NodeList=n1 #CPUs=1 Partition=nodes\n"
        for at, (_, job, task) in zip(times, decisions, strict=True)
    ]
    found = [*job_events(lines)]
    assert [(each.job, each.task) for each in found] == [(job, task or 0) for _, job, task in decisions]
    assert [each.at_s for each in found] == pytest.approx([at.timestamp() for at in times], abs=1e-4)


@pytest.mark.parametrize("nodes", [1, 20, MOST_NODES])
def test_a_node_listens_where_the_controller_calls_it(nodes: int) -> None:
    conf = controller_conf(FOLDER, "host", "192.0.2.1", nodes, "")
    ports = re.search(r"^NodeName=n\S* .* Port=\[?(\d+)(?:-(\d+))?", conf, re.MULTILINE)
    assert ports is not None
    first, last = int(ports[1]), int(ports[2] or ports[1])
    assert (last - first + 1, last < 32_768) == (nodes, True)
    for number in (1, nodes):
        assert (
            f"NodeName=n{number} NodeHostname=host NodeAddr=192.0.2.1 Port={first + number - 1} "
            in node_conf(FOLDER, "host", "192.0.2.1", number)
        )
    full = re.search(r"^NodeName=full .*$", conf, re.MULTILINE)
    assert full is not None
    assert full[0] in node_conf(FOLDER, "host", "192.0.2.1", 0)


def test_parameters_stand_in_the_configuration_where_there_are_any() -> None:
    assert "SchedulerParameters=batch_sched_delay=0\n" in controller_conf(
        FOLDER, "h", "a", 2, "batch_sched_delay=0"
    )
    assert "SchedulerParameters" not in controller_conf(FOLDER, "h", "a", 2, "")
