"""A machine with a role that runs containers: what those who run them may not, and what nobody else in it may.

They may mount, and so are as good as root of the host where they mean to be, as who runs containers is everywhere. What
they do by mistake stays in the machine, and what is in a container has none of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden import CONVERGED, golden_image
from tests.infrastructures.local.stacks import Stack, left_of
from tests.machine_faults import pull_plug
from tidepool.cluster.boot import File, Service
from tidepool.infrastructures.local.kernel import Machine, boot_log, wait_ready
from tidepool.infrastructures.local.kernel.entry import Ended

pytestmark = pytest.mark.slow

_ROLES = "/var/lib/tidepool/roles"
_CONFIG = """\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  disable_apparmor = true
"""
_ARCHIVE = "/usr/share/tidepool/containers/tidepool_busybox_1.tar"
#: In the role's own namespaces: it mounts the image, to look for users in it.
_RUN = (
    f"ctr images import {_ARCHIVE} && ctr run --detach --cgroup /kubepods/one --memory-limit {32 << 20} "
    "docker.io/tidepool/busybox:1 one /bin/sleep 1000"
)
#: Tells of itself where another service of the role can read it, and stays.
_TELL = "{ %s; } >/run/said 2>&1; echo $? >/run/code; exec sleep 1000"


@pytest.fixture(scope="module")
def containers(data: Path) -> Iterator[Stack]:
    """A stack for machines of the image of converged pools."""
    stack = Stack(data, "containers", golden_image(CONVERGED).root)
    try:
        stack.network()
        yield stack
    finally:
        stack.delete_all()
    assert left_of(stack) == []


@pytest.fixture
def machine(containers: Stack) -> Iterator[Stack]:
    """One with a service of each kind, and without a role yet."""
    yield containers
    containers.delete_all()
    containers.network()


def _create(stack: Stack, tries: str = "true", role: str = "pods") -> Machine:
    containerd = ("/usr/bin/containerd", "--config", "/etc/pods.toml", "--log-level", "error")
    services = (
        Service("always", ("/bin/sleep", "1000")),
        Service("containerd", containerd, role="pods", ready="unix:/run/containerd/containerd.sock"),
        Service("jobs", ("/bin/sleep", "1000"), role="jobs"),
        Service("tries", ("/bin/sh", "-c", _TELL % tries), role=role, ready="path:/run/code"),
    )
    spec = replace(
        stack.spec(1, *services, memory_mib=512, cpus=1.0),
        files=(File("/etc/pods.toml", _CONFIG),),
        mounts=(),
        containers="pods",
    )
    made = stack.create(spec)
    wait_ready(stack.data, stack.name, "cpu-1", 20)
    return made


def _until(stack: Stack, *states: str) -> None:
    deadline = time.monotonic() + 20
    while not set(states) <= {f"{each.name} {each.state}" for each in stack.read().services}:
        assert time.monotonic() < deadline, boot_log(stack.data, stack.name, "cpu-1", 30)
        time.sleep(0.005)


def _take(stack: Stack, role: str) -> None:
    assert stack.run("sh", "-c", f"mkdir -p {_ROLES}; touch {_ROLES}/{role}; kill -HUP 1").code == 0


def _lose(stack: Stack, role: str) -> None:
    assert stack.run("sh", "-c", f"rm {_ROLES}/{role}; kill -HUP 1").code == 0


def _ctr(stack: Stack, *argv: str) -> Ended:
    return stack.run("ctr", *argv, timeout_s=40)


def _said(stack: Stack) -> tuple[str, str]:
    """What the service that tries something said, and how it ended."""
    said = stack.run("cat", "/run/said").stdout
    return said, stack.run("cat", "/run/code").stdout.strip()


def test_a_container_runs_and_nothing_of_it_outlives_the_role(machine: Stack) -> None:
    _create(machine, _RUN)
    folder = machine.data / "containers" / "machines" / "cpu-1" / "containers"
    _take(machine, "pods")
    _until(machine, "tries up")
    assert _said(machine)[1] == "0", _said(machine)
    assert machine.run("pgrep", "-fc", "sleep 1000|containerd-shim").stdout.strip() >= "3"
    groups = [*Path("/sys/fs/cgroup").glob("*/tidepool/*-containers/machines/cpu-1/inside/pods/kubepods/one")]
    assert {"cpuset", "pids", "devices", "memory"} <= {path.parts[4] for path in groups}
    memory = next(path for path in groups if path.parts[4] == "memory")
    assert (memory / "memory.limit_in_bytes").read_text().strip() == str(32 << 20)
    assert any(folder.iterdir()), "not in the overlay"
    assert "containerd" not in machine.run("cat", "/proc/mounts").stdout.replace("/var/lib/containerd", "")
    _lose(machine, "pods")
    _until(machine, "containerd off", "always up")
    assert machine.run("pgrep", "-f", "containerd").code == 1
    assert not any(path.exists() for path in groups)
    assert machine.run("find", "/sys/fs/cgroup", "-name", "kubepods").stdout == ""
    machine.delete_all()
    assert not folder.exists()
    machine.network()


def test_containers_outlive_who_runs_them_but_not_the_role_s_first_process(machine: Stack) -> None:
    _create(machine, _RUN)
    _take(machine, "pods")
    _until(machine, "tries up")
    assert _said(machine)[1] == "0", _said(machine)
    first = next(each for each in machine.read().services if each.name == "containerd")
    assert machine.run("kill", "-9", str(first.pid)).code == 0
    deadline = time.monotonic() + 20
    while "RUNNING" not in _ctr(machine, "tasks", "list").stdout:
        assert time.monotonic() < deadline
    assert next(each for each in machine.read().services if each.name == "containerd").pid != first.pid
    machine.run("sh", "-c", "kill -9 $(pgrep -x pods)")
    _until(machine, "containerd up")
    deadline = time.monotonic() + 20
    while "RUNNING" in (listed := _ctr(machine, "tasks", "list")).stdout or listed.code:
        assert time.monotonic() < deadline, listed
    assert machine.run("pgrep", "-f", "containerd-shim").code == 1


def test_one_whose_plug_is_pulled_leaves_nothing_in_the_way(machine: Stack) -> None:
    _create(machine, _RUN)
    _take(machine, "pods")
    _until(machine, "tries up")
    assert _said(machine)[1] == "0", _said(machine)
    pull_plug(machine.data, machine.name, "cpu-1")
    _create(machine, _RUN)
    _until(machine, "containerd up")
    assert "RUNNING" not in _ctr(machine, "tasks", "list").stdout


def test_who_runs_containers_sees_the_machine_and_not_the_host(machine: Stack) -> None:
    look = (
        "head -1 /proc/meminfo; ls -d /sys/devices/system/cpu/cpu*; cat /proc/sys/kernel/panic_on_oops; wc -c </dev/kmsg; "
        "ls -d /proc/[0-9]* | wc -l"
    )
    _create(machine, look)
    _take(machine, "pods")
    _until(machine, "tries up")
    said, code = _said(machine)
    lines = said.splitlines()
    assert code == "0", said
    assert lines[:2] == ["MemTotal: 524288 kB", "/sys/devices/system/cpu/cpu0"]
    assert lines[2:4] == ["1", "0"]
    assert int(lines[4]) < 10, "its own processes"


#: What who runs containers does not come to by a mistake.
_NEVER = {
    "settings of the host": "echo 1 >/proc/sys/kernel/printk",
    "interrupts": "echo 1 >/proc/irq/default_smp_affinity",
    "the kernel's switches": "echo 1 >/sys/kernel/profiling",
    "the clock": "date --set 2020-01-01",
    "memory": "mknod /memory c 1 1 && dd if=/memory of=/dev/null bs=1 count=1",
    "disks": "rm -f /disk; mknod /disk b 254 0 && dd if=/disk of=/dev/null bs=512 count=1",
}


@pytest.mark.parametrize("what", _NEVER)
def test_who_runs_containers_is_not_root_of_the_host(machine: Stack, what: str) -> None:
    _create(machine, _NEVER[what])
    _take(machine, "pods")
    _until(machine, "tries up")
    said, code = _said(machine)
    assert code != "0", said


@pytest.mark.parametrize("where", ["jobs", "", "entered"])
@pytest.mark.parametrize(
    "escape",
    [
        "mount -t tmpfs none /tmp",
        "mknod /tmp/null c 1 3",
        "unshare --mount true",
        "echo 1 >/proc/sys/kernel/panic",
    ],
)
def test_nobody_else_in_it_may_more_than_on_other_machines(machine: Stack, where: str, escape: str) -> None:
    _create(machine, escape if where != "entered" else "true", "" if where == "entered" else where)
    if where == "entered":
        assert machine.run("sh", "-c", escape).code != 0
        return
    _take(machine, "jobs")
    _until(machine, "tries up", "jobs up")
    said, code = _said(machine)
    assert code != "0", said
    assert "ermi" in said or "Read-only" in said, said
