"""A converged pool at CloudStack: its VMs are Slurm's and Kubernetes' in turns, the control planes are of this machine.

The API is the stand-in; behind each VM is a machine of this kernel, started by its own systemd and told by its own cloud-init
(`tests.infrastructures.kernel_vm`).
"""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import versions
from tests.golden import golden_store
from tests.infrastructures.cloudstack.kernel_cloud import TEMPLATE, KernelCloud, kernel_cloud
from tests.infrastructures.cloudstack.server import KEY, SECRET
from tests.toolchain import needs_kubernetes
from tests.whole.cluster import LONG_S, SPEC
from tests.whole.pools import PoolCluster, spec
from tidepool import toolchain
from tidepool.clients.slurm import JobState
from tidepool.cluster.names import CLUSTER_NETWORK
from tidepool.infrastructures.local import kernel

IMAGE = "debian-12-cloud-converged"
UP_S = 600.0

pytestmark = [
    pytest.mark.slow,
    needs_kubernetes,
    pytest.mark.runs(
        "cloudstack",
        versions.installed("cs"),
        "a stand-in of the tests' for CloudStack, with machines of this kernel that systemd starts",
        versions.slurm(IMAGE),
        versions.built(toolchain.KUBERNETES),
    ),
]


@dataclass
class AtCloudStack(PoolCluster):
    """With somebody's keys for the API."""

    url: str = ""

    @property
    def environment(self) -> dict[str, str]:
        keys = {"CLOUDSTACK_ENDPOINT": self.url, "CLOUDSTACK_KEY": KEY, "CLOUDSTACK_SECRET": SECRET}
        return {**super().environment, **keys}


@pytest.fixture
def pool(images: Path, tmp_path: Path) -> Iterator[AtCloudStack]:
    """A cluster of this machine with a VM in its pool, on one network with it, as by a VPN to the zone."""
    wanted = spec(1, image=IMAGE, deadline_s=600)
    later = {key: wanted.pop(key) for key in ("pools", "kubernetes")}
    store = golden_store("debian-12", IMAGE)
    cluster = AtCloudStack.make(tmp_path / "cluster", store, f"t{uuid.uuid4().hex[:8]}", **wanted)
    try:
        cluster.up()
        exports = cluster.data / cluster.stack / "volumes"
        with kernel_cloud(tmp_path / "cloud", SPEC["network"], IMAGE, exports) as zone:
            joined(cluster, zone)
            cluster.through, cluster.url = zone.prefix, zone.url
            place = {
                "endpoint": zone.url,
                "zone": zone.cloud.zone["name"],
                "template": TEMPLATE,
                "volumes": {"home": "10.9.0.1:/home"},
            }
            cluster.spec |= {**later, "infrastructures": {"cloudstack": place}}
            cluster.spec["pools"][0]["infrastructure"] = "cloudstack"
            cluster.up(timeout_s=UP_S)
            try:
                yield cluster
            finally:
                cluster.down(UP_S)
            assert zone.there() == {}
    finally:
        cluster.through = ()
        cluster.down()


def joined(cluster: PoolCluster, zone: KernelCloud) -> None:
    """Make one network of the cluster's and the zone's."""
    own = kernel.read_network(cluster.data, cluster.stack, CLUSTER_NETWORK)
    assert own is not None
    ends = ("type", "veth", "peer", "name", "zone", "netns", str(own.pid))
    subprocess.run([*zone.prefix, "ip", "link", "add", "site", *ends], check=True)
    for prefix, name in ((zone.prefix, "site"), (own.prefix, "zone")):
        subprocess.run([*prefix, "ip", "link", "set", name, "master", "switch", "up"], check=True)


def programs(pool: PoolCluster, node: str) -> set[str]:
    """Those of a role that run there."""
    of_roles = {"munged", "slurmd", "containerd", "kubelet"}
    return set(pool.tidepool("exec", node, "--", "ps", "-e", "-o", "comm=").split()) & of_roles


def test_a_vm_of_a_cloud_moves_both_ways_when_its_job_has_ended_and_back_from_a_pod(
    pool: AtCloudStack,
) -> None:
    (node,) = pool.names
    assert (pool.role_of(node), programs(pool, node)) == ("slurm", {"munged", "slurmd"})
    job = pool.submit("sleep 15; uname --nodename", output="where.out")
    pool.until_job(job, JobState.RUNNING, timeout_s=LONG_S)

    (moved,) = pool.convert(node, "--to", "kubernetes")
    assert moved["phase"] == "done"
    assert pool.job(job).state is JobState.COMPLETED
    assert pool.on("login-1", "cat", "/home/researcher/where.out").stdout.strip() == node
    assert (pool.role_of(node), programs(pool, node)) == ("kubernetes", {"containerd", "kubelet"})
    assert pool.tidepool("exec", node, "--", "ls", "-A", "/etc/munge") == ""
    pool.pod("stays")
    assert pool.until_pod("stays", "Running", timeout_s=LONG_S).node == node

    (moved,) = pool.convert(node, "--to", "slurm", "--force")
    assert moved["phase"] == "done"
    assert (pool.role_of(node), programs(pool, node)) == ("slurm", {"munged", "slurmd"})
    job = pool.submit("true")
    pool.until_job(job, JobState.COMPLETED, timeout_s=LONG_S)
