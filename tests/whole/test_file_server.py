"""The cluster's own file server: a kernel with a client of NFS, in the cluster's network, has what jobs write, and no other one has."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.golden import golden_store
from tests.uml import run_in_kernel
from tests.whole.cluster import Cluster
from tests.whole.conftest import a_cluster
from tidepool.clients.slurm import JobState
from tidepool.cluster.names import CLUSTER_NETWORK
from tidepool.infrastructures.local import kernel

pytestmark = pytest.mark.slow

_CLIENT = """
modules("nfsv4")
must("ip", "link", "set", "lo", "up")
must("ip", "address", "add", "{address}", "dev", "vec0")
must("ip", "link", "set", "vec0", "up")
os.mkdir("/mnt/h")
mounted = run("mount", "-t", "nfs4", "-o", "vers=4.2,hard,proto=tcp,retry=0", "10.78.0.5:/home", "/mnt/h")
say(mounted=mounted[0], read=run("cat", "/mnt/h/researcher/result", uid=2000), root=run("ls", "/mnt/h/researcher")[0])
say(wrote=run("sh", "-c", "echo from outside >/mnt/h/researcher/input", uid=2000))
"""


def client(cluster: Cluster, folder: Path, address: str) -> Any:
    """A kernel with a cable in the cluster's switch."""
    network = kernel.read_network(cluster.data, cluster.stack, CLUSTER_NETWORK)
    assert network is not None
    folder.mkdir()
    for words in (
        ("tuntap", "add", "tap-test", "mode", "tap"),
        ("link", "set", "tap-test", "master", "switch", "up"),
    ):
        subprocess.run([*network.prefix, "ip", *words], check=True)
    try:
        said = run_in_kernel(
            folder,
            _CLIENT.format(address=address),
            options=["vec0:transport=tap,ifname=tap-test,depth=64"],
            prefix=network.prefix,
        )
    finally:
        subprocess.run([*network.prefix, "ip", "link", "delete", "tap-test"], check=True)
    return {key: value for each in said for key, value in each.items()}


def test_who_mounts_it_has_what_jobs_write(images: Path, tmp_path: Path) -> None:
    golden_store("debian-12-nfs")
    files = {"file_server": {"shape": {"cpus": 1, "memory": "512MiB"}}, "home": {"quota": "1GiB"}}
    with a_cluster(tmp_path / "cluster", images, **files) as cluster:
        cluster.until_job(cluster.submit("echo of a job >result"), JobState.COMPLETED)
        node = client(cluster, tmp_path / "node", "10.78.200.1/16")
        assert (node["mounted"], node["read"][1]) == (0, "of a job\n"), cluster.tidepool("logs", "nfs")
        assert node["root"] != 0, "root of a machine that is none of the cluster's own is nobody"
        job = cluster.submit("cat input >copied; cat copied")
        cluster.until_job(job, JobState.COMPLETED)
        assert cluster.on("login-1", "cat", "/home/researcher/copied").stdout == "from outside\n"
        assert "researcher" in cluster.tidepool("quota")
        assert "nfs" in cluster.tidepool("status", "--all")
