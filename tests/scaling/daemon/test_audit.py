"""What is written down beside decisions: the newest look, points of charts, jobs as they go by."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.explain.records import job, nodes, spec
from tidepool.clients.slurm import Job, JobState
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.daemon.audit import Audit
from tidepool.scaling.decision import Cost, Decision, Phase
from tidepool.scaling.journal import open_journal
from tidepool.scaling.memory import Memory
from tidepool.scaling.ports import Journal, Lease

AT = datetime(2026, 11, 21, 20, 0, tzinfo=UTC)
SPEC = spec()
DECISION = Decision(AT, (), {}, {}, nodes(cpu_1=Phase.BUSY, cpu_2=Phase.ABSENT), Memory(), Cost(0.5))


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return open_journal(tmp_path, {}, power_safe=False)


@pytest.fixture
def lease(journal: Journal) -> Lease:
    lease = journal.acquire("one", AT, 1e6)
    assert lease is not None
    return lease


def state(at_s: float, *jobs: Job) -> ClusterState:
    return ClusterState(AT + timedelta(seconds=at_s), SPEC, (), jobs)


def ran(journal: Journal) -> dict[int, tuple[bool, bool]]:
    """By job: whether it began and ended."""
    return {job.job_id: (job.started is not None, job.ended is not None) for job in journal.jobs()}


def chronicle_at(journal: Journal, clock: list[float]) -> Audit:
    return Audit(journal, lambda: clock[0])


def test_the_newest_look_is_what_was_seen_last(journal: Journal, lease: Lease) -> None:
    chronicle = chronicle_at(journal, [0])
    chronicle.looked(lease, state(0), DECISION)
    changed = replace(DECISION, at=AT + timedelta(seconds=1), nodes=nodes(cpu_1=Phase.IDLE))
    chronicle.looked(lease, state(1), changed)
    look = journal.last_look()
    assert look is not None
    assert look.decision == changed


def test_a_point_counts_tasks_and_nodes_by_phase(journal: Journal, lease: Lease) -> None:
    seen = state(0, job(1, array_tasks="0-9"), job(2), job(3, JobState.RUNNING))
    chronicle_at(journal, [0]).looked(lease, seen, DECISION)
    (sample,) = journal.samples()
    assert (sample.at, sample.jobs_pending, sample.jobs_running) == (AT, 11, 1)
    assert (sample.nodes[Phase.BUSY], sample.usd_per_hour) == (1, 0.5)


def test_the_chart_has_a_point_where_something_changed_and_now_and_then(
    journal: Journal, lease: Lease
) -> None:
    clock = [0.0]
    chronicle = chronicle_at(journal, clock)
    for second in range(100):
        clock[0] = second
        chronicle.looked(lease, state(second, *([job(1)] if second == 50 else [])), DECISION)
    points = [(sample.at - AT).total_seconds() for sample in journal.samples()]
    assert points == [0, 30, 50, 51, 81]


def test_jobs_go_by(journal: Journal, lease: Lease) -> None:
    chronicle = chronicle_at(journal, [0])
    begun = {"start_time": AT, "nodelist": "cpu-1"}
    waits = job(2, array_tasks="0-9")
    chronicle.looked(lease, state(0, job(1), waits), DECISION)
    assert ran(journal) == {}
    tasks = waits._replace(array_tasks="1-9"), job(3, JobState.RUNNING, array_job_id=2, **begun)
    chronicle.looked(lease, state(1, job(1, JobState.RUNNING, **begun), *tasks), DECISION)
    assert ran(journal) == {1: (True, False), 3: (True, False)}
    chronicle.looked(lease, state(2, tasks[0]), DECISION)
    assert ran(journal) == {1: (True, True), 3: (True, True)}
    first = journal.jobs()[0]
    assert first.ended == AT + timedelta(seconds=2)
    assert (first.request["name"], first.request["partitions"], first.request["cpus"]) == (
        "sim",
        ("main",),
        1,
    )
    assert not {"state", "nodelist", "start_time"} & {*first.request}


def test_a_job_that_ended_while_nobody_looked_has_ended(journal: Journal, lease: Lease) -> None:
    runs = job(1, JobState.RUNNING, start_time=AT)
    chronicle_at(journal, [0]).looked(lease, state(0, runs), DECISION)
    chronicle_at(journal, [0]).looked(lease, state(500), DECISION)
    assert ran(journal) == {1: (True, True)}


def test_complaints_are_written_when_they_change(journal: Journal, lease: Lease) -> None:
    chronicle = chronicle_at(journal, [0])
    chronicle.troubled(lease, ["no answer"], AT)
    chronicle.troubled(lease, ["no answer"], AT + timedelta(seconds=5))
    trouble = journal.trouble()
    assert trouble is not None
    assert (trouble.since, trouble.complaints) == (AT, ("no answer",))
    chronicle.troubled(lease, [], AT + timedelta(seconds=9))
    assert journal.trouble() is None


def test_what_the_last_leader_complained_of_is_over_with_it(journal: Journal, lease: Lease) -> None:
    chronicle_at(journal, [0]).troubled(lease, ["no answer"], AT)
    chronicle_at(journal, [0]).troubled(lease, [], AT)
    assert journal.trouble() is None
