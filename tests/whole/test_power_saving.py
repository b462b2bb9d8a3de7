"""Mode `power_save` with real Slurm and real machines: Slurm asks, the daemon makes, Slurm gives back."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import versions
from tests.whole.breathing import FLEETS, Daemon, breathing, killed_after, machines, wish
from tests.whole.cluster import Cluster, until
from tests.whole.conftest import a_cluster
from tidepool.clients.slurm import Completed, JobState, NodeFlag
from tidepool.cluster.controller_programs import SPOOL

pytestmark = [pytest.mark.slow, pytest.mark.runs("local", versions.slurm())]

_OFF = {NodeFlag.CLOUD, NodeFlag.POWERED_DOWN}


@pytest.fixture(scope="module")
def cluster(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Slurm takes nodes for off soon after it has given them back."""
    changes = {
        "scaling": {"mode": "power_save"},
        "slurm_conf": {"SuspendTimeout": 3},
        "limits": {"max_nodes": 2},
    }
    with a_cluster(tmp_path_factory.mktemp("power"), images, fleets=FLEETS, **changes) as it:
        yield it


def srun(cluster: Cluster) -> Completed:
    """It begins as soon as its node is there; a batch job waits for a tick of Slurm's, of 30 s."""
    return cluster.on("login-1", "srun", "--time=1", "hostname", timeout_s=90)


def until_off(cluster: Cluster) -> None:
    """Until nothing of a node is there, and Slurm has all of them powered down, fit to be asked for."""
    until(lambda: not machines(cluster) or None, "all machines are gone", 60)
    until(lambda: not cluster.nodes() or None, "Slurm has all nodes powered down", 60)
    until(lambda: not wish(cluster) or None, "the stack's outputs name no node", 60)
    with cluster.slurm() as slurm:
        for node in slurm.nodes():
            assert node.state.flags >= _OFF
            assert not node.state.is_draining


def test_slurm_asks_for_nodes_and_gives_them_back(cluster: Cluster) -> None:
    with breathing(cluster):
        batch = cluster.submit("sleep 0.5", exclusive=True)
        ran = srun(cluster)
        assert (ran.exit_code, ran.stdout.strip()) == (0, "cpu-2"), ran.stderr
        job = cluster.until_job(batch, JobState.COMPLETED)
        assert (job.restarts, job.nodelist) == (0, "cpu-1")
        until_off(cluster)


def test_what_is_beyond_a_limit_goes_back_to_the_queue_and_its_node_can_be_asked_for_again(
    cluster: Cluster,
) -> None:
    with breathing(cluster):
        jobs = [cluster.submit("sleep 60", exclusive=True) for _ in range(3)]
        until(lambda: any(cluster.job(job).restarts for job in jobs) or None, "one of them waits again")
        until(lambda: len(machines(cluster)) == 2 or None, "the others have their nodes")
        with cluster.slurm() as slurm:
            for job in jobs:
                slurm.cancel(job)
        until_off(cluster)


def test_what_was_asked_for_while_no_daemon_ran_is_made_by_the_next(cluster: Cluster) -> None:
    with killed_after(Daemon.start(cluster)) as daemon:
        daemon.until_role("leads")
    with ThreadPoolExecutor(1) as beside:
        asking = beside.submit(srun, cluster)
        until(lambda: cluster.on("ctl", "ls", SPOOL).stdout or None, "Slurm has asked")
        with breathing(cluster):
            ran = asking.result()
            assert (ran.exit_code, ran.stdout.strip()) == (0, "cpu-1"), ran.stderr
            until_off(cluster)
            until(lambda: not cluster.on("ctl", "ls", SPOOL).stdout or None, "nothing is left of it")
