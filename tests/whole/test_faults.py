"""What breaks, and how the cluster goes on: `faults.md` of the design, as far as it concerns `up` and `down`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import versions
from tests.whole.cluster import Cluster, until
from tests.whole.conftest import a_cluster
from tidepool.clients.slurm import JobState
from tidepool.infrastructures.local import kernel

pytestmark = [pytest.mark.slow, pytest.mark.runs("local", versions.slurm())]

_HOG = """python3 - <<'END'
held = bytearray(400 << 20)
for place in range(0, len(held), 4096):
    held[place] = 1
print('never')
END
"""


@pytest.fixture(scope="module")
def cluster(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Nodes of 256 MiB each, where Slurm itself does not look at memory."""
    # Nodes are given up soon, so that the test of it is short.
    with a_cluster(tmp_path_factory.mktemp("faults"), images, slurm_conf={"SlurmdTimeout": 5}) as it:
        yield it


def test_a_job_that_takes_more_memory_than_its_node_has_is_killed_in_its_node_only(cluster: Cluster) -> None:
    other = cluster.submit("sleep 2", memory_mib=50, more=("--nodelist=cpu-2",))
    job = cluster.submit(_HOG, memory_mib=200, more=("--nodelist=cpu-1",), output="hog.out")
    cluster.until_job(job, JobState.OUT_OF_MEMORY)
    assert "never" not in cluster.on("login-1", "cat", "/home/researcher/hog.out").stdout
    cluster.until_job(other, JobState.COMPLETED)
    # It was its job's limit that it met, and no machine's.
    kills = {m.name: m.memory_kills for m in kernel.list_machines(cluster.data, cluster.stack)}
    assert set(kills.values()) == {0}
    until(lambda: cluster.idle() == ["cpu-1", "cpu-2"] or None, "both nodes are idle again")


def test_the_controller_is_killed_and_is_back_with_its_jobs(cluster: Cluster) -> None:
    until_told = "until test -e /home/researcher/end-it; do sleep 0.2; done"
    running = cluster.submit(until_told, memory_mib=50, name="running")
    cluster.until_job(running, JobState.RUNNING)
    waiting = cluster.submit("true", memory_mib=50, name="waiting", more=(f"--dependency=afterok:{running}",))
    # Slurm itself saves its state up to five seconds late. Names of jobs stand there as they are.
    saved = ("grep", "--quiet", "--text", "waiting", "/var/spool/slurmctld/job_state")
    until(lambda: cluster.on("ctl", *saved).exit_code == 0 or None, "its state is saved")
    pid = cluster.on("ctl", "cat", "/run/slurmctld.pid").stdout.strip()
    assert cluster.on("ctl", "kill", "-KILL", pid).exit_code == 0
    with cluster.slurm() as slurm:
        # How soon is bench/local.py's to say.
        until(lambda: any(c.is_up for c in slurm.ping()) or None, "the controller is back")
        assert {job.job_id for job in slurm.jobs()} == {running, waiting}
    assert cluster.on("login-1", "touch", "/home/researcher/end-it").exit_code == 0
    assert cluster.until_job(waiting, JobState.COMPLETED).restarts == 0
    assert cluster.job(running).restarts == 0


def test_slots_survive_a_controller_that_is_killed_before_it_saved_them(cluster: Cluster) -> None:
    cluster.spec["fleets"][0]["max_nodes"] += 4
    cluster.up()
    pid = cluster.on("ctl", "cat", "/run/slurmctld.pid").stdout.strip()
    assert cluster.on("ctl", "kill", "-KILL", pid).exit_code == 0
    cluster.up()
    with cluster.slurm() as slurm:
        assert len(slurm.nodes()) == cluster.spec["fleets"][0]["max_nodes"]
