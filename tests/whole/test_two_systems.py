"""Two operating systems in one cluster, and two releases of Slurm, as docs/images.md has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import versions
from tests.golden import NEXT_CONVERGED, golden_store, golden_testing
from tests.toolchain import needs_kubernetes
from tests.whole.cluster import Cluster
from tests.whole.conftest import a_cluster
from tidepool.clients.slurm import JobState

pytestmark = pytest.mark.slow

SHAPE = {"cpus": 1, "memory": "256MiB"}
FLEETS = [
    {"name": "old", "subnet": "10.78.1.0/24", "min_nodes": 1, "max_nodes": 2, "shape": SHAPE},
    {
        "name": "new",
        "image": "debian-13-slurm-22.05",
        "subnet": "10.78.2.0/24",
        "min_nodes": 1,
        "max_nodes": 2,
        "shape": SHAPE,
    },
]
BOTH = pytest.mark.runs("local", versions.slurm(), "Debian 12 and 13")
#: Says on which node it runs, and what that is.
WHICH = '. /etc/os-release; echo "$SLURMD_NODENAME $ID $VERSION_ID $(slurmd -V)"'


@pytest.fixture(scope="module")
def cluster(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node of each. The image of the new ones is built where no test has built it yet: a minute."""
    assert golden_store("debian-13-slurm-22.05") == images
    with a_cluster(tmp_path_factory.mktemp("cluster"), images, fleets=FLEETS) as it:
        yield it


def said(cluster: Cluster, job: int, output: str) -> list[str]:
    cluster.until_job(job, JobState.COMPLETED)
    return sorted(cluster.on("login-1", "cat", f"/home/researcher/{output}").stdout.splitlines())


@BOTH
@pytest.mark.parametrize(("fleet", "release"), [("old", "12"), ("new", "13")])
def test_a_job_chooses_its_system_by_the_fleet(cluster: Cluster, fleet: str, release: str) -> None:
    job = cluster.submit(WHICH, features=fleet, output=f"{fleet}.out")
    assert said(cluster, job, f"{fleet}.out") == [f"{fleet}-1 debian {release} slurm-wlm 22.05.8"]


@BOTH
def test_a_job_runs_on_both_at_once(cluster: Cluster) -> None:
    job = cluster.submit(f"srun sh -c '{WHICH}'", nodes="2", tasks=2, output="both.out")
    assert said(cluster, job, "both.out") == [
        "new-1 debian 13 slurm-wlm 22.05.8",
        "old-1 debian 12 slurm-wlm 22.05.8",
    ]


@needs_kubernetes
@pytest.mark.runs("local", versions.slurm("debian-13"), "Slurm 26.05 of Debian's testing")
def test_a_controller_serves_nodes_of_its_own_release_of_slurm_and_of_an_older_one(
    images: Path, tmp_path: Path
) -> None:
    """Slurmctld of 26.05 and slurmd of 24.11: the oldest that it promises to serve, three releases before it."""
    assert golden_store(NEXT_CONVERGED) == images
    old, new = (
        {**fleet, "image": image, "slurm_version": release}
        for fleet, image, release in zip(
            FLEETS, (NEXT_CONVERGED, golden_testing("26.05")), ("24.11", "26.05"), strict=True
        )
    )
    with a_cluster(tmp_path, images, image=new["image"], slurm_version="26.05", fleets=[old, new]) as it:
        # Not one job on both: the srun of a new node asks the old one in words that it does not know.
        jobs = {
            name: it.submit(
                "srun sh -c 'echo $SLURMD_NODENAME $(slurmd -V)'", features=name, output=f"{name}.out"
            )
            for name in ("old", "new")
        }
        found = [line for name, job in jobs.items() for line in said(it, job, f"{name}.out")]
        assert [line.rpartition(".")[0] for line in found] == [
            "old-1 slurm-wlm 24.11",
            "new-1 slurm-wlm 26.05",
        ]
