"""What came of a trace: figures_of, fitting to a cluster, and runs in the simulated one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.scene import SPEC, Scene
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import read_spec
from tidepool.scaling.journal import open_journal
from tidepool.scaling.ports import JobRecord
from tidepool.simulation.replay import Trace, TracedJob, TraceError, read_trace, replay
from tidepool.simulation.replay.run import Ran, figures_of
from tidepool.simulation.replay.trace import fitted, read_recorded

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)


def spec(**more: Any) -> ClusterSpec:
    fleet = {**SPEC["fleets"][0], "infrastructures": [{"name": "local", "price_usd_per_hour": 2}]}
    return read_spec({**SPEC, "fleets": [fleet], "partitions": [{"name": "main"}], **more})


def job(submit_s: float = 0, run_s: float = 100, cpus: int = 2, **more: Any) -> TracedJob:
    return TracedJob(f"{submit_s:g}", submit_s, run_s, cpus, time_limit_s=int(run_s * 2), **more)


def trace(*jobs: TracedJob) -> Trace:
    return Trace(BEGIN, jobs)


def test_figures_of_waits() -> None:
    ran = [Ran(wait_s, 10, 1) for wait_s in range(100)]
    found = figures_of(
        ran,
        left_waiting=0,
        requeued=0,
        span_s=0,
        machines_started=1,
        node_s=7200,
        node_cpu_s=2000,
        cost_usd=3,
    )
    assert (found.wait_mean_s, found.wait_p50_s, found.wait_p95_s, found.wait_max_s) == (49.5, 50, 95, 99)
    assert found.bounded_slowdown == pytest.approx((49.5 + 10) / 10)
    assert (found.node_hours, found.utilisation) == (2, 0.5)


def test_the_slowdown_of_short_jobs_is_bounded() -> None:
    found = figures_of(
        [Ran(5, 1, 1)],
        left_waiting=0,
        requeued=0,
        span_s=0,
        machines_started=0,
        node_s=0,
        node_cpu_s=0,
        cost_usd=0,
    )
    assert found.bounded_slowdown == 1
    assert found.utilisation == 0


def test_processors_become_nodes_and_memory_its_share() -> None:
    request = fitted(job(cpus=5), spec())
    assert (request.nodes, request.tasks, request.memory_per_cpu_mib, request.memory_mib) == ("3", 5, 2048, 0)
    assert fitted(job(partition="elsewhere", features="h100"), spec()).partition == ""
    assert fitted(job(memory_per_node_mib=100), spec()).memory_mib == 100


def test_a_trace_runs_and_its_machines_go() -> None:
    found = replay(trace(*(job(submit_s=place * 10) for place in range(20))), spec())
    assert found.figures.jobs == 20
    assert found.figures.left_waiting == found.figures.requeued == 0
    assert 1 <= found.figures.machines_started <= 20
    assert 0 < found.figures.utilisation <= 1
    assert found.figures.cost_usd == pytest.approx(found.figures.node_hours * 2)
    assert found.samples[-1].jobs_pending == found.samples[-1].jobs_running == 0
    assert any(sample.jobs_running for sample in found.samples)


def test_the_same_trace_gives_the_same_figures() -> None:
    jobs = trace(*(job(submit_s=place * 7, run_s=20 + place % 5 * 40) for place in range(40)))
    one, two = (replay(jobs, spec()).figures for _ in range(2))
    assert replace(one, took_s=0) == replace(two, took_s=0)


def test_two_policies_differ() -> None:
    jobs = trace(*(job(submit_s=place, run_s=60) for place in range(8)))
    at_once = replay(jobs, spec()).figures
    scaling = {"policies": [{"name": "backlog", "minutes": 60}]}
    in_time = replay(jobs, spec(scaling=scaling)).figures
    assert in_time.machines_started < at_once.machines_started
    assert in_time.wait_mean_s > at_once.wait_mean_s


def test_jobs_that_cannot_run_here_are_counted_and_hold_up_nothing() -> None:
    found = replay(
        trace(job(cpus=2), job(submit_s=1, cpus=200), job(submit_s=2, memory_per_node_mib=10**6)), spec()
    )
    assert found.figures.jobs == 1
    assert found.figures.left_waiting == 1
    assert list(found.refused) == ["2"]


def seen(job_id: int, **more: Any) -> JobRecord:
    asked: dict[str, Any] = {"nodes": 1, "cpus": 2, "min_memory_mib": 100, "tres": {"mem": "100M"}, **more}
    submitted = BEGIN + timedelta(seconds=job_id)
    return JobRecord(
        job_id, submitted, submitted + timedelta(seconds=5), submitted + timedelta(seconds=65), asked
    )


def test_recorded_jobs_are_a_trace() -> None:
    unfinished = JobRecord(9, BEGIN, None, None, {})
    found = read_recorded(
        [seen(2, partitions=["main"], tres_per_node={"gres/gpu": "1"}), seen(1), unfinished]
    )
    assert [(each.name, each.submit_s, each.run_s) for each in found.jobs] == [("1", 1, 60), ("2", 2, 60)]
    assert found.not_run == 1
    assert (found.jobs[1].gres, found.jobs[1].partition) == ("gpu:1", "main")
    assert found.jobs[0].memory_per_node_mib == 100


def test_memory_for_each_cpu_is_told_from_memory_for_each_node() -> None:
    (found,) = read_recorded([seen(1, tres={"mem": "200M"})]).jobs
    assert (found.memory_per_cpu_mib, found.memory_per_node_mib) == (100, 0)


def test_a_record_that_cannot_be_read_is_named() -> None:
    found = read_recorded([seen(1, nodes="many"), seen(2)])
    assert len(found.jobs) == 1
    assert "job 1" in found.broken[0].reason


def test_a_journal_without_jobs_is_told_of(tmp_path: Path) -> None:
    open_journal(tmp_path, {}, power_safe=False).close()
    with pytest.raises(TraceError, match="no jobs"):
        read_trace(tmp_path / "journal.sqlite")


def test_what_a_daemon_saw_is_replayed(tmp_path: Path) -> None:
    scene = Scene()
    jobs = scene.submit(3, seconds=100)
    scene.until_running(jobs)
    scene.ends_well()
    journal = open_journal(tmp_path, {}, power_safe=False)
    lease = journal.acquire("one", BEGIN, 3600)
    assert lease is not None
    journal.saw(lease, scene.cluster.journal.jobs())
    journal.close()
    found = read_trace(tmp_path / "journal.sqlite")
    assert [(each.cpus, round(each.run_s), each.partition) for each in found.jobs] == [(2, 100, "cpu")] * 3
    assert replay(found, spec()).figures.jobs == 3
