"""When a node counts as up, and which jobs went with the boot before, is decided without Slurm."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.simulation.slurm import FakeSlurm
from tidepool.clients.slurm import Job, JobRequest, JobState, Node, NodeState, Slots
from tidepool.provider.node import is_up, lost_jobs

_BOOT = datetime(2026, 11, 21, 12, 0, 0, 500_000, UTC)


def _node(state: str, started: datetime | None = None) -> Node:
    return Node("cpu-1", NodeState.parse(state), slurmd_start_time=started)


@pytest.mark.parametrize(
    ("state", "up"),
    [
        ("IDLE", True),
        ("IDLE+DYNAMIC_NORM", True),
        ("MIXED+PLANNED", True),
        ("ALLOCATED+COMPLETING", True),
        ("IDLE+DRAIN", True),
        ("ALLOCATED+DRAIN+MAINTENANCE", True),
        ("IDLE+NOT_RESPONDING", False),
        ("IDLE+INVALID_REG+DRAIN", False),
        ("IDLE+POWERING_UP", False),
        ("DOWN", False),
        ("DOWN+DRAIN", False),
        ("FUTURE+DYNAMIC_NORM", False),
        ("UNKNOWN", False),
    ],
)
def test_a_node_is_up_when_it_answers_drained_or_not(state: str, up: bool) -> None:
    assert is_up(_node(state)) is up


def test_a_node_that_registered_before_its_machine_booted_is_not_up() -> None:
    assert not is_up(_node("IDLE", _BOOT - timedelta(seconds=10)), _BOOT)
    # Slurm's times are whole seconds, and after a restart of slurmctld there are none.
    assert is_up(_node("IDLE", _BOOT.replace(microsecond=0)), _BOOT)
    assert is_up(_node("IDLE"), _BOOT)


def _jobs() -> list[Job]:
    """One that runs on cpu-1, one on cpu-2, one that waits."""
    slurm = FakeSlurm()
    slurm.create_slots(Slots("cpu-[1-2]", "10.77.1.[1-2]", cpus=1, memory_mib=500))
    slurm.boot("cpu-1", "cpu-2")
    for _ in range(3):
        slurm.submit(JobRequest("#!/bin/sh\n", tasks=1))
    return list(slurm.jobs())


def _lost(started: datetime, began: datetime) -> list[str]:
    jobs = [job._replace(start_time=began) for job in _jobs()]
    lost = lost_jobs(_node("ALLOCATED", started), jobs, _BOOT)
    return [job.nodelist for job in jobs if job.job_id in lost]


def test_all_jobs_of_a_node_that_has_not_registered_since_are_lost() -> None:
    assert _lost(_BOOT - timedelta(hours=1), _BOOT - timedelta(minutes=1)) == ["cpu-1"]


def test_of_a_node_that_has_registered_since_those_from_before_are_lost() -> None:
    registered = _BOOT + timedelta(seconds=1)
    assert _lost(registered, _BOOT - timedelta(minutes=1)) == ["cpu-1"]
    assert _lost(registered, _BOOT + timedelta(seconds=2)) == []


def test_jobs_that_wait_for_a_node_to_power_up_are_not_lost() -> None:
    before = _BOOT - timedelta(minutes=1)
    jobs = [job._replace(start_time=before) for job in _jobs()]
    waiting = [job._replace(state=JobState.CONFIGURING) for job in jobs]
    registered = _node("ALLOCATED+CLOUD", _BOOT + timedelta(seconds=1))
    assert lost_jobs(registered, jobs, _BOOT)
    assert lost_jobs(registered, waiting, _BOOT) == ()
    assert lost_jobs(_node("ALLOCATED+CLOUD+POWERING_UP", before), jobs, _BOOT) == ()
