"""`make demo`: what it runs comes up, is right, and can be run again; and what is wrong is told."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from demo.breathing import Breathed, Ran, complaints
from demo.times import Spread, times
from demo.workload import DemoJob, Stamp, waves
from tests import versions
from tests.cli.explain import records
from tests.whole.cluster import LONG_S, ROOT, Cluster
from tidepool.clients.slurm import JobState
from tidepool.engine.choice import find_cli
from tidepool.scaling.decision import Launch, Remove
from tidepool.scaling.ports import Intent, Result
from tidepool.toolchain import PULUMI

#: By which engine the demo is run, and with how many waves: by both in turns where the CLI is here.
RUNS = {"pulumi": 1, "embedded": 1} if find_cli(os.environ) else {"embedded": 2}


@pytest.mark.slow
@pytest.mark.runs("local", versions.slurm(), versions.built(PULUMI))
def test_the_demo_ends_with_all_jobs_completed_and_so_does_the_next_by_another_engine(
    images: Path, tmp_path: Path
) -> None:
    cluster = Cluster.make(tmp_path, images, "demo")
    (cluster.folder / "demo").symlink_to(ROOT / "demo")
    spec = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())["config"]["cluster:spec"]
    cluster.spec = {**spec, "name": "demo"}
    cluster.write_spec()
    described = cluster.file.read_bytes()
    try:
        # The next goes on where the first was: with the same journal, and the cluster as that left it.
        for engine, waves in RUNS.items():
            done = subprocess.run(
                [sys.executable, "-m", "demo", "--stack", "demo", "--waves", str(waves)],
                cwd=cluster.folder,
                env={
                    **cluster.environment,
                    "TIDEPOOL_ENGINE": engine,
                    "PULUMI_HOME": str(tmp_path / "pulumi"),
                },
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=2 * LONG_S,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            assert "All jobs are COMPLETED, and wrote what they should" in done.stdout
            assert "2000 rounds of 1024 bytes" in done.stdout
            assert "pending -> running" in done.stdout
            assert re.search(r"^ *optics +ada +60%", done.stdout, re.MULTILINE), done.stdout
            assert re.search(r"^ *genetics +grace +20%", done.stdout, re.MULTILINE), done.stdout
            assert "down" in done.stdout
            assert cluster.nodes() == {}
            assert cluster.file.read_bytes() == described
            for chart in ("breathing.svg", "breathing.png"):
                assert (cluster.folder / "charts" / chart).stat().st_size > 1_000
                (cluster.folder / "charts" / chart).unlink()
    finally:
        cluster.down()


def job(name: str) -> DemoJob:
    (found,) = (job for wave in waves(["/home/researcher"]) for job in wave.jobs if job.request.name == name)
    return found


def test_outputs_that_are_wrong_are_found() -> None:
    array, mpi, memory = map(job, ("primes", "pingpong", "memory"))
    right = {f"primes-{task}.out": "" for task in range(8)}
    assert "primes-3.out says ''" in array.verdict(right)
    one_node = "rank 0 on cpu-1: 2000 rounds\nrank 1 on cpu-1: 2000 rounds"
    assert "two nodes" in mpi.verdict({"pingpong.out": one_node})
    assert mpi.verdict({"pingpong.out": one_node.replace("1 on cpu-1", "1 on cpu-2")}) == ""
    assert memory.verdict({"memory.out": "1000 MiB on large-1: broken"})
    assert memory.verdict({"memory.out": "1000 MiB on cpu-1: whole"})
    assert memory.verdict({"memory.out": "1000 MiB on large-1: whole"}) == ""


def test_small_tasks_that_did_not_run_are_found() -> None:
    small = job("first")
    outputs = dict.fromkeys(small.outputs, "cpu-1 100.5 102.6")
    assert small.verdict(outputs) == ""
    for wrong in ("", "cpu-1 100.5", "cpu-1 100.5 101.5", "cpu-1 100.5 soon"):
        assert "first-2.out" in small.verdict({**outputs, "first-2.out": wrong})


def test_a_job_that_ends_badly_is_told_with_what_it_wrote() -> None:
    record = records.job(7, JobState.FAILED)
    breathed = Breathed(
        (Ran(job("pingpong"), 7, AT_S, (record,)),), (), 0, (), (), {"pingpong.out": "SIGSEGV"}
    )
    (told,) = complaints(breathed)
    assert "1 FAILED" in told
    assert "pingpong.out says: SIGSEGV" in told


def test_waves_come_one_after_the_other_and_work_in_their_folder() -> None:
    found = waves(["/home/x", "/home/y"])
    assert [wave.at_s for wave in found] == sorted({wave.at_s for wave in found})
    folders = [{job.request.work_dir for job in wave.jobs} for wave in found]
    assert folders == [{"/home/x"}, {"/home/y"}, {"/home/x"}]
    assert [wave.at_s for wave in waves(["/home/x"], 1)] == [0]


AT = datetime(2026, 11, 21, 20, 0, tzinfo=UTC)
AT_S = AT.timestamp()


def intent(action: Launch | Remove, at_s: float, result: Result = "done", took_s: float = 1) -> Intent:
    at = AT + timedelta(seconds=at_s)
    return Intent(1, 1, 1, at, action, result, at + timedelta(seconds=took_s))


def test_the_times_are_those_that_were_written_down() -> None:
    stamps = [
        # Submitted at once: the one waits for its node, the other runs where there was one, launched before.
        (AT_S, Stamp("cpu-1", AT_S + 2, AT_S + 4)),
        (AT_S, Stamp("cpu-2", AT_S + 0.5, AT_S + 9)),
    ]
    intents = [
        intent(Launch("cpu", ("cpu-2",), "why"), -10),
        intent(Launch("cpu", ("cpu-1",), "why"), 0.2),
        intent(Launch("cpu", ("cpu-3",), "why"), 0.2, "failed"),
        # Long after; nothing that began before it waited for it.
        intent(Launch("cpu", ("cpu-2",), "why"), 20),
        intent(Remove("cpu", ("cpu-1", "cpu-2"), "why"), 12),
        intent(Remove("cpu", ("cpu-1",), "why"), 50, "overtaken"),
    ]
    told = times(stamps, {"cpu-1": [AT_S + 4], "cpu-2": [AT_S + 6, AT_S + 9]}, intents)
    assert list(told.waited.seconds) == [0.5, 2]
    assert list(told.made.seconds) == [2]
    assert told.gone.seconds == pytest.approx((4, 9))
    assert told.machines == 3


@given(st.lists(st.floats(0, 1e6), min_size=1), st.sampled_from([0.5, 0.95, 1.0]))
def test_a_percentile_is_one_of_them_and_as_many_are_not_above_it(seconds: list[float], part: float) -> None:
    spread = Spread("", tuple(sorted(seconds)))
    found = spread.percentile(part)
    assert found in seconds
    assert sum(each <= found for each in seconds) >= part * len(seconds)
    assert sum(each < found for each in seconds) < part * len(seconds)
