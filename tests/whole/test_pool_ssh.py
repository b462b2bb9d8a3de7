"""A converged pool of existing hosts: they are Slurm's and Kubernetes' in turns, and given back as they were.

The control planes are of this machine. The hosts are in their network, have their own sshd, packages and people, and systemd as
their first process (`tests.infrastructures.kernel_vm`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.golden import golden_store
from tests.infrastructures.local.stacks import Stack
from tests.playbooks.hosts import SYSTEMD, Host, Site, bare_image, site
from tests.playbooks.looks import differences, look
from tests.toolchain import needs_kubernetes
from tests.whole.cluster import LONG_S, summary
from tests.whole.pools import PoolCluster, spec
from tidepool import toolchain
from tidepool.clients.slurm import JobState
from tidepool.cluster.boot import Mount
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.kubernetes_access import NoAccess
from tidepool.infrastructures.ssh.machines import machines_of

IMAGE = "debian-12-converged"
UP_S = 900.0

pytestmark = [
    pytest.mark.slow,
    needs_kubernetes,
    pytest.mark.runs(
        "ssh",
        versions.slurm(IMAGE),
        versions.built(toolchain.KUBERNETES),
        "hosts of Debian 12 on this kernel that systemd starts",
        versions.installed("ansible-core"),
    ),
]


@dataclass
class Hosts:
    """A cluster of this machine, and a site with two hosts in its network; ``later`` is what its spec has of a pool of those."""

    cluster: PoolCluster
    site: Site
    later: dict[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> dict[str, Any]:
        return {
            "hosts": {host.name: {"address": "127.0.0.1", "port": host.port} for host in self.site.hosts},
            "user": "admin",
            "key": str(self.site.key),
            "known_hosts": str(self.site.known_hosts),
            "volumes": {"home": "/srv/home"},
        }

    def join(self) -> None:
        self.cluster.spec |= {**self.later, "infrastructures": {"ssh": self.place}}

    def leave(self) -> None:
        for key in (*self.later, "infrastructures"):
            self.cluster.spec.pop(key, None)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    wanted = spec(2, image=IMAGE, infrastructure="ssh", deadline_s=600)
    later = {key: wanted.pop(key) for key in ("pools", "kubernetes")}
    store = golden_store("debian-12", IMAGE)
    cluster = PoolCluster.make(tmp_path / "cluster", store, f"t{uuid.uuid4().hex[:8]}", **wanted)
    try:
        cluster.up()
        stack = Stack(cluster.data, cluster.stack, bare_image(SYSTEMD))
        homes = Mount(str(cluster.data / cluster.stack / "volumes" / "home"), "/srv/home", read_only=False)
        addresses = {"alpha": "10.78.9.11", "beta": "10.78.9.12"}
        with site(stack, tmp_path, addresses, homes, systemd=True) as there:
            it = Hosts(cluster, there, later)
            try:
                yield it
            finally:
                if "pools" in cluster.spec:
                    # While they can be given back, whatever came of the test.
                    with suppress(NoAccess):
                        cluster.clear()
                    it.leave()
                    cluster.up(timeout_s=UP_S)
    finally:
        cluster.down()


def programs(host: Host) -> set[str]:
    """Those of a role that run there."""
    of_roles = {"munged", "slurmd", "containerd", "kubelet"}
    return set(host.run("ps", "-e", "-o", "comm=").split()) & of_roles


def test_hosts_of_a_site_move_both_ways_and_are_given_back_as_they_were(hosts: Hosts) -> None:
    cluster, (alpha, beta) = hosts.cluster, hosts.site.hosts
    before = {host.name: look(host) for host in hosts.site.hosts}

    # Somebody's own containers, which would be broken.
    alpha.run("mkdir", "-p", "/var/lib/containerd/theirs")
    hosts.join()
    said = " ".join(cluster.refused("preview").split())
    assert "pools[0].infrastructure.options.hosts: the host alpha: it has /var/lib/containerd" in said
    alpha.run("rm", "-r", "/var/lib/containerd/theirs")

    cluster.up(timeout_s=UP_S)
    assert set(summary(cluster.up("--json", timeout_s=UP_S))["changes"]) == {"same"}
    one, two = cluster.names
    assert [cluster.role_of(node) for node in (one, two)] == ["slurm", "slurm"]
    assert programs(alpha) == {"munged", "slurmd"}
    assert alpha.run("cat", "/proc/sys/kernel/hostname").strip() == "alpha"
    job = cluster.submit("sleep 15; hostname", output="where.out", nodes=2)
    cluster.until_job(job, JobState.RUNNING, timeout_s=LONG_S)

    (moved,) = cluster.convert(one, "--to", "kubernetes")
    assert moved["phase"] == "done"
    assert cluster.job(job).state is JobState.COMPLETED
    assert cluster.on("login-1", "cat", "/home/researcher/where.out").stdout.strip() == one
    assert (cluster.role_of(one), programs(alpha)) == ("kubernetes", {"containerd", "kubelet"})
    assert alpha.run("ls", "-A", "/etc/munge") == ""
    cluster.pod("stays")
    assert cluster.until_pod("stays", "Running", timeout_s=LONG_S).node == one

    (moved,) = cluster.convert(one, "--to", "slurm", "--force")
    assert moved["phase"] == "done"
    assert (cluster.role_of(one), programs(alpha)) == ("slurm", {"munged", "slurmd"})
    assert alpha.run("ls", "-A", "/var/lib/kubelet") == ""
    job = cluster.submit("true", nodes=2)
    cluster.until_job(job, JobState.COMPLETED, timeout_s=LONG_S)
    # One is given back with all that runs there, as where no state knows of it.
    cluster.to("kubernetes", two)
    cluster.pod("left")
    assert cluster.until_pod("left", "Running", timeout_s=LONG_S).node == two
    machines = machines_of(ClusterSpec.model_validate(cluster.spec), cluster.stack, cluster.data)
    (there,) = (each.key for each in machines.list(cluster.stack) if each.key.node == two)
    machines.delete(there)
    assert differences(before["beta"], look(beta)) == {}

    cluster.clear()
    hosts.leave()
    cluster.write_spec()
    assert "given back, but" not in cluster.tidepool("up", "--yes", timeout_s=UP_S)
    assert differences(before["alpha"], look(alpha)) == {}
