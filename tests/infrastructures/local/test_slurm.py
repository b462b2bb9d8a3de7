"""Slurm's own daemons in machines: jobs of ordinary people run there, and what takes too much is killed there."""

from __future__ import annotations

import base64
import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench import machines as bench
from tests.infrastructures.local.stacks import Stack, left_of
from tests.machine_faults import pull_plug
from tidepool.infrastructures.local.kernel import (
    NetworkSpec,
    create_machine,
    create_network,
    wait_ready,
)

_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
_HOG = "held = bytearray(300 << 20)"


@pytest.fixture(scope="module")
def cluster(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A controller and two nodes, of 128 MiB each."""
    if missing := [name for name in ("munged", "slurmctld", "slurmd", "srun") if not shutil.which(name)]:
        pytest.skip(
            f"{', '.join(missing)} is not installed: apt-get install munge slurmctld slurmd slurm-client"
        )
    image = tmp_path_factory.mktemp("slurm")
    bench.make_image(image)
    stack = Stack(data, "bench", image)
    key = base64.b64encode(secrets.token_bytes(128)).decode()
    try:
        create_network(data, NetworkSpec("bench", "net", "10.77.0.0/16"))
        create_machine(data, bench.controller(image, key))
        wait_ready(data, "bench", "ctl", 30)
        slots = "nodename=std-[2-3] state=FUTURE cpus=1 realmemory=500"
        assert stack.run("scontrol", "create", *slots.split(), on="ctl").code == 0
        for number in (2, 3):
            create_machine(data, replace(bench.node(number, image, key), memory_mib=128))
        _until_idle(stack, 2)
        yield stack
    finally:
        stack.delete_all()
    assert left_of(stack) == []


def _until_idle(stack: Stack, nodes: int) -> None:
    deadline = time.monotonic() + 30
    while bench.idle_nodes(stack.data) < nodes:
        assert time.monotonic() < deadline, stack.run("scontrol", "show", "nodes", on="ctl").stdout
        time.sleep(0.02)


def test_jobs_run_as_their_users_on_machines(cluster: Stack) -> None:
    ran = cluster.run(*_NOBODY, "srun", "-N2", "sh", "-c", "id -u; hostname", on="ctl")
    assert sorted(ran.stdout.split()) == ["65534", "65534", "std-2", "std-3"], ran


def test_a_job_with_too_much_memory_is_killed_in_its_machine_only(cluster: Stack) -> None:
    _until_idle(cluster, 2)
    ran = cluster.run(*_NOBODY, "srun", "-w", "std-2", "python3", "-c", _HOG, on="ctl")
    assert ran.code != 0
    assert "Killed" in ran.stderr or "Out Of Memory" in ran.stderr, ran
    assert cluster.read("std-2").memory_kills >= 1
    assert cluster.read("std-3").memory_kills == 0
    # The daemons there and here go on as if nothing had been.
    _until_idle(cluster, 2)
    for name in ("std-2", "std-3", "ctl"):
        assert [(each.state, each.restarts) for each in cluster.read(name).services] == [("up", 0)] * 2
    assert cluster.run("srun", "-w", "std-2", "true", on="ctl").code == 0


def test_a_node_whose_plug_was_pulled_boots_again_under_its_name(cluster: Stack) -> None:
    pull_plug(cluster.data, "bench", "std-3")
    down = "nodename=std-3 state=down reason=plug"
    assert cluster.run("scontrol", "update", *down.split(), on="ctl").code == 0
    key = cluster.data / "bench" / "machines" / "std-2" / "upper" / "etc" / "munge" / "munge.key"
    node = bench.node(3, cluster.image, base64.b64encode(key.read_bytes()).decode())
    create_machine(cluster.data, replace(node, memory_mib=128))
    _until_idle(cluster, 2)


def test_a_killed_controller_is_back(cluster: Stack) -> None:
    """Last, for Slurm writes its state up to 5 s late: nodes that it was told of since are lost to it."""
    before = next(each for each in cluster.read("ctl").services if each.name == "slurmctld")
    start = time.monotonic()
    assert cluster.run("kill", "-9", str(before.pid), on="ctl").code == 0
    while (
        cluster.run("scontrol", "ping", on="ctl").code != 0
        or cluster.read("ctl").services[1].pid == before.pid
    ):
        assert time.monotonic() - start < 20
    assert cluster.read("ctl").services[1].restarts == 1
