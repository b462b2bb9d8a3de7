"""`tidepool down` leaves nothing outside of its data folder: this counts, over all of the machine."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests import versions
from tests.machine_faults import pull_plug
from tests.whole.cluster import Cluster
from tidepool.infrastructures.local import kernel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("the whole machine is counted"),
    pytest.mark.runs("local", versions.slurm()),
]

_KINDS = ("cgroup", "ipc", "mnt", "net", "pid", "uts")


def _everything(data: Path) -> Counter[str]:
    """Processes, mounts, namespaces, interfaces and control groups that have to do with a data folder."""
    found: Counter[str] = Counter()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            mounts = (folder / "mountinfo").read_text()
            if str(data) not in mounts:
                continue
            found["process"] += 1
            found.update(f"namespace {os.readlink(folder / 'ns' / kind)}" for kind in _KINDS)
        except OSError:
            continue
    found["mount"] = Path("/proc/self/mountinfo").read_text().count(str(data))
    links = json.loads(subprocess.run(["ip", "-json", "link"], capture_output=True, check=True).stdout)
    found.update(f"interface {link['ifname']}" for link in links)
    groups = kernel.layout.cgroup_of(data, "x", "machines").partition("-x/")[0]
    found["cgroup"] = sum(1 for path in Path("/sys/fs/cgroup").rglob(f"{groups}*"))
    return +found


def _files_outside(roots: tuple[str, ...]) -> set[str]:
    """What a cluster might leave where programs leave things."""
    return {str(path) for root in roots for path in Path(root).rglob("*") if not path.is_socket()}


def test_nothing_is_left_of_a_cluster(images: Path, tmp_path: Path) -> None:
    roots = (
        "/run",
        "/etc",
        "/var/spool",
        "/var/log",
        "/var/lib/munge",
        "/var/lib/slurm",
        "/root/.pulumi",
        "/root/.ssh",
    )
    cluster = Cluster.make(tmp_path, images, "left")
    before, files = _everything(cluster.data), _files_outside(roots)
    try:
        cluster.up()
        during = _everything(cluster.data)
        assert during["process"] > 8, during
        assert during["cgroup"] > 4, during
    finally:
        cluster.tidepool("down", "--yes")
    assert _everything(cluster.data) == before
    assert _files_outside(roots) - files == set()
    # What people have at home is kept, and said so; it goes when that is asked for.
    kept = cluster.tidepool("down", "--yes", "--purge")
    assert not (cluster.data / cluster.stack).exists(), kept


def test_down_again_and_down_of_half_a_cluster_end_well(images: Path, tmp_path: Path) -> None:
    cluster = Cluster.make(tmp_path, images, "half")
    before = _everything(cluster.data)
    cluster.up()
    kernel.delete_machine(cluster.data, cluster.stack, "cpu-1")
    pull_plug(cluster.data, cluster.stack, "cpu-2")
    pull_plug(cluster.data, cluster.stack, "ctl")
    cluster.tidepool("down", "--yes", "--force")
    cluster.tidepool("down", "--yes", "--purge")
    assert _everything(cluster.data) == before


def test_down_is_refused_while_jobs_run_unless_it_is_forced(images: Path, tmp_path: Path) -> None:
    cluster = Cluster.make(tmp_path, images, "busy")
    cluster.up()
    try:
        job = cluster.submit("sleep 600", memory_mib=50)
        said = cluster.refused("down", "--yes")
        assert str(job) in said, said
        assert cluster.idle() or cluster.nodes()
        # Nor does it go while nobody can say which jobs would be lost. Without its files slurmctld does not start.
        assert (
            cluster.on("ctl", "sh", "-c", "rm /etc/slurm/slurm.conf; pkill -KILL -x slurmctld").exit_code == 0
        )
        said = cluster.refused("down", "--yes")
        assert "Slurm cannot be asked whether jobs run" in said, said
        done = cluster.run("down", "--yes", "--force")
        assert done.returncode == 0, done.stderr
        assert "it is not known which are lost" in done.stderr
    finally:
        cluster.down()
