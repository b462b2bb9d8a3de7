"""The project's own stack of Kubernetes, whole: its machines are pods of real kubelets, by a real API server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.serving import search_path
from tests.toolchain import needs_kubernetes
from tests.whole.cluster import summary
from tests.whole.elsewhere import Elsewhere, example
from tests.whole.pods import CLASS, Ground, a_ground
from tidepool.clients.kubernetes.objects import Pod
from tidepool.clients.slurm import JobState

pytestmark = [pytest.mark.slow, needs_kubernetes]

SPEC = example("kubernetes")
NAMESPACE = SPEC["controller"]["infrastructure"]["options"]["namespace"]
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
    fleet["shape"] = {"cpus": 1, "memory": "256MiB"}
    fleet["infrastructures"][0]["options"]["overhead"] = "64MiB"
    return spec


def up(cluster: Elsewhere, *more: str) -> str:
    cluster.write_spec()
    return cluster.tidepool("up", "--yes", *more, timeout_s=UP_S)


def pods(ground: Ground) -> dict[str, Pod]:
    """Those of the stack, by name."""
    with ground.pool.kubernetes() as kubernetes:
        return {pod.name: pod for pod in kubernetes.pods_in(NAMESPACE)}


def test_a_whole_cluster_of_pods(cluster: Elsewhere, ground: Ground) -> None:
    cluster.write_spec()
    cluster.tidepool("preview", timeout_s=UP_S)
    assert pods(ground) == {}
    up(cluster)
    assert set(pods(ground)) == {"ctl", "login-1"}
    assert set(summary(up(cluster, "--json"))["changes"]) == {"same"}

    job = cluster.submit("srun hostname", nodes="2", output="where.out")
    cluster.tidepool("scale", "--once", timeout_s=UP_S)
    assert (
        cluster.until_job(job, JobState.COMPLETED, JobState.FAILED, timeout_s=120).state is JobState.COMPLETED
    )
    written = cluster.on("login-1", "cat", "/home/researcher/where.out").stdout
    assert sorted(written.split()) == ["cpu-1", "cpu-2"]

    cluster.tidepool("down", "--yes", "--force", "--purge", timeout_s=UP_S)
    with ground.pool.kubernetes() as kubernetes:
        assert kubernetes.namespace(NAMESPACE) is None
