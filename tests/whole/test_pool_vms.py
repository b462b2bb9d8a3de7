"""A converged pool whose machines have a system of their own: emulated VMs of libvirt, in turns Slurm's and Kubernetes'.

libvirtd runs in the namespace of the cluster's network, as in test_two_infrastructures; the control planes are of this machine.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.golden import golden_store
from tests.infrastructures.libvirt.daemon import SOFTWARE, Host, a_host, missing
from tests.plugins.serving import search_path
from tests.toolchain import needs_kubernetes
from tests.whole.cluster import SPEC, until
from tests.whole.pools import POOL, PoolCluster, spec
from tests.whole.switching import kill_driver
from tidepool import toolchain
from tidepool.clients.slurm import JobState
from tidepool.cluster.names import CLUSTER_NETWORK
from tidepool.infrastructures.libvirt.ask import output_of, virsh
from tidepool.infrastructures.local.kernel import read_network

IMAGE = "debian-12-vm-converged"
pytestmark = [
    pytest.mark.slow,
    needs_kubernetes,
    pytest.mark.skipif(bool(missing(file_server=True)), reason=missing(file_server=True)),
    pytest.mark.runs("libvirt", SOFTWARE, versions.slurm(IMAGE), versions.built(toolchain.KUBERNETES)),
]
#: By the clock, where the emulator gets hardly anything of the processors.
BOOT_S = 1200.0
SLURMS, KUBERNETES = {"munged", "slurmd"}, {"containerd", "kubelet"}


@pytest.fixture
def pool(images: Path, tmp_path: Path) -> Iterator[PoolCluster]:
    """A cluster of this machine, whose pool has two VMs on the cluster's bridge."""
    assert golden_store("debian-12", IMAGE) == images
    wanted = spec(2, image=IMAGE, deadline_s=600)
    later = {key: wanted.pop(key) for key in ("pools", "kubernetes")}
    cluster = PoolCluster.make(tmp_path / "cluster", images, f"t{uuid.uuid4().hex[:8]}", **wanted)
    try:
        cluster.up()
        with a_host_there(cluster, tmp_path) as host:
            cluster.spec |= {**later, "infrastructures": {"libvirt": place(host, tmp_path / "pool")}}
            emulated = {"virtualization": "qemu", "disk": "6GiB"}
            cluster.spec["pools"][0]["infrastructure"] = {"name": "libvirt", "options": emulated}
            cluster.up(timeout_s=BOOT_S)
            try:
                yield cluster
            finally:
                # As long as the host answers, and the network is there.
                cluster.down(BOOT_S)
            assert output_of(virsh, host.uri, "list", "--all", "--name").split() == []
    finally:
        cluster.through = ()
        cluster.down()


@contextmanager
def a_host_there(cluster: PoolCluster, folder: Path) -> Iterator[Host]:
    """A host with libvirt on the cluster's network, and the cluster's homes by NFS."""
    network = read_network(cluster.data, cluster.stack, CLUSTER_NETWORK)
    assert network is not None
    cluster.through, cluster.path = network.prefix, search_path(folder / "plugins", "libvirt")
    home = cluster.data / cluster.stack / "volumes" / "home"
    with a_host(folder / "host", network.prefix, {"home": home}) as host:
        yield host


def place(host: Host, folder: Path) -> dict[str, Any]:
    # The switch's address, where the file server listens: the network's last.
    home = f"{IPv4Network(SPEC['network'])[-2]}:/home"
    return {"hosts": {"here": host.uri}, "bridge": "switch", "pool": str(folder), "volumes": {"home": home}}


def everything(pool: PoolCluster, node: str) -> set[str]:
    """The programs that run there."""
    return set(pool.tidepool("exec", node, "--", "ps", "-e", "-o", "comm=").split())


def programs(pool: PoolCluster, node: str) -> set[str]:
    """Those of them that are of a role."""
    return everything(pool, node) & (SLURMS | KUBERNETES)


def move(pool: PoolCluster, role: str, *words: str) -> None:
    done = pool.run("convert", f"{POOL}-2", "--to", role, *words, "--json", timeout_s=BOOT_S)
    (moved,) = json.loads(done.stdout)
    assert moved["phase"] == "done", done


def test_a_machine_moves_both_ways_in_place_while_others_work(pool: PoolCluster) -> None:
    one, two = pool.names
    assert pool.roles() == {one: {"slurm"}, two: {"slurm"}}
    goes_on = submit(pool, "uname --kernel-release; sleep 3600", one)
    pool.until_job(goes_on, JobState.RUNNING, timeout_s=BOOT_S)

    # Its job is waited for.
    before = boot_id(pool, two)
    ends = submit(pool, "trap 'exit 0' USR1; while :; do sleep 0.5; done", two)
    pool.until_job(ends, JobState.RUNNING, timeout_s=BOOT_S)
    until(lambda: "slurm_script" in everything(pool, two) or None, "its script runs", BOOT_S, 1)
    with pool.converting(two, "--to", "kubernetes", timeout_s=BOOT_S):
        pool.until_phase(two, "emptying", timeout_s=BOOT_S)
        pool.on("login-1", "scancel", "--batch", "--signal=USR1", str(ends))
        kill_at(pool, two, "leaving")
    # Whoever is next goes on, from where nobody knows how far it came.
    with pool.converting(two, "--to", "kubernetes", timeout_s=BOOT_S):
        kill_at(pool, two, "joining")
    pool.up(timeout_s=BOOT_S)
    assert pool.last(two).phase == "done", pool.converting_said()
    assert pool.job(ends).state is JobState.COMPLETED
    assert (pool.role_of(two), programs(pool, two)) == ("kubernetes", KUBERNETES)
    # No credential of Slurm's is there any more.
    assert pool.run("exec", two, "--", "ls", "-A", "/etc/munge").stdout == ""
    pool.pod("once", 'uname -r; echo "$NODE"')
    assert pool.until_pod("once", "Succeeded", timeout_s=BOOT_S).node == two

    # Back, from a pod that does not end by itself.
    pool.pod("stays")
    pool.until_pod("stays", "Running", timeout_s=BOOT_S)
    move(pool, "slurm", "--force")
    assert (pool.role_of(two), programs(pool, two)) == ("slurm", SLURMS)
    job = submit(pool, "uname --kernel-release", two)
    assert pool.until_job(job, JobState.COMPLETED, timeout_s=BOOT_S).nodelist == two
    assert (boot_id(pool, two), pool.job(goes_on).state) == (before, JobState.RUNNING)
    kernel = pool.on("login-1", "cat", f"/home/researcher/slurm-{job}.out").stdout.strip()
    assert kernel != os.uname().release
    up = pool.run("up", "--yes", "--json", timeout_s=BOOT_S)
    assert '"update"' not in up.stdout, up.stdout


def kill_at(pool: PoolCluster, node: str, phase: str) -> None:
    """End who converts the machine, in the middle of a phase."""

    def killed() -> bool | None:
        going = pool.last(node)
        return (going.phase == phase and kill_driver(going)) or None

    until(killed, f"it is {phase}", BOOT_S)


def submit(pool: PoolCluster, script: str, node: str) -> int:
    return pool.submit(script, more=(f"--nodelist={node}",), output="slurm-%j.out")


def boot_id(pool: PoolCluster, node: str) -> str:
    return pool.tidepool("exec", node, "--", "cat", "/proc/sys/kernel/random/boot_id")
