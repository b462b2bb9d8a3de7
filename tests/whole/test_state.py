"""The stack's state is held by another, broken, older than the world, or finds no room: nothing is lost by it."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import versions
from tests.whole.cluster import TIDEPOOL, Cluster, until
from tests.whole.conftest import a_cluster
from tidepool.clients.slurm import JobState
from tidepool.infrastructures.local import kernel

pytestmark = [pytest.mark.slow, pytest.mark.runs("local", versions.slurm())]


@pytest.fixture
def cluster(images: Path, tmp_path: Path) -> Iterator[Cluster]:
    with a_cluster(tmp_path / "state", images) as it:
        yield it


def _checkpoint(cluster: Cluster) -> Path:
    (file,) = (cluster.data / "state").rglob(f"stacks/**/{cluster.stack}.json")
    return file


def test_who_comes_while_another_is_at_work_is_told_so_however_slow_that_one_is(cluster: Cluster) -> None:
    """A person's `up` is stopped in the middle, as a machine that hangs would stop it, and goes on later."""
    cluster.spec["fleets"][0]["min_nodes"] = 6
    cluster.write_spec()
    with subprocess.Popen(
        [str(TIDEPOOL), "--stack", cluster.stack, "up", "--yes"],
        cwd=cluster.folder,
        env=cluster.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    ) as first:
        until(
            lambda: len(kernel.list_machines(cluster.data, cluster.stack)) > 4 or None,
            "the first is at work",
            30,
            0.002,
        )
        first.send_signal(signal.SIGSTOP)
        try:
            said = cluster.refused("up", "--yes")
        finally:
            first.send_signal(signal.SIGCONT)
        assert "lock" in said, said
        assert str(first.pid) in said, said
        assert first.wait(60) == 0
    assert len(cluster.idle()) == 6


def test_a_truncated_state_is_told_and_nothing_is_touched(cluster: Cluster) -> None:
    file = _checkpoint(cluster)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    try:
        said = cluster.refused("up", "--yes")
        assert str(file) in said, said
        assert cluster.idle() == ["cpu-1", "cpu-2"]
    finally:
        file.write_bytes(whole)


def test_a_state_that_is_older_than_the_world_is_brought_up_to_it(cluster: Cluster, tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(cluster.data / "state", old)
    job = cluster.submit("sleep 600", memory_mib=50)
    running = cluster.until_job(job, JobState.RUNNING)
    cluster.spec["fleets"][0]["min_nodes"] = 4
    cluster.up()
    shutil.rmtree(cluster.data / "state")
    shutil.copytree(old, cluster.data / "state")
    # The machines and nodes are there, and are taken as they are.
    cluster.up()
    assert len(cluster.nodes()) == 4
    assert cluster.job(job).start_time == running.start_time
    assert cluster.job(job).restarts == 0


def test_a_full_disk_fails_in_words_and_is_no_trap(images: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1200k", "tmpfs", str(small)], check=True)
    try:
        cluster = Cluster.make(tmp_path / "full", images, "full")
        cluster.data = small / "data"
        said = cluster.refused("up", "--yes")
        assert "No space left" in said or "space" in said, said
        subprocess.run(["mount", "-o", "remount,size=300m", str(small)], check=True)
        cluster.up()
        assert cluster.idle() == ["cpu-1", "cpu-2"]
        cluster.down()
    finally:
        subprocess.run(["umount", str(small)], check=True)
