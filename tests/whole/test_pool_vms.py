"""A converged pool whose machines have a system of their own: emulated VMs of libvirt, in turns Slurm's and Kubernetes'.

libvirtd runs in the namespace of the cluster's network, as in test_two_infrastructures; the control planes are of this machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import versions
from tests.infrastructures.libvirt.daemon import SOFTWARE, missing
from tests.toolchain import needs_kubernetes
from tests.whole.cluster import until
from tests.whole.pools import POOL, PoolCluster
from tests.whole.switching import kill_driver
from tests.whole.vms import BOOT_S, IMAGE, a_pool_of_vms
from tidepool import toolchain
from tidepool.clients.slurm import JobState

pytestmark = [
    pytest.mark.slow,
    needs_kubernetes,
    pytest.mark.skipif(bool(missing(file_server=True)), reason=missing(file_server=True)),
    pytest.mark.runs("libvirt", SOFTWARE, versions.slurm(IMAGE), versions.built(toolchain.KUBERNETES)),
]
SLURMS, KUBERNETES = {"munged", "slurmd"}, {"containerd", "kubelet"}


@pytest.fixture
def pool(images: Path, tmp_path: Path) -> Iterator[PoolCluster]:
    with a_pool_of_vms(tmp_path, 2) as it:
        yield it


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
