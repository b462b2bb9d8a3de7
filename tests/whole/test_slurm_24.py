"""One cluster of Slurm 24.11, on Debian 13: all that clusters of 22.05 are tested for, told in one go.

It comes up, runs jobs, breathes, is reconfigured, hands over to its backup and takes back, and converts a machine: tests
that go on from one another, in this order. In another one Slurm asks for nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.golden import NEXT_CONVERGED, golden_store
from tests.toolchain import needs_kubernetes
from tests.whole.breathing import FLEETS, breathing, completed, machines
from tests.whole.cluster import Cluster, summary, until
from tests.whole.conftest import a_cluster
from tests.whole.pools import PoolCluster, a_pool_cluster
from tests.whole.test_control_nodes import START, in_charge, services, take_over
from tidepool.clients.slurm import JobState
from tidepool.toolchain import KUBERNETES

pytestmark = [
    pytest.mark.slow,
    needs_kubernetes,
    pytest.mark.runs("local", versions.slurm("debian-13"), versions.built(KUBERNETES)),
]

RELEASE = "24.11"
OWN: dict[str, Any] = {
    "shape": {"cpus": 1, "memory": "512MiB"},
    "backup": True,
    "accounting": {"shape": {"cpus": 1, "memory": "512MiB"}},
}
#: Says where it runs.
WHERE = '. /etc/os-release; echo "$ID $VERSION_ID"; slurmd -V'


@pytest.fixture(scope="module")
def cluster(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolCluster]:
    """One machine of a pool, that serves Slurm, and a fleet without nodes."""
    golden_store(NEXT_CONVERGED)
    keys = {"slurm_version": RELEASE, "image": NEXT_CONVERGED}
    folder = tmp_path_factory.mktemp("cluster")
    with a_pool_cluster(folder, images, 1, keys, controller=OWN, fleets=FLEETS, image=NEXT_CONVERGED) as it:
        yield it


def test_a_job_runs(cluster: PoolCluster) -> None:
    with cluster.slurm() as slurm:
        assert slurm.version().startswith(RELEASE)
    job = cluster.submit(
        f"srun sh -c '{WHERE}'", features="shared", output="where.out", work_dir="/home/researcher"
    )
    cluster.until_job(job, JobState.COMPLETED)
    said = cluster.on("login-1", "cat", "/home/researcher/where.out").stdout.splitlines()
    assert said[0] == "debian 13"
    assert said[1].startswith(f"slurm-wlm {RELEASE}.")


def test_jobs_bring_nodes_that_go_when_they_are_idle(cluster: PoolCluster) -> None:
    with breathing(cluster):
        script = "touch met-$SLURM_JOB_ID; until test $(ls met-* | wc -l) = 2; do sleep 0.1; done"
        records = completed(
            cluster, [cluster.submit(script, features="cpu", exclusive=True) for _ in range(2)]
        )
        assert {job.restarts for job in records} == {0}
        assert len({job.nodelist for job in records}) == 2
        until(lambda: not machines(cluster) or None, "all nodes are gone", 60)


def test_a_running_job_does_not_notice_what_changes(cluster: PoolCluster) -> None:
    job = cluster.submit("sleep 600", features="shared", memory_mib=50)
    cluster.until_job(job, JobState.RUNNING)
    pool, partitions, fleets = (cluster.spec[key] for key in ("pools", "partitions", "fleets"))
    pool[0]["features"] = ["ib"]
    partitions.append({"name": "short", "max_time": "10"})
    fleets.append({**FLEETS[0], "name": "big", "subnet": "10.78.3.0/24"})
    cluster.up()
    found = cluster.job(job)
    assert (found.state, found.restarts) == (JobState.RUNNING, 0)
    assert cluster.nodes()["shared-1"].features == ("shared", "ib")
    other = cluster.submit("hostname", features="ib", partition="short", memory_mib=50)
    cluster.until_job(other, JobState.COMPLETED)
    with cluster.slurm() as slurm:
        slurm.cancel(job)
    cluster.until_job(job, JobState.CANCELLED)
    until(lambda: cluster.idle() == ["shared-1"] or None, "Slurm counts right")
    fleets.pop()
    assert set(summary(cluster.up("--json"))["changes"]) >= {"delete"}
    assert set(summary(cluster.tidepool("preview", "--json"))["changes"]) == {"same"}


def test_the_backup_takes_over_and_gives_back_and_takes_over_again(cluster: PoolCluster) -> None:
    for _ in range(2):
        take_over(cluster)
        until(lambda: services(cluster, "ctl")["slurmctld"][0] == "ended" or None, "it stays down")
        until(lambda: in_charge(cluster) == "ctlbackup" or None, "ctlbackup is in charge")
        cluster.until_job(cluster.submit("hostname", features="shared"), JobState.COMPLETED)
        assert cluster.on("ctl", "sh", "-c", START).exit_code == 0
        until(lambda: in_charge(cluster) == "ctl" or None, "ctl is in charge again")
    # It needed no new start for that, as one of 22.05 does.
    assert services(cluster, "ctlbackup")["slurmctld"] == ("up", 0)


def test_a_machine_goes_to_kubernetes_runs_a_pod_and_comes_back(cluster: PoolCluster) -> None:
    (there,) = cluster.convert("shared-1", "--to", "kubernetes")
    assert there["phase"] == "done"
    assert cluster.role_of("shared-1") == "kubernetes"
    cluster.pod("once", 'echo "$NODE"')
    assert cluster.until_pod("once", "Succeeded").node == "shared-1"
    (back,) = cluster.convert("shared-1", "--to", "slurm")
    assert back["phase"] == "done"
    job = cluster.submit("hostname", features="shared")
    assert cluster.until_job(job, JobState.COMPLETED).nodelist == "shared-1"


def test_slurm_asks_for_nodes_and_gives_them_back(images: Path, tmp_path: Path) -> None:
    """In a cluster of its own: power saving and a backup controller exclude each other."""
    power = {"mode": "power_save", "boot_timeout_s": 20}
    keys = {"slurm_version": RELEASE, "image": NEXT_CONVERGED, "scaling": power, "fleets": FLEETS}
    with a_cluster(tmp_path, images, slurm_conf={"SuspendTimeout": 3}, **keys) as it, breathing(it):
        asks_and_gives_back(it)
        # A node that was powered down has its name for an address now, and is the same slot.
        it.spec["fleets"][0]["features"] = ["ib"]
        it.up()
        asks_and_gives_back(it)


def asks_and_gives_back(cluster: Cluster) -> None:
    ran = cluster.on("login-1", "srun", "--time=1", "hostname", timeout_s=120)
    assert (ran.exit_code, ran.stdout.strip()) == (0, "cpu-1"), ran.stderr
    until(lambda: not machines(cluster) or None, "all machines are gone", 90)
    with cluster.slurm() as slurm:
        found = slurm.nodes()
    assert len(found) == FLEETS[0]["max_nodes"]
    until(lambda: not cluster.nodes() or None, "Slurm has all nodes powered down", 60)
