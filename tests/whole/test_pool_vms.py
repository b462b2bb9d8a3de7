"""A converged pool whose machines have a system of their own: emulated VMs of libvirt, in turns Slurm's and Kubernetes'.

libvirtd runs in the namespace of the cluster's network, as in test_two_infrastructures; the control planes are of this machine.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Literal

import pytest

from tests import versions
from tests.infrastructures.libvirt.daemon import SOFTWARE, missing
from tests.toolchain import needs_kubernetes
from tests.whole.cluster import summary, until
from tests.whole.pools import POOL, PoolCluster
from tests.whole.switching import kill_driver
from tests.whole.vms import BOOT_S, IMAGE, MIXED, a_pool_of_vms
from tidepool import toolchain
from tidepool.clients.slurm import JobState
from tidepool.conversion.record import Conversion, Phase
from tidepool.conversion.report import rows
from tidepool.lab.results.store import Results

pytestmark = [
    pytest.mark.slow,
    needs_kubernetes,
    pytest.mark.skipif(bool(missing(file_server=True)), reason=missing(file_server=True)),
    pytest.mark.runs("libvirt", SOFTWARE, versions.slurm(IMAGE), versions.built(toolchain.KUBERNETES)),
]
SLURMS, KUBERNETES = {"munged", "slurmd"}, {"containerd", "kubelet"}


@pytest.fixture(scope="module")
def pool(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolCluster]:
    # Of two processors one waits for the other wherever the host has something else to do.
    with a_pool_of_vms(tmp_path_factory.mktemp("pool"), 1, by_image=1, cpus=1) as it:
        yield it


def everything(pool: PoolCluster, node: str) -> set[str]:
    """The programs that run there."""
    return set(pool.tidepool("exec", node, "--", "ps", "-e", "-o", "comm=").split())


def programs(pool: PoolCluster, node: str) -> set[str]:
    """Those of them that are of a role."""
    return everything(pool, node) & (SLURMS | KUBERNETES)


def move(pool: PoolCluster, node: str, role: str, *words: str) -> None:
    done = pool.run("convert", node, "--to", role, *words, "--json", timeout_s=BOOT_S)
    (moved,) = json.loads(done.stdout)
    assert moved["phase"] == "done", done


def test_a_machine_moves_both_ways_in_place_while_others_work(pool: PoolCluster) -> None:
    node, beside = f"{POOL}-1", f"{MIXED}-1"
    assert pool.roles() == {node: {"slurm"}, beside: {"slurm"}}
    goes_on = submit(pool, "sleep 3600", beside)
    pool.until_job(goes_on, JobState.RUNNING, timeout_s=BOOT_S)

    # Its job is waited for. Whoever carries it out is killed in each phase, and whoever is next goes on.
    before = boot_id(pool, node)
    ends = begun(pool, node)
    killed: set[Phase] = set()
    while phase := killed_once_more(pool, node, "kubernetes", killed):
        killed.add(phase)
        if phase == "emptying":
            end(pool, ends)
    assert killed >= {"emptying", "leaving", "joining"}
    assert pool.last(node).phase == "done", pool.converting_said()
    assert pool.job(ends).state is JobState.COMPLETED
    assert (pool.role_of(node), programs(pool, node)) == ("kubernetes", KUBERNETES)
    # No credential of Slurm's is there any more.
    assert pool.run("exec", node, "--", "ls", "-A", "/etc/munge").stdout == ""
    pool.pod("once", 'uname -r; echo "$NODE"')
    assert pool.until_pod("once", "Succeeded", timeout_s=BOOT_S).node == node

    # Back, from a pod that does not end by itself.
    pool.pod("stays")
    pool.until_pod("stays", "Running", timeout_s=BOOT_S)
    move(pool, node, "slurm", "--force")
    assert (pool.role_of(node), programs(pool, node)) == ("slurm", SLURMS)
    job = submit(pool, "uname --kernel-release", node)
    assert pool.until_job(job, JobState.COMPLETED, timeout_s=BOOT_S).nodelist == node
    assert (boot_id(pool, node), pool.job(goes_on).state) == (before, JobState.RUNNING)
    kernel = pool.on("login-1", "cat", f"/home/researcher/slurm-{job}.out").stdout.strip()
    assert kernel not in ("", os.uname().release)
    pool.on("login-1", "scancel", str(goes_on))


def test_a_machine_moves_both_ways_by_an_image_for_each_role(pool: PoolCluster) -> None:
    node = f"{MIXED}-1"
    was = boot_id(pool, node)
    assert system(pool, node) == "12"
    ends = begun(pool, node)
    # In the middle of the imaging, and again while it boots: the machine boots on.
    with pool.converting(node, "--to", "kubernetes", timeout_s=BOOT_S):
        pool.until_phase(node, "emptying", timeout_s=BOOT_S)
        end(pool, ends)
        kill_at(pool, node, lambda going: going.phase == "imaging")
    with pool.converting(node, "--to", "kubernetes", timeout_s=BOOT_S):
        kill_at(pool, node, lambda going: "imaging/imaged" in going.began)
    pool.up(timeout_s=BOOT_S)
    (row,) = rows([pool.last(node)])
    assert row.conversion.phase == "done", row.conversion
    assert row.steps["boot"] > 1
    assert pool.job(ends).state is JobState.COMPLETED
    # What it is called, and where it is, is as it was; what it is made of is not.
    assert (pool.role_of(node), programs(pool, node), system(pool, node)) == ("kubernetes", KUBERNETES, "13")
    assert boot_id(pool, node) != was
    assert pool.run("exec", node, "--", "sh", "-c", "uname -n; ls -A /etc/munge").stdout == f"{node}\n"
    pool.pod("stays-there", pool=MIXED)
    assert pool.until_pod("stays-there", "Running", timeout_s=BOOT_S).node == node

    # To Pulumi it is the machine that it was.
    assert changes(pool, "--refresh") == {"same"}
    move(pool, node, "slurm", "--force")
    assert (pool.role_of(node), programs(pool, node), system(pool, node)) == ("slurm", SLURMS, "12")
    assert pool.run("exec", node, "--", "sh", "-c", "ls -A /etc/kubernetes/*.kubeconfig").stdout == ""
    job = submit(pool, "true", node)
    assert pool.until_job(job, JobState.COMPLETED, timeout_s=BOOT_S).nodelist == node
    assert changes(pool) == {"same"}


def test_a_laboratory_measures_on_it_by_the_clock_of_this_host(pool: PoolCluster) -> None:
    node = f"{POOL}-1"
    pool.config["tidepool:lab"] = {
        "pool": POOL,
        "schedulers": ["slurm", "kubernetes"],
        "workloads": [{"name": "bag", "parameters": {"number": 1, "seconds": 1}}],
        "repeats": 1,
        "limit_s": 600,
        "pinning": "none",
        # Other tests run beside it.
        "disturbance": {"stolen_percent": 100, "other_percent": 100},
    }
    pool.write_spec()
    folder = pool.folder / "results" / "lab" / pool.stack
    try:
        done = pool.run("lab", "run", timeout_s=BOOT_S)
        assert done.returncode == 0, done.stdout + done.stderr + (folder / "machines.log").read_text()
    finally:
        del pool.config["tidepool:lab"]
        pool.write_spec()
        if pool.role_of(node) != "slurm":
            move(pool, node, "slurm", "--force")
    results = Results.open(folder)
    assert results.is_whole
    for trial in results.done():
        outcome = results.outcome(trial)
        assert outcome is not None
        assert re.fullmatch("[0-9a-f]{16}", outcome.environment[f"image of {node}"])
        for job in outcome.jobs:
            (process,) = job.processes
            assert job.succeeded, job
            assert process.machine == node
            assert process.ended_s is not None
            assert job.submitted_s < process.started_s < process.ended_s < outcome.lasted_s
            assert process.ended_s - process.started_s >= 1


def changes(pool: PoolCluster, *words: str) -> set[str]:
    """What an `up` does to the resources that there are, after it has looked at them."""
    said = pool.run("up", "--yes", "--json", *words, timeout_s=BOOT_S).stdout
    return set(summary(said)["changes"]) - {"refresh"}


def system(pool: PoolCluster, node: str) -> str:
    """The release of Debian that the machine runs."""
    return pool.tidepool("exec", node, "--", "sh", "-c", '. /etc/os-release; echo "$VERSION_ID"').strip()


def begun(pool: PoolCluster, node: str) -> int:
    """A job there that runs until it is told to end."""
    job = submit(pool, "trap 'exit 0' USR1; sleep infinity & wait", node)
    pool.until_job(job, JobState.RUNNING, timeout_s=BOOT_S)
    until(lambda: "slurm_script" in everything(pool, node) or None, "its script runs", BOOT_S, 1)
    return job


def end(pool: PoolCluster, job: int) -> None:
    pool.on("login-1", "scancel", "--batch", "--signal=USR1", str(job))


def kill_at(pool: PoolCluster, node: str, is_there: Callable[[Conversion], bool]) -> Phase:
    """End who converts the machine, as soon as it is there; the phase that it was in."""

    def killed() -> Phase | None:
        going = pool.last(node)
        return going.phase if is_there(going) and kill_driver(going) else None

    return until(killed, f"{node} is there", BOOT_S, 0.005)


def killed_once_more(
    pool: PoolCluster, node: str, role: str, killed: Collection[Phase]
) -> Phase | Literal[""]:
    """Have it go on until whoever carries it out is killed in a phase that is not among ``killed``; empty: it came to its end."""
    with pool.converting(node, "--to", role, timeout_s=BOOT_S) as command:

        def dies() -> Phase | Literal[""] | None:
            going = pool.last(node)
            if going.phase not in killed and kill_driver(going):
                return going.phase
            return None if command.poll() is None else ""

        return until(dies, f"{node} is in another phase", BOOT_S, 0.005)


def submit(pool: PoolCluster, script: str, node: str) -> int:
    return pool.submit(script, more=(f"--nodelist={node}",), output="slurm-%j.out")


def boot_id(pool: PoolCluster, node: str) -> str:
    return pool.tidepool("exec", node, "--", "cat", "/proc/sys/kernel/random/boot_id")
