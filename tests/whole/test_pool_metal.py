"""Converged pools on bare metal: hosts are Slurm's and Kubernetes' in turns, the control planes are of this machine.

BMCs are sushy-tools'; behind each host is a machine of this kernel, started by its image's own systemd (`tests.infrastructures.kernel_vm`).
Of the second pool each role has an image of its own, which is another operating system.
"""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.golden import golden_store
from tests.infrastructures.metal.bmcs import PASSWORD, ROOT, USER
from tests.infrastructures.metal.kernel_hosts import KernelHosts, kernel_hosts
from tests.toolchain import needs_kubernetes
from tests.whole.breathing import scale_until
from tests.whole.cluster import LONG_S, SPEC, summary
from tests.whole.pools import POOL, PoolCluster, spec
from tidepool import toolchain
from tidepool.clients.slurm import JobState
from tidepool.cluster.names import CLUSTER_NETWORK
from tidepool.infrastructures.local import kernel
from tidepool.infrastructures.metal.inventory import Claim

IMAGE, KUBERNETES_IMAGE = "debian-12-vm-converged", "debian-13-vm-kubernetes"
#: The pool whose roles have an image each.
MIXED = "mixed"
UP_S = 600.0
SLURMS, KUBERNETES = {"munged", "slurmd"}, {"containerd", "kubelet"}

pytestmark = [
    pytest.mark.slow,
    needs_kubernetes,
    pytest.mark.runs(
        "metal",
        versions.installed("sushy"),
        "Redfish of "
        + versions.installed("sushy-tools")
        + " with machines of this kernel that systemd starts",
        versions.slurm(IMAGE),
        versions.built(toolchain.KUBERNETES),
    ),
]


@dataclass
class OnMetal(PoolCluster):
    """Hosts behind BMCs."""

    site: KernelHosts | None = None

    @property
    def hosts(self) -> KernelHosts:
        assert self.site is not None
        return self.site

    def host(self, node: str) -> str:
        """Which host a machine is, by its AssetTag."""
        claims = {name: Claim.read(tag) for name, tag in self.hosts.bmcs.tags.items()}
        (found,) = (name for name, claim in claims.items() if claim and claim.node == node)
        return found

    def boots(self, node: str) -> int:
        """How often its host was switched on."""
        resets: list[str] = self.hosts.bmcs.system(self.host(node))["resets"]
        return resets.count("On")

    def cut_power(self, node: str) -> None:
        host = self.host(node)
        self.hosts.power(host, "Off")
        self.hosts.bmcs.change(host, power_state="Off")

    def programs(self, node: str) -> set[str]:
        """Those of a role that run there."""
        return {*self.tidepool("exec", node, "--", "ps", "-e", "-o", "comm=").split()} & (SLURMS | KUBERNETES)

    def system(self, node: str) -> str:
        """The release of Debian that the machine runs."""
        return self.tidepool("exec", node, "--", "sh", "-c", '. /etc/os-release; echo "$VERSION_ID"').strip()


@pytest.fixture(scope="module")
def pool(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnMetal]:
    """A cluster of this machine with a pool of two hosts, and one of a host, on one network with it."""
    folder = tmp_path_factory.mktemp("pool")
    store = golden_store("debian-12", IMAGE, KUBERNETES_IMAGE)
    wanted = spec(2, image=IMAGE, deadline_s=600)
    mixed = {
        "name": MIXED,
        "subnet": "10.78.3.0/24",
        "machines": 1,
        "images": {"kubernetes": KUBERNETES_IMAGE},
    }
    wanted["pools"].append({**wanted["pools"][0], **mixed})
    later = {key: wanted.pop(key) for key in ("pools", "kubernetes")}
    cluster = OnMetal.make(folder / "cluster", store, f"t{uuid.uuid4().hex[:8]}", **wanted)
    try:
        cluster.up()
        exports = cluster.data / cluster.stack / "volumes"
        names = ("alpha", "beta", "gamma")
        site: dict[str, Any] = {
            "images": (IMAGE, KUBERNETES_IMAGE),
            "exports": exports,
            "address": "10.78.255.250",
        }
        with (
            kernel_hosts(folder / "site", SPEC["network"], *names, **site) as hosts,
            hosts.serving(cluster.data),
        ):
            joined(cluster, hosts)
            cluster.through, cluster.site = hosts.prefix, hosts
            cluster.spec |= {**later, "infrastructures": {"metal": place(hosts, folder / "bmc")}}
            for each in cluster.spec["pools"]:
                each["infrastructure"] = "metal"
            cluster.up(timeout_s=UP_S)
            try:
                yield cluster
            finally:
                cluster.down(UP_S)
            assert (hosts.on(), {*hosts.bmcs.tags.values()}) == (set(), {""})
    finally:
        cluster.through = ()
        cluster.down()


def place(hosts: KernelHosts, credentials: Path) -> dict[str, Any]:
    """What a spec says of the hosts."""
    credentials.write_text(f"{USER}:{PASSWORD}\n")
    credentials.chmod(0o600)
    bmcs = hosts.bmcs
    return {
        "hosts": {
            name: {"bmc": bmcs.url, "system": ROOT + name, "mac": bmcs.entry(name).mac} for name in bmcs.tags
        },
        "credentials": str(credentials),
        "boot_service": hosts.boot_service,
        "volumes": {"home": "10.9.0.1:/home"},
    }


def joined(cluster: PoolCluster, hosts: KernelHosts) -> None:
    """Make one network of the cluster's and the site's."""
    own = kernel.read_network(cluster.data, cluster.stack, CLUSTER_NETWORK)
    assert own is not None
    ends = ("type", "veth", "peer", "name", "metal", "netns", str(own.pid))
    subprocess.run([*hosts.prefix, "ip", "link", "add", "site", *ends], check=True)
    for prefix, name in ((hosts.prefix, "site"), (own.prefix, "metal")):
        subprocess.run([*prefix, "ip", "link", "set", name, "master", "switch", "up"], check=True)


def changes(pool: OnMetal, *words: str) -> set[str]:
    """What an `up` does to the resources that there are, after it has looked at them."""
    return set(summary(pool.up("--json", *words, timeout_s=UP_S))["changes"]) - {"refresh"}


def on(node: str) -> tuple[str, ...]:
    return (f"--nodelist={node}",)


def test_a_host_moves_both_ways_when_its_job_has_ended_and_back_from_a_pod(pool: OnMetal) -> None:
    node, beside = f"{POOL}-1", f"{POOL}-2"
    assert (pool.role_of(node), pool.programs(node)) == ("slurm", SLURMS)
    job = pool.submit("sleep 15; uname --nodename", output="where.out", more=on(node))
    stays = pool.submit("sleep 1000", more=on(beside))
    pool.until_job(job, JobState.RUNNING, timeout_s=LONG_S)

    (moved,) = pool.convert(node, "--to", "kubernetes")
    assert moved["phase"] == "done"
    assert pool.job(job).state is JobState.COMPLETED
    assert pool.on("login-1", "cat", "/home/researcher/where.out").stdout.strip() == node
    assert (pool.role_of(node), pool.programs(node)) == ("kubernetes", KUBERNETES)
    assert pool.tidepool("exec", node, "--", "ls", "-A", "/etc/munge") == ""
    pool.pod("stays")
    assert pool.until_pod("stays", "Running", timeout_s=LONG_S).node == node
    assert (
        pool.tidepool("exec", node, "--", "findmnt", "-no", "FSTYPE", "/var/lib/containerd").strip()
        == "tmpfs"
    )

    (moved,) = pool.convert(node, "--to", "slurm", "--force")
    assert moved["phase"] == "done"
    assert (pool.role_of(node), pool.programs(node)) == ("slurm", SLURMS)
    pool.until_job(pool.submit("true", more=on(node)), JobState.COMPLETED, timeout_s=LONG_S)
    # All of it without a boot, and beside a job of the other host.
    assert (pool.boots(node), pool.job(stays).state) == (1, JobState.RUNNING)
    pool.clear()


def test_a_host_that_is_off_has_no_role_and_is_booted_with_the_one_that_it_is_to_have(pool: OnMetal) -> None:
    node = f"{POOL}-2"
    host, was = pool.host(node), pool.boots(node)
    pool.cut_power(node)
    (moved,) = pool.convert(node, "--to", "kubernetes")
    assert moved["phase"] == "done"
    assert (pool.host(node), pool.boots(node)) == (host, was + 1)
    assert (pool.role_of(node), pool.programs(node)) == ("kubernetes", KUBERNETES)

    # It is off once more, and nobody orders anything: the scaler has it be what it was.
    pool.cut_power(node)
    has_ended = lambda: (it := pool.last(node)).order.by == "scaler" and it.ended is not None  # noqa: E731
    scale_until(pool, has_ended, "the scaler has given it its role", UP_S)
    assert (pool.last(node).phase, pool.last(node).leaves) == ("done", None)
    assert (pool.host(node), pool.boots(node)) == (host, was + 2)
    assert (pool.role_of(node), pool.programs(node)) == ("kubernetes", KUBERNETES)
    pool.to("slurm", node)


def test_a_host_is_made_anew_from_the_image_of_each_role(pool: OnMetal) -> None:
    node = f"{MIXED}-1"
    assert (pool.role_of(node), pool.system(node)) == ("slurm", "12")
    (moved,) = pool.convert(node, "--to", "kubernetes")
    assert moved["phase"] == "done"
    assert (pool.role_of(node), pool.programs(node), pool.system(node)) == ("kubernetes", KUBERNETES, "13")
    pool.pod("stays-there", pool=MIXED)
    assert pool.until_pod("stays-there", "Running", timeout_s=LONG_S).node == node
    # To Pulumi it is the machine that it was.
    assert changes(pool, "--refresh") == {"same"}

    # Its power goes: an `up` has it be the same again, and finds nothing to do then.
    pool.cut_power(node)
    assert "update" in changes(pool, "--refresh")
    assert (pool.role_of(node), pool.programs(node), pool.system(node)) == ("kubernetes", KUBERNETES, "13")
    assert changes(pool, "--refresh") == {"same"}

    pool.to("slurm", node)
    assert (pool.role_of(node), pool.programs(node), pool.system(node)) == ("slurm", SLURMS, "12")
    pool.until_job(pool.submit("true", more=on(node)), JobState.COMPLETED, timeout_s=LONG_S)
    pool.clear()
