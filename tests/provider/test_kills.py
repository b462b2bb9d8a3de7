"""The provider dies, the controller dies, a node never comes: the next operation ends right."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.machine_faults import pull_plug
from tests.provider.stack import Ran, Stack, eventually, fleet
from tidepool.infrastructures.local import kernel

pytestmark = pytest.mark.slow


def _provider_of(engine: subprocess.Popen[str]) -> int | None:
    """The process of the plugin that an operation has started."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == engine.pid and any(word.endswith(b"/provider") for word in words):
            return int(folder.name)
    return None


def _killed(stack: Stack, verb: str, when: Callable[[], bool]) -> Ran:
    """An operation whose provider is killed as soon as ``when`` holds."""
    process = stack.start(verb)
    eventually(lambda: _provider_of(process) is not None)
    pid = _provider_of(process)
    assert pid is not None
    deadline = time.monotonic() + 60
    while not when() and process.poll() is None:
        assert time.monotonic() < deadline
    os.kill(pid, signal.SIGKILL)
    out, _ = process.communicate(timeout=120)
    assert "Traceback" not in out, out
    return Ran(process.returncode, out)


def _has_begun(stack: Stack, service: str, machine: str) -> bool:
    log = stack.data / "dev/machines" / machine / "boot.log"
    return log.exists() and f"init: {service}: started" in log.read_text()


def _whole(stack: Stack, nodes: int) -> None:
    """All that was asked for is there, and nothing else."""
    machines = {machine.name: machine.state for machine in kernel.list_machines(stack.data, stack.name)}
    assert machines == {"ctl": "running"} | {f"cpu-{n}": "running" for n in range(1, nodes + 1)}
    assert stack.states() == {
        f"cpu-{n}": "IDLE" if n <= nodes else "FUTURE" for n in range(1, len(stack.states()) + 1)
    }
    assert stack.done("up", "--refresh").changes == [f"{11 + 2 * nodes} unchanged"]


@pytest.mark.parametrize(
    "when",
    [
        pytest.param(lambda stack: (stack.data / "dev/networks/net").is_dir(), id="network"),
        pytest.param(
            lambda stack: (stack.data / "dev/machines/ctl/upper/etc/slurm/.new").is_dir(), id="configuration"
        ),
        pytest.param(lambda stack: _has_begun(stack, "slurmctld", "ctl"), id="slurmctld"),
    ],
)
def test_a_provider_that_is_killed_while_a_cluster_comes_up(
    stack: Stack, when: Callable[[Stack], bool]
) -> None:
    stack.want(fleet(), nodes={"cpu": 2})
    assert _killed(stack, "up", lambda: when(stack)).code != 0
    stack.done("up")
    _whole(stack, 2)
    stack.done("destroy")
    assert stack.left() == []


def test_a_node_that_never_comes_is_told_of_with_its_boot_log_and_mended_by_the_next_up(stack: Stack) -> None:
    stack.want(fleet(), nodes={"cpu": 2})
    stack.done("up")
    # A node of this address cannot reach its controller.
    stack.want(fleet(), nodes={"cpu": 3}, nodeTimeout="3s", slurmd="/bin/false")
    ran = stack.refused("up")
    assert "node cpu-3 is not up after 3 s: Slurm says it is FUTURE" in ran.text
    assert "its machine's boot log ends:" in ran.text
    assert "init: slurmd: ended" in ran.text or "slurmd" in ran.text
    stack.want(fleet(), nodes={"cpu": 3})
    pull_plug(stack.data, stack.name, "cpu-3")
    stack.done("up", "--refresh")
    _whole(stack, 3)


def test_the_plug_of_the_controller_is_pulled_and_jobs_go_on(stack: Stack) -> None:
    stack.want(fleet(), nodes={"cpu": 2})
    stack.done("up")
    job = stack.job("cpu-1")
    stack.await_saved(job)
    pull_plug(stack.data, stack.name, "ctl")
    stack.done("up", "--refresh")
    assert stack.job_state(job) == "RUNNING"
    stack.cancel(job)


def test_all_goes_down_without_a_controller_but_for_nodes_that_run_jobs(stack: Stack) -> None:
    stack.want(fleet(), nodes={"cpu": 2})
    stack.done("up")
    job = stack.job("cpu-1")
    pull_plug(stack.data, stack.name, "ctl")
    ran = stack.refused("destroy")
    assert f"node cpu-1 runs the jobs {job}, and its controller does not answer" in ran.text
    assert (
        f"slurmstepd: [{job}.batch]"
        in stack.on("cpu-1", "ps", "-C", "slurmstepd", "-o", "args=").splitlines()
    )
    pull_plug(stack.data, stack.name, "cpu-1")
    stack.done("destroy")
    assert stack.left() == []
