"""Real daemons with 20 simulated nodes: jobs start, times are in their order, and nothing is left, also after kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.toolchain import left_out, needs_kubernetes, why_missing
from tidepool.lab.scale.launches import BURST, ClusterFacts, Launch
from tidepool.lab.scale.measure import measured
from tidepool.lab.scale.namespaces import enclosed
from tidepool.lab.scale.plan import Plan
from tidepool.lab.scale.slurm import lacking
from tidepool.toolchain import KWOK, VOLCANO

NODES, BURST_JOBS = 20, 30

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
needs_slurm = pytest.mark.skipif(bool(lacking()), reason="not installed: slurmctld slurmd slurm-client munge")
needs_kwok = pytest.mark.skipif(why_missing(KWOK) is not None, reason=left_out(KWOK))
needs_volcano = pytest.mark.skipif(why_missing(VOLCANO) is not None, reason=left_out(VOLCANO))


def _measure(scheduler: str, pending: Sequence[int]) -> None:
    plan = Plan(scheduler, NODES, pending, rounds=1, burst=BURST_JOBS, singles=1, ready_s=120.0)
    rows = list(measured(plan))
    assert isinstance(rows[-1], ClusterFacts)
    launches, facts = [row for row in rows if isinstance(row, Launch)], rows[-1]
    assert facts.lack == ""
    assert facts.ready == NODES
    assert facts.node_mib > 0
    assert facts.scheduler_mib > 0
    assert len(launches) == len(pending) * (1 + BURST_JOBS)
    for each in launches:
        # A file's time is of the kernel's last tick.
        assert each.submitted_s - 0.01 <= each.decided_s <= each.started_s + 0.01
    for queue in pending:
        of_it = [each.job for each in launches if each.pending == queue and each.way == BURST]
        assert sorted(of_it) == [*range(BURST_JOBS)]


@pytest.mark.slow
@needs_root
@needs_slurm
def test_jobs_start_on_nodes_that_are_processes_of_one_host() -> None:
    _measure("slurm", [10, 30])


@pytest.mark.slow
@needs_root
@needs_kubernetes
@needs_kwok
def test_pods_run_on_nodes_that_kwok_plays() -> None:
    _measure("kubernetes", [10, 30])


@pytest.mark.slow
@needs_root
@needs_kubernetes
@needs_kwok
@needs_volcano
def test_volcano_gives_pods_nodes_that_kwok_plays() -> None:
    _measure("volcano", [10])


@needs_root
def test_nothing_is_left_of_what_was_enclosed_when_its_parent_is_killed(tmp_path: Path) -> None:
    """The parent is killed as nobody can catch; what it had enclosed, and started there, is gone, and so are its files."""
    sleeps = ("sh", "-c", 'touch /mnt/here; setsid sleep 1234.5 & touch "$0"; wait', str(tmp_path / "ready"))
    program = f"import subprocess; subprocess.run({enclosed(sleeps)!r})"
    parent = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    try:
        _until((tmp_path / "ready").exists)
        _until(lambda: bool(_running("sleep", "1234.5")))
        assert not Path("/mnt/here").exists()
    finally:
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    _until(lambda: not _running("sleep", "1234.5"))


def _running(*argv: str) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                said = (folder / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended while we looked
            if said.rstrip(b"\0").split(b"\0") == [each.encode() for each in argv]:
                found.append(int(folder.name))
    return found


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
