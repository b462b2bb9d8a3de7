"""Components as machines and daemons: people, gres, accounting, a backup that takes over, a shape that changes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.components.by_engine import ByEngine
from tests.infrastructures.local.stacks import Stack, left_of
from tests.machine_faults import pull_plug
from tests.whole.cluster import until
from tests.whole.conftest import images
from tidepool.clients.slurm import JobRequest, JobState, SlurmError
from tidepool.infrastructures.local import kernel

pytestmark = pytest.mark.slow

__all__ = ["images"]  # a fixture, which pytest finds here

FLEETS = [
    {
        "name": "cpu",
        "subnet": "10.78.1.0/24",
        "min_nodes": 2,
        "max_nodes": 8,
        "shape": {"cpus": 2, "memory": "256MiB"},
        "features": ["std"],
    },
    {
        "name": "gpu",
        "subnet": "10.78.2.0/24",
        "min_nodes": 1,
        "max_nodes": 2,
        "shape": {
            "cpus": 1,
            "memory": "256MiB",
            "gres": [{"name": "gpu", "type": "a100", "count": 2, "files": "/dev/nvidia[0-1]"}, "lic:3"],
        },
    },
]
CONTROLLER = {"shape": {"cpus": 1, "memory": "512MiB"}, "backup": True, "accounting": {}}
ALL_NODES = ["cpu-1", "cpu-2", "gpu-1"]


@contextmanager
def up(folder: Path, images: Path, **changes: Any) -> Iterator[ByEngine]:
    """A cluster that is up, of which nothing is left in the end."""
    cluster = ByEngine.make(folder, images, f"t{uuid.uuid4().hex[:8]}", **changes)
    cluster.write_spec()
    cluster.engine("stack init")
    try:
        cluster.up()
        yield cluster
    finally:
        try:
            cluster.down()
        finally:
            Stack(cluster.data, cluster.stack, images).delete_all()
    assert left_of(Stack(cluster.data, cluster.stack, images)) == []


@pytest.fixture(scope="module")
def cluster(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ByEngine]:
    """One for most tests, with all kinds of machines."""
    with up(tmp_path_factory.mktemp("components"), images, fleets=FLEETS, controller=CONTROLLER) as it:
        yield it


def saved(cluster: ByEngine) -> None:
    """Wait until slurmctld has written its state, which it does up to 5 s late."""
    states = [
        cluster.data / cluster.stack / "volumes" / "slurmctld" / f"{of}_state" for of in ("node", "job")
    ]
    began = time.time_ns()
    with cluster.slurm() as slurm:
        slurm.submit(JobRequest("#!/bin/sh\ntrue\n", output="/dev/null"))
    until(
        lambda: all(each.exists() and each.stat().st_mtime_ns > began for each in states) or None,
        "slurmctld saved its state",
    )


def test_all_nodes_are_idle_when_up_ends(cluster: ByEngine) -> None:
    assert cluster.idle() == ALL_NODES
    nodes = cluster.nodes()
    assert (nodes["cpu-1"].features, nodes["gpu-1"].features) == (("cpu", "std"), ("gpu",))


def test_a_person_submits_where_they_logged_in_and_reads_the_output_at_home(cluster: ByEngine) -> None:
    job = cluster.submit("srun hostname; id -un", nodes=2, output="out.txt")
    cluster.until_job(job, JobState.COMPLETED)
    said = cluster.on("login-1", "cat", "/home/researcher/out.txt").stdout.split()
    assert sorted(said) == ["cpu-1", "cpu-2", "researcher"]


def test_a_job_is_given_the_devices_of_its_gres(cluster: ByEngine) -> None:
    job = cluster.submit(
        'echo "$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"; test -c /dev/nvidia1',
        gres="gpu:a100:2,lic:1",
        output="gres.txt",
    )
    cluster.until_job(job, JobState.COMPLETED)
    assert cluster.on("login-1", "cat", "/home/researcher/gres.txt").stdout.split() == ["gpu-1", "0,1"]


def test_accounting_knows_the_cluster_and_its_jobs(cluster: ByEngine) -> None:
    clusters = cluster.on("ctl", "sacctmgr", "-nP", "show", "cluster", "format=cluster,controlhost").stdout
    assert clusters.split() == [f"{cluster.stack}|10.78.0.2"]
    job = cluster.submit("true")
    cluster.until_job(job, JobState.COMPLETED)

    def accounted() -> bool | None:
        said = cluster.on("login-1", "sacct", "-nXPj", str(job), "-o", "user,state").stdout.split()
        return True if said == ["researcher|COMPLETED"] else None

    until(accounted, "sacct tells of the job")


def test_nobody_but_slurm_reads_the_file_of_slurmdbd(cluster: ByEngine) -> None:
    found = cluster.on("dbd", "stat", "-c", "%a %U", "/etc/slurm/slurmdbd.conf", "/etc/munge/munge.key")
    assert found.stdout.splitlines() == ["600 slurm", "400 munge"]


def test_another_shape_is_other_slots_with_other_machines(cluster: ByEngine) -> None:
    cluster.spec["fleets"][1]["shape"]["memory"] = "300MiB"
    said = cluster.up()
    assert "3 replaced" in said, said
    assert cluster.idle() == ALL_NODES
    assert cluster.nodes()["gpu-1"].memory_mib == 300
    job = cluster.submit("true", gres="gpu:1", memory_mib=290)
    assert cluster.until_job(job, JobState.COMPLETED).nodelist == "gpu-1"


def test_the_backup_takes_over_with_all_jobs_and_gives_back(cluster: ByEngine) -> None:
    go_on = cluster.data / cluster.stack / "volumes" / "home" / "researcher" / "go-on"
    job = cluster.submit("until test -e go-on; do sleep 0.1; done")
    cluster.until_job(job, JobState.RUNNING)
    saved(cluster)
    pull_plug(cluster.data, cluster.stack, "ctl")

    def there() -> bool | None:
        try:
            return cluster.job(job).state is JobState.RUNNING or None
        except SlurmError:
            return None  # nobody is in charge yet

    until(there, "the backup tells of the job", 60)
    other = cluster.submit("hostname", output="other.txt")
    cluster.until_job(other, JobState.COMPLETED)

    cluster.up("--refresh")
    primary = "Slurmctld(primary) at ctl is UP"
    until(lambda: primary in cluster.on("login-1", "scontrol", "ping").stdout or None, primary)
    go_on.touch()
    assert cluster.until_job(job, JobState.COMPLETED).restarts == 0
    assert sorted(cluster.nodes()) == ALL_NODES


def test_machines_that_are_gone_from_outside_come_back_with_their_files(cluster: ByEngine) -> None:
    """All at once: the controllers' state is in a volume, and Slurm goes on with it."""
    saved(cluster)
    for machine in ("ctl", "ctlbackup", "login-1", "cpu-1"):
        kernel.delete_machine(cluster.data, cluster.stack, machine)
    cluster.up("--refresh")
    job = cluster.submit("true", nodes=2)  # as login-1 has slurm.conf again
    cluster.until_job(job, JobState.COMPLETED)
    until(lambda: cluster.idle() == ALL_NODES or None, "all nodes are idle")


def test_a_backup_and_accounting_go_and_come_while_jobs_run(cluster: ByEngine) -> None:
    job = cluster.submit("sleep 300", name="long")
    cluster.until_job(job, JobState.RUNNING)
    before = cluster.job(job)
    cluster.spec["controller"] = {"shape": CONTROLLER["shape"], "login_machines": 2}
    cluster.up()
    assert cluster.machines() == {"ctl", "login-1", "login-2", *ALL_NODES}
    assert cluster.job(job).start_time == before.start_time

    cluster.spec["controller"] = CONTROLLER
    cluster.up()
    assert cluster.machines() == {"ctl", "ctlbackup", "dbd", "login-1", *ALL_NODES}
    after = cluster.job(job)
    assert (after.state, after.start_time, after.restarts) == (JobState.RUNNING, before.start_time, 0)
    cluster.on("ctl", "scancel", str(job))
    cluster.until_job(job, JobState.CANCELLED)
    until(lambda: cluster.idle() == ALL_NODES or None, "its node is idle again")


def test_nodes_of_a_tree_outlive_a_restart_of_slurmctld_and_get_new_neighbours(
    images: Path, tmp_path: Path
) -> None:
    with up(tmp_path, images, topology="tree") as cluster:
        assert cluster.idle() == ["cpu-1", "cpu-2"]
        job = cluster.submit("sleep 300")
        cluster.until_job(job, JobState.RUNNING)
        # NodeName lines are read when slurmctld starts.
        cluster.spec["fleets"][0] |= {"max_nodes": 12, "min_nodes": 3}
        assert "slurmctld restarts" in cluster.up()
        assert sorted(cluster.nodes()) == ["cpu-1", "cpu-2", "cpu-3"]
        assert "Nodes=cpu-[1-12]" in cluster.on("ctl", "scontrol", "show", "topology").stdout
        assert cluster.job(job).restarts == 0
        cluster.until_job(job, JobState.RUNNING)
        cluster.on("ctl", "scancel", str(job))
        until(lambda: cluster.idle() == ["cpu-1", "cpu-2", "cpu-3"] or None, "all nodes are idle")
