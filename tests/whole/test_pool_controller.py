"""A pool's machine that runs slurmctld: it hands over, serves Kubernetes, comes back, and is in charge again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden import CONVERGED, golden_store
from tests.toolchain import needs_kubernetes
from tests.whole.cluster import until
from tests.whole.pools import PoolCluster, a_pool_cluster
from tests.whole.test_control_nodes import in_charge, services
from tidepool.clients.slurm import JobState

pytestmark = [pytest.mark.slow, needs_kubernetes]

SMALL = {"shape": {"cpus": 1, "memory": "512MiB"}, "runs_on": "shared-1"}


@pytest.fixture(scope="module")
def pool(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolCluster]:
    """Two machines, the first of which is the controller."""
    golden_store("debian-12", CONVERGED)
    with a_pool_cluster(tmp_path_factory.mktemp("pool"), images, 2, controller=SMALL) as it:
        yield it


def kubelet_sees(pool: PoolCluster, path: str) -> list[str]:
    """What is in a folder of shared-1 for its kubelet, and so for a pod that may mount the machine's folders."""
    # What it starts has its name for a moment.
    pid = min(pid for pid, name in pool.pids("shared-1").items() if name == "kubelet")
    folder = Path(f"/proc/{pid}/root{path}")
    return sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []


def test_it_is_in_charge_while_it_serves_slurm_and_leaves_when_ctl_has_taken_over(pool: PoolCluster) -> None:
    assert in_charge(pool) == "shared-1"
    job = pool.submit(
        "until test -e go-on; do sleep 0.1; done; hostname", more=("--nodelist=shared-2", "--no-requeue")
    )
    pool.until_job(job, JobState.RUNNING)
    (there,) = pool.convert("shared-1", "--to", "kubernetes")
    assert there["phase"] == "done"
    assert (in_charge(pool), pool.role_of("shared-1")) == ("ctl", "kubernetes")
    assert pool.processes("shared-1") & {"slurmctld", "slurmd", "munged"} == set()
    # Nothing of the cluster's state or keys is there for what runs in that role.
    assert not (pool.root("shared-1") / "etc/munge/munge.key").exists()
    assert kubelet_sees(pool, "/var/spool/slurmctld") == []
    assert "slurm.conf" not in kubelet_sees(pool, "/etc/slurm")
    assert list((pool.root("shared-1") / "var/spool/slurmctld").iterdir())
    pool.pod("once", 'echo "$NODE"')
    assert pool.until_pod("once", "Succeeded").node == "shared-1"
    # The job goes on, and others begin.
    assert pool.job(job).state is JobState.RUNNING
    pool.on("shared-2", "touch", "/home/researcher/go-on")
    assert pool.until_job(job, JobState.COMPLETED).restarts == 0
    # What ctl is in charge of can be changed, also what only a start reads.
    pool.spec["slurm_conf"] = {"MaxArraySize": 2001}
    pool.up()
    assert in_charge(pool) == "ctl"
    assert "2001" in pool.on("login-1", "scontrol", "show", "config").stdout

    (back,) = pool.convert("shared-1", "--to", "slurm")
    assert back["phase"] == "done"
    until(lambda: in_charge(pool) == "shared-1" or None, "shared-1 is in charge again")
    assert pool.role_of("shared-1") == "slurm"
    assert "2001" in pool.on("login-1", "scontrol", "show", "config").stdout
    again = pool.submit("hostname", work_dir="/tmp", more=("--nodelist=shared-1",))
    assert pool.until_job(again, JobState.COMPLETED).nodelist == "shared-1"


def test_settings_that_only_a_start_reads_reach_it_and_it_is_in_charge_again(pool: PoolCluster) -> None:
    pool.spec["slurm_conf"] = {"MaxArraySize": 3001}
    pool.up()
    until(lambda: in_charge(pool) == "shared-1" or None, "shared-1 is in charge again")
    assert "3001" in pool.on("login-1", "scontrol", "show", "config").stdout


def test_without_another_controller_it_stays_and_says_why(pool: PoolCluster) -> None:
    until(lambda: in_charge(pool) == "shared-1" or None, "shared-1 is in charge")
    until(lambda: answering(pool) == {"shared-1", "ctl"} or None, "ctl stands by")
    # It ends, as by `scontrol shutdown`, and stays so.
    pool.on("ctl", "pkill", "-TERM", "-x", "slurmctld")
    until(lambda: services(pool, "ctl")["slurmctld"][0] == "ended" or None, "ctl does not answer")
    (stays,) = pool.convert("shared-1", "--to", "kubernetes", code=1)
    assert stays["phase"] == "stopped"
    for said in (stays["text"], pool.tidepool("why", "node", "shared-1")):
        assert "no other controller answers" in said, said
    assert (in_charge(pool), pool.role_of("shared-1")) == ("shared-1", "slurm")
    assert pool.nodes()["shared-1"].state.is_draining is False
    assert services(pool, "shared-1")["slurmctld"][0] == "up"
    # Another machine of the pool goes nevertheless.
    pool.convert("shared-2", "--to", "kubernetes")
    pool.convert("shared-2", "--to", "slurm")
    # `down` would end the one that knows of all jobs, and says so; started again as is told, ctl stands by.
    said = pool.refused("down", "--yes")
    assert "no other controller answers" in said
    assert "`tidepool down --force` takes down regardless" in said
    pool.up()
    (told,) = [
        each for each in json.loads(pool.tidepool("status", "--json"))["problems"] if "ended" in each["what"]
    ]
    assert pool.on("ctl", "sh", "-c", told["remedy"].split("'")[1]).exit_code == 0
    until(lambda: services(pool, "ctl")["slurmctld"][0] == "up" or None, "ctl stands by")


def test_one_that_is_killed_is_there_again_at_once(pool: PoolCluster) -> None:
    assert pool.signal("shared-1", "slurmctld", 9)
    until(lambda: services(pool, "shared-1")["slurmctld"][0] == "up" or None, "it is started again", 60)
    until(lambda: in_charge(pool) == "shared-1" or None, "shared-1 is in charge")


def test_by_force_all_goes_though_no_other_controller_answers(pool: PoolCluster) -> None:
    pool.on("ctl", "pkill", "-TERM", "-x", "slurmctld")
    until(lambda: services(pool, "ctl")["slurmctld"][0] == "ended" or None, "ctl does not answer")
    pool.until_job(pool.submit("sleep 600", more=("--nodelist=shared-1",)), JobState.RUNNING)
    pool.tidepool("down", "--yes", "--force")


def answering(pool: PoolCluster) -> frozenset[str]:
    """Those that run slurmctld, in charge or standing by."""
    with pool.slurm() as slurm:
        return frozenset(each.host for each in slurm.ping() if each.is_up)
