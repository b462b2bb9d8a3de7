"""The scaler moves real machines of a pool between a real Slurm and a real Kubernetes; killed, and with an API that hangs."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.golden import CONVERGED, golden_store
from tests.toolchain import needs_kubernetes
from tests.whole.breathing import Daemon, breathing, killed_after
from tests.whole.cluster import until
from tests.whole.pools import PoolCluster, a_pool_cluster
from tidepool.clients.slurm import JobState
from tidepool.scaling.journal import open_journal

pytestmark = [pytest.mark.slow, needs_kubernetes]

#: All of a machine, so that each job and each pod needs its own.
WHOLE = {"cpu": "1500m"}


@pytest.fixture(scope="module")
def pool(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolCluster]:
    golden_store("debian-12", CONVERGED)
    with a_pool_cluster(tmp_path_factory.mktemp("pool"), images, 2, idle_s=1, minimum_stay_s=1) as it:
        yield it


@pytest.fixture(autouse=True)
def _tidy(pool: PoolCluster) -> None:
    pool.clear()


def both_sides_agree(pool: PoolCluster) -> None:
    """No machine is in two roles, and each has one."""
    assert all(len(roles) == 1 for roles in pool.roles().values()), pool.roles()


def test_machines_go_where_demand_is_and_back(pool: PoolCluster) -> None:
    for name in ("one", "two"):
        pool.pod(name, "sleep 2", **WHOLE)
        pool.until_unschedulable(name)
    with breathing(pool) as daemon:
        for name in ("one", "two"):
            pool.until_pod(name, "Succeeded", timeout_s=120)
        jobs = [pool.submit("hostname", work_dir="/tmp", tasks=2) for _ in range(3)]
        for job in jobs:
            pool.until_job(job, JobState.COMPLETED, timeout_s=120)
        # One may have run them all while the other was on its way.
        until(lambda: all(len(roles) == 1 for roles in pool.roles().values()) or None, "each has a role", 60)
        # In one decision, or in two where one of them had only just come.
        assert all(pod in daemon.said() for pod in ("default/one", "default/two"))
    with pool.journal() as journal:
        told = [each for each in journal.conversions() if each.order.by == "scaler"]
    assert {each.order.to for each in told} == {"slurm", "kubernetes"}
    assert {each.phase for each in told} == {"done"}


def test_a_daemon_that_is_killed_while_machines_move_is_gone_on_with(pool: PoolCluster) -> None:
    pool.pod("killed", "sleep 1", **WHOLE)
    with killed_after(Daemon.start(pool, "killed")) as daemon:
        until(lambda: "an `up` for" in daemon.said() or None, "an `up` begins", 90, 0.02)
        daemon.kill()
    with breathing(pool):
        pool.until_pod("killed", "Succeeded", timeout_s=120)
        job = pool.submit("hostname", work_dir="/tmp", nodes="2", tasks=4)
        pool.until_job(job, JobState.COMPLETED, timeout_s=120)
    both_sides_agree(pool)


def test_while_the_api_server_hangs_nothing_moves_and_it_is_told(pool: PoolCluster) -> None:
    with (
        breathing(pool),
        closing(open_journal(pool.data / pool.stack / "scaler", {}, stack=pool.stack)) as journal,
    ):
        pool.pod("before", "true", **WHOLE)
        pool.until_pod("before", "Succeeded", timeout_s=120)
        with pool.journal() as conversions:
            before = len(conversions.conversions())
        try:
            assert pool.signal("kube", "kube-apiserver", signal.SIGSTOP)
            # A machine of the two would have to come back for it.
            job = pool.submit("hostname", work_dir="/tmp", nodes="2", tasks=4)
            trouble = until(journal.trouble, "it is told", 60)
            assert "did not answer" in trouble.complaints[0]
            with pool.journal() as conversions:
                assert len(conversions.conversions()) == before
            assert pool.job(job).state is JobState.PENDING
        finally:
            pool.signal("kube", "kube-apiserver", signal.SIGCONT)
        pool.until_job(job, JobState.COMPLETED, timeout_s=120)
        until(lambda: journal.trouble() is None or None, "all is well", 60)
    both_sides_agree(pool)


def test_a_machine_that_slurm_has_forgotten_joins_again(pool: PoolCluster) -> None:
    """By a person's `up`, and by the scaler."""
    forgotten(pool, "shared-2")
    told = {each["what"] for each in json.loads(pool.run("status", "--json").stdout)["problems"]}
    assert "machine shared-2 serves Slurm, which has no such node" in told
    pool.up()
    assert pool.roles()["shared-2"] == {"slurm"}
    forgotten(pool, "shared-2")
    with breathing(pool):
        until(lambda: pool.roles()["shared-2"] == {"slurm"} or None, "the scaler has it join again", 120)


def forgotten(pool: PoolCluster, node: str) -> None:
    """As after a `kill -9` of slurmctld within the seconds in which it came: it is a slot again, and its slurmd lives on."""
    pool.to("slurm", node)
    with pool.slurm() as slurm:
        slurm.to_future(node)
    assert node not in pool.nodes()
