"""The project's own stack of Kubernetes, whole: its machines are pods of real kubelets, by a real API server.

One story: what a step leaves the next one begins with.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.machine_faults import pull_plug
from tests.plugins.serving import search_path
from tests.toolchain import needs_kubernetes
from tests.whole.breathing import launches, scale_until
from tests.whole.cluster import summary, until
from tests.whole.elsewhere import Elsewhere, example
from tests.whole.pods import CLASS, Ground, a_ground
from tests.whole.pools import ANY
from tidepool.clients.kubernetes.contract import EvictionRefused
from tidepool.clients.kubernetes.objects import Pod
from tidepool.clients.slurm import JobState
from tidepool.toolchain import KUBERNETES

pytestmark = [
    pytest.mark.slow,
    needs_kubernetes,
    pytest.mark.runs("kubernetes", versions.built(KUBERNETES), versions.slurm()),
]

SPEC = example("kubernetes")
NAMESPACE = SPEC["controller"]["infrastructure"]["options"]["namespace"]
OWN = {"ctl", "login-1"}
NODES = {"cpu-1", "cpu-2"}
#: As the page says of pods: what daemons need to become other users, and no more.
CAPABILITIES = "00000000200404fb"
#: Runs once more when its node is lost.
AGAIN = 'test -n "$SLURM_RESTART_COUNT" || sleep 600'
#: Longer than all pods may take to start on a busy machine.
UP_S = 600.0


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory, images: Path) -> Iterator[Ground]:
    with a_ground(tmp_path_factory.mktemp("ground"), IPv4Network(SPEC["network"])) as it:
        yield it


@pytest.fixture
def cluster(ground: Ground, images: Path, tmp_path: Path) -> Iterator[Elsewhere]:
    """The stack, which is not up yet; nothing is left of it afterwards, whatever came of the test."""
    it = Elsewhere.make(tmp_path, images, f"t{uuid.uuid4().hex[:8]}", **here(ground))
    it.through, it.path = ground.prefix, search_path(tmp_path / "plugins", "kubernetes")
    try:
        yield it
    finally:
        it.run("down", "--yes", "--force", "--purge", timeout_s=UP_S)


def here(ground: Ground) -> dict[str, Any]:
    """The project's spec, with what is of this machine: its Kubernetes and volumes, small machines, no registry."""
    spec = example("kubernetes")
    options = spec["controller"]["infrastructure"]["options"]
    options |= {
        "kubeconfig": str(ground.kubeconfig),
        "pull": "Never",
        "reached_from": [f"{ground.address}/32"],
        "volumes": {name: {"storage_class": CLASS, "size": "1Gi"} for name in options["volumes"]},
        "machines": {"overhead": "64MiB"},
    }
    del options["images"]
    spec["controller"]["shape"] = {"cpus": 1, "memory": "384MiB"}
    (fleet,) = spec["fleets"]
    fleet |= {"shape": {"cpus": 1, "memory": "256MiB"}, "idle_timeout_s": 1}
    fleet["infrastructures"][0]["options"]["overhead"] = "64MiB"
    # Slurm gives a node up soon, so that its job is free to run elsewhere.
    return {**spec, "slurm_conf": {"SlurmdTimeout": 10}}


def up(cluster: Elsewhere, *more: str) -> str:
    cluster.write_spec()
    return cluster.tidepool("up", "--yes", *more, timeout_s=UP_S)


def pods(ground: Ground) -> dict[str, Pod]:
    """Those of the stack, by name."""
    with ground.pool.kubernetes() as kubernetes:
        return {pod.name: pod for pod in kubernetes.pods_in(NAMESPACE)}


def scale(cluster: Elsewhere) -> None:
    """The scaler looks, decides and acts, once."""
    cluster.tidepool("scale", "--once", timeout_s=UP_S)


def changes(cluster: Elsewhere) -> set[str]:
    """All that `up` did, after it saw what is there."""
    return set(summary(up(cluster, "--json"))["changes"])


def test_a_cluster_of_pods_comes_up_grows_changes_outlives_its_nodes_and_goes(
    cluster: Elsewhere, ground: Ground
) -> None:
    cluster.write_spec()
    cluster.tidepool("preview", timeout_s=UP_S)
    assert pods(ground) == {}
    up(cluster)
    assert pods(ground).keys() == OWN
    assert changes(cluster) == {"same"}

    the_queue_brings_nodes_which_are_kept_while_they_run_jobs(cluster, ground)
    a_node_of_kubernetes_dies_and_its_pods_are_on_others(cluster, ground)
    a_pod_that_is_killed_is_made_again_and_its_job_runs_once_more(cluster, ground)
    another_shape_is_another_pod_of_the_same_name(cluster, ground)
    a_pod_that_somebody_deletes_goes_on_until_its_job_has_ended(cluster, ground)

    scale_until(cluster, lambda: pods(ground).keys() == OWN, "idle nodes are gone", UP_S)
    assert {row["infrastructure"] for row in launches(cluster)} == {"kubernetes"}
    assert changes(cluster) == {"same"}

    a_deletion_that_waits_for_a_job_holds_up_no_other(cluster, ground)
    cluster.tidepool("down", "--yes", "--force", "--purge", timeout_s=UP_S)
    with ground.pool.kubernetes() as kubernetes:
        assert kubernetes.namespace(NAMESPACE) is None


def the_queue_brings_nodes_which_are_kept_while_they_run_jobs(cluster: Elsewhere, ground: Ground) -> None:
    # A step on each, which ends when somebody says so in the home that all machines share.
    script = "srun sh -c 'hostname; until test -e go; do sleep 0.2; done'"
    job = cluster.submit(script, nodes="2", output="where.out")
    scale(cluster)
    cluster.until_job(job, JobState.RUNNING, timeout_s=120)
    assert pods(ground).keys() == OWN | NODES
    until(lambda: busy(ground) == 2 or None, "both pods count as busy", 60)
    with ground.pool.kubernetes() as kubernetes, pytest.raises(EvictionRefused, match="busy-cpu"):
        kubernetes.evict(pods(ground)["cpu-1"])
    said = cluster.on("cpu-1", "grep", "CapEff", "/proc/1/status").stdout
    assert said.split() == ["CapEff:", CAPABILITIES]
    cluster.on("login-1", "touch", "/home/researcher/go")
    cluster.until_job(job, JobState.COMPLETED, timeout_s=120)
    written = cluster.on("login-1", "cat", "/home/researcher/where.out").stdout
    assert set(written.split()) == NODES


def a_node_of_kubernetes_dies_and_its_pods_are_on_others(cluster: Elsewhere, ground: Ground) -> None:
    there = pods(ground)
    without_own = {pod.node for pod in there.values()} - {there[name].node for name in OWN}
    name, lost = min((name, there[name].node) for name in NODES if there[name].node in without_own)
    job = cluster.submit(AGAIN, more=(f"--nodelist={name}",))
    cluster.until_script(job, timeout_s=120)
    pull_plug(ground.pool.data, ground.pool.stack, lost)
    # Kubernetes cannot know that its pods have ended: an administrator says so.
    with ground.pool.kubernetes() as kubernetes:
        for pod in there.values():
            if pod.node == lost:
                kubernetes.delete_pod(pod, grace_s=0)
    with ground.pool.pods() as asked:
        asked.requests.delete(f"/api/v1/nodes/{lost}", ANY)
    cluster.until_job(job, JobState.PENDING, timeout_s=120)
    up(cluster)
    assert cluster.until_job(job, JobState.COMPLETED, timeout_s=180).restarts == 1
    after = pods(ground)
    assert (after.keys(), lost in {pod.node for pod in after.values()}) == (there.keys(), False)


def a_pod_that_is_killed_is_made_again_and_its_job_runs_once_more(cluster: Elsewhere, ground: Ground) -> None:
    job = cluster.submit(AGAIN, more=("--nodelist=cpu-2",))
    cluster.until_script(job, timeout_s=120)
    with ground.pool.kubernetes() as kubernetes:
        kubernetes.delete_pod(pods(ground)["cpu-2"], grace_s=0)
    assert "1 deleted" in cluster.refresh(UP_S)
    cluster.until_job(job, JobState.PENDING, timeout_s=120)
    up(cluster)
    assert cluster.until_job(job, JobState.COMPLETED, timeout_s=180).restarts == 1


def another_shape_is_another_pod_of_the_same_name(cluster: Elsewhere, ground: Ground) -> None:
    before = pods(ground)
    cluster.spec["fleets"][0]["shape"]["memory"] = "288MiB"
    up(cluster)
    after = pods(ground)
    kept = {name for name in after if name in before and after[name].uid == before[name].uid}
    assert (after.keys(), kept) == (before.keys(), OWN)
    assert set(cluster.idle()) == NODES
    assert {node.memory_mib for node in cluster.nodes().values()} == {288}


def a_pod_that_somebody_deletes_goes_on_until_its_job_has_ended(cluster: Elsewhere, ground: Ground) -> None:
    job = cluster.submit("until test -e gone; do sleep 0.2; done", more=("--nodelist=cpu-1",))
    cluster.until_script(job, timeout_s=120)
    with ground.pool.kubernetes() as kubernetes:
        kubernetes.delete_pod(pods(ground)["cpu-1"])
    assert "somebody else deletes machine cpu-1" in cluster.tidepool("status", timeout_s=UP_S)
    # The scaler has no more jobs come, and says why.
    scale_until(cluster, lambda: cluster.nodes()["cpu-1"].state.is_draining, "cpu-1 is drained", UP_S)
    reason = cluster.nodes()["cpu-1"].reason
    assert reason is not None
    assert "somebody else deletes its machine" in reason.text
    there = cluster.job(job)
    assert (there.state, there.restarts) == (JobState.RUNNING, 0)
    assert pods(ground)["cpu-1"].deleting_until is not None
    cluster.on("login-1", "touch", "/home/researcher/gone")
    assert cluster.until_job(job, JobState.COMPLETED, timeout_s=120).restarts == 0


def a_deletion_that_waits_for_a_job_holds_up_no_other(cluster: Elsewhere, ground: Ground) -> None:
    job = cluster.submit("sleep 3600")
    scale(cluster)
    node = cluster.until_script(job, timeout_s=120).nodelist
    with ground.pool.kubernetes() as kubernetes:
        kubernetes.delete_pod(pods(ground)[node])
    assert pods(ground)[node].deleting_until is not None


def busy(ground: Ground) -> int:
    """How many pods the fleet's budget counts as busy."""
    with ground.pool.pods() as asked:
        path = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/busy-cpu"
        counted: int = asked.requests.get(path, ANY).get("status", {}).get("currentHealthy", 0)
        return counted
