"""The spec changes while jobs run: they go on and start steps, and previews are true."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import versions
from tests.whole.cluster import Cluster, summary, until
from tests.whole.conftest import a_cluster
from tidepool.clients.slurm import JobState

pytestmark = [pytest.mark.slow, pytest.mark.runs("local", versions.slurm())]


@pytest.fixture(scope="module")
def busy(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, int]]:
    """A cluster with a job that starts steps until it is told to end, or one fails."""
    with a_cluster(tmp_path_factory.mktemp("busy"), images) as cluster:
        job = cluster.submit("while sleep 1; do srun true || exit 3; done", name="long", memory_mib=50)
        cluster.until_job(job, JobState.RUNNING)
        yield cluster, job


def _slurmctld(cluster: Cluster) -> str:
    return cluster.on("ctl", "cat", "/run/slurmctld.pid").stdout.strip()


def _up(cluster: Cluster, job: int, expected: dict[str, int], *, restarts: bool = False) -> None:
    """What `preview` says is what `up` does, and the job does not notice; nor does the controller, mostly."""
    before, pid = cluster.job(job), _slurmctld(cluster)
    cluster.write_spec()
    previewed = summary(cluster.tidepool("preview", "--json"))["changes"]
    done = summary(cluster.up("--json"))["changes"]
    assert previewed == done
    assert {kind: count for kind, count in done.items() if kind != "same"} == expected
    after = cluster.job(job)
    assert (after.state, after.start_time, after.nodelist, after.restarts) == (
        JobState.RUNNING,
        before.start_time,
        before.nodelist,
        0,
    )
    assert (_slurmctld(cluster) != pid) is restarts


def test_a_partition_is_changed_and_another_added(busy: tuple[Cluster, int]) -> None:
    cluster, job = busy
    cluster.spec["partitions"][0]["max_time"] = "2:00:00"
    cluster.spec["partitions"].append({"name": "short", "max_time": "10"})
    _up(cluster, job, {"update": 1})
    with cluster.slurm() as slurm:
        limits = {partition.name: partition.max_time_s for partition in slurm.partitions()}
    assert limits == {"main": 7200, "short": 600}


def test_a_feature_is_added_to_nodes_that_are_up(busy: tuple[Cluster, int]) -> None:
    cluster, job = busy
    cluster.spec["fleets"][0]["features"] = ["ib"]
    _up(cluster, job, {"update": 2}, restarts=True)  # the configuration, and the slots that Slurm has already
    assert {node.features for node in cluster.nodes().values()} == {("cpu", "ib")}
    asked = cluster.submit("hostname", features="ib", memory_mib=50)
    cluster.until_job(asked, JobState.COMPLETED)


def test_max_nodes_is_raised(busy: tuple[Cluster, int]) -> None:
    cluster, job = busy
    cluster.spec["fleets"][0]["max_nodes"] = 10
    _up(cluster, job, {"update": 2}, restarts=True)  # the configuration, and the slots
    with cluster.slurm() as slurm:
        assert len(slurm.nodes()) == 10


def test_a_fleet_is_added_and_refused_to_go_while_it_runs_a_job(busy: tuple[Cluster, int]) -> None:
    cluster, job = busy
    fleet = {"name": "big", "subnet": "10.78.2.0/24", "min_nodes": 1, "max_nodes": 2}
    cluster.spec["fleets"].append({**fleet, "shape": {"cpus": 4, "memory": "512MiB"}})
    cluster.spec["partitions"].append({"name": "big", "fleets": ["big"]})
    # The configuration; the fleet, what it boots with, its slots, a machine and its node.
    _up(cluster, job, {"update": 1, "create": 5}, restarts=True)
    its = cluster.submit("sleep 600", partition="big", memory_mib=50)
    cluster.until_job(its, JobState.RUNNING)

    del cluster.spec["fleets"][1], cluster.spec["partitions"][-1]
    for verb in (("preview",), ("up", "--yes")):
        said = cluster.refused(*verb)
        assert str(its) in said, said
        assert "big" in said
    assert cluster.job(its).state is JobState.RUNNING

    with cluster.slurm() as slurm:
        slurm.cancel(its)
    cluster.until_job(its, JobState.CANCELLED)
    _up(cluster, job, {"update": 1, "delete": 5}, restarts=True)
    assert set(cluster.nodes()) == {"cpu-1", "cpu-2"}


def test_more_nodes_join_and_the_job_does_not_notice(busy: tuple[Cluster, int]) -> None:
    cluster, job = busy
    cluster.spec["fleets"][0]["min_nodes"] = 4
    _up(cluster, job, {"create": 4})
    assert set(cluster.nodes()) == {"cpu-1", "cpu-2", "cpu-3", "cpu-4"}


def test_max_nodes_is_lowered_below_nodes_that_are_there(busy: tuple[Cluster, int]) -> None:
    """They stay until somebody drains them, and Slurm has them still."""
    cluster, job = busy
    cluster.spec["fleets"][0] |= {"min_nodes": 2, "max_nodes": 2}
    _up(cluster, job, {"update": 2}, restarts=True)
    assert set(cluster.nodes()) == {"cpu-1", "cpu-2", "cpu-3", "cpu-4"}
    with cluster.slurm() as slurm:
        assert {node.name for node in slurm.nodes()} == {"cpu-1", "cpu-2", "cpu-3", "cpu-4"}


def test_the_node_is_idle_once_the_job_has_ended(busy: tuple[Cluster, int]) -> None:
    """After all these changes, Slurm still counts right."""
    cluster, job = busy
    with cluster.slurm() as slurm:
        slurm.cancel(job)
    cluster.until_job(job, JobState.CANCELLED)
    until(lambda: set(cluster.idle()) == set(cluster.nodes()) or None, "all nodes are idle")
