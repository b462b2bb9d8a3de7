"""`make demo`: what it runs comes up, is right, and can be run again; and what is wrong is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from demo.workload import workload
from tests.whole.cluster import LONG_S, ROOT, Cluster


@pytest.mark.slow
def test_the_demo_ends_with_all_jobs_completed_and_so_does_the_next(images: Path, tmp_path: Path) -> None:
    cluster = Cluster.make(tmp_path, images, "demo")
    (cluster.folder / "demo").symlink_to(ROOT / "demo")
    described = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())["config"]["cluster:spec"]
    cluster.spec = {**described, "name": "demo"}
    cluster.write_spec()
    try:
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-m", "demo", "--stack", "demo"],
                cwd=cluster.folder,
                env=cluster.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LONG_S,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            assert "All jobs are COMPLETED, and wrote what they should" in done.stdout
            assert "2000 rounds of 1024 bytes" in done.stdout
            assert "down" in done.stdout
    finally:
        cluster.down()


def test_outputs_that_are_wrong_are_found() -> None:
    array, mpi, memory = workload("/home/researcher")
    right = {f"primes-{task}.out": "" for task in range(8)}
    assert "primes-3.out says ''" in array.verdict(right)
    one_node = "rank 0 on cpu-1: 2000 rounds\nrank 1 on cpu-1: 2000 rounds"
    assert "two nodes" in mpi.verdict({"pingpong.out": one_node})
    assert mpi.verdict({"pingpong.out": one_node.replace("1 on cpu-1", "1 on cpu-2")}) == ""
    assert memory.verdict({"memory.out": "1000 MiB on large-1: broken"})
    assert memory.verdict({"memory.out": "1000 MiB on cpu-1: whole"})
    assert memory.verdict({"memory.out": "1000 MiB on large-1: whole"}) == ""
