"""Jobs hold to the memory that they asked for; what they used is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.cluster import SPEC, Cluster, until
from tests.whole.conftest import a_cluster
from tidepool.clients.slurm import JobState

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def confined(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    controller = {**SPEC["controller"], "accounting": {"shape": {"cpus": 1, "memory": "512MiB"}}}
    often = {"JobAcctGatherFrequency": "task=1"}
    with a_cluster(tmp_path_factory.mktemp("cluster"), images, controller=controller, slurm_conf=often) as it:
        yield it


def holding(mib: int, seconds: int) -> str:
    """A program that holds so much memory."""
    return f"exec python3 -c 'import time; x = bytearray({mib} << 20); time.sleep({seconds})'"


def sacct(cluster: Cluster, job: int, field: str) -> str:
    done = cluster.on("ctl", "sacct", "-P", "-n", "-j", f"{job}.batch", "-o", field)
    return done.stdout.strip()


def test_one_that_takes_too_much_memory_is_killed_alone_and_told_so(confined: Cluster) -> None:
    good = confined.submit(holding(40, 8), memory_mib=80, more=("--nodelist=cpu-1",), output="/dev/null")
    bad = confined.submit(holding(120, 60), memory_mib=80, more=("--nodelist=cpu-1",), output="bad.out")
    assert confined.until_job(bad, JobState.OUT_OF_MEMORY).nodelist == "cpu-1"
    assert confined.until_job(good, JobState.COMPLETED).nodelist == "cpu-1"
    assert "oom" in confined.on("login-1", "cat", "/home/researcher/bad.out").stdout.lower()
    used = until(lambda: sacct(confined, good, "MaxRSS") or None, "what it used is in the database")
    assert 40 * 1024 <= int(used.removesuffix("K")) < 80 * 1024
