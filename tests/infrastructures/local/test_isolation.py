"""Two stacks on one machine, with the same names and addresses: nothing of one is reached from the other."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.infrastructures.local.stacks import CIDR, Stack
from tests.infrastructures.local.test_roles import take, until_states
from tidepool.cluster.boot import File, Service
from tidepool.infrastructures.local.kernel import NetworkSpec, create_network, may_close_devices, wait_ready


@pytest.fixture
def both(stack: Stack, other_stack: Stack) -> tuple[Stack, Stack]:
    for each in (stack, other_stack):
        each.network()
        spec = each.answering(1)
        each.create(replace(spec, files=(File("/etc/key", f"the key of {each.name}", mode="0600"),)))
        wait_ready(each.data, each.name, "cpu-1", 20)
    return stack, other_stack


def test_each_reaches_its_own_at_the_same_address(both: tuple[Stack, Stack]) -> None:
    for stack in both:
        stack.create(stack.spec(2))
        assert stack.ask("10.77.0.11", on="cpu-2") == f"cpu-1 of {stack.name}"


def test_what_only_the_other_has_is_not_reached(both: tuple[Stack, Stack]) -> None:
    stack, other = both
    other.create(other.answering(3))
    wait_ready(other.data, other.name, "cpu-3", 20)
    assert "No route to host" in stack.ask("10.77.0.13", on="cpu-1")
    assert "not known" in stack.ask("cpu-3", on="cpu-1")
    # Nor a network beside its own, nor the host.
    create_network(stack.data, NetworkSpec(stack.name, "second", "10.88.0.0/16"))
    stack.create(replace(stack.answering(4), network="second", address="10.88.0.14"))
    assert "unreachable" in stack.ask("10.88.0.14", on="cpu-1")
    assert [each["dst"] for each in json.loads(stack.run("ip", "-json", "route").stdout)] == [CIDR]


def test_neither_files_nor_processes_of_the_other_are_seen(both: tuple[Stack, Stack]) -> None:
    stack, other = both
    assert stack.run("cat", "/etc/key").stdout == f"the key of {stack.name}"
    assert other.run("cat", "/etc/key").stdout == f"the key of {other.name}"
    seen = stack.run("sh", "-c", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ /proc/mounts").stdout
    assert stack.name in seen
    assert other.name not in seen
    assert stack.run("ls", str(stack.data)).code == 2
    assert "inside" not in stack.run("find", "/sys/fs/cgroup").stdout, (
        "only what is below its own control group"
    )
    shared = stack.run("sh", "-c", "ipcmk -M 100 >/dev/null; ipcs -m | wc -l").stdout
    assert int(shared) > int(other.run("sh", "-c", "ipcs -m | wc -l").stdout)


@pytest.mark.parametrize(
    "escape",
    [
        "mount -t devtmpfs none /tmp",
        "mount -o remount,rw /usr",
        "mknod /tmp/disk b 254 0",
        "echo 1 >/proc/sys/kernel/panic",
        "echo 1 >/proc/irq/default_smp_affinity",
        "echo 1 >/sys/kernel/profiling",
        "unshare --mount true",
        "nsenter --target 1 --mount --net true",
        "date --set 2020-01-01",
        "hostname other",
        "umount /proc/sys",
    ],
)
def test_root_in_a_machine_is_not_root_of_the_host(stack: Stack, escape: str) -> None:
    stack.network()
    stack.create(stack.spec())
    ended = stack.run("sh", "-c", escape)
    assert ended.code != 0, ended
    assert any(
        word in ended.stderr
        for word in ("ermission", "ermitted", "Read-only", "must be superuser", "must be root")
    ), ended


def test_a_capability_that_was_asked_for_is_there(stack: Stack) -> None:
    stack.network()
    machine = stack.create(replace(stack.spec(), capabilities=("sys_admin",)))
    assert machine.pid
    assert may_close_devices(machine.pid)
    assert stack.run("mount", "-t", "tmpfs", "none", "/tmp").code == 0


def test_a_service_has_a_capability_that_nobody_else_has(stack: Stack) -> None:
    stack.network()
    says = ("/bin/sh", "-ec", "grep CapEff /proc/self/status >/run/$NAME; exec sleep 1000")
    own = Service(
        "own", says, environment=(("NAME", "own"),), ready="path:/run/own", capabilities=("sys_ptrace",)
    )
    other = replace(
        own, name="other", environment=(("NAME", "other"),), ready="path:/run/other", capabilities=()
    )
    in_role = replace(
        own, name="in-role", environment=(("NAME", "in-role"),), ready="path:/run/in-role", role="work"
    )
    stack.create(replace(stack.spec(), services=(own, other, in_role)))
    wait_ready(stack.data, stack.name, "cpu-1", 20)
    take(stack, "work")
    until_states(stack, **{"in-role": "up"})

    def has(name: str) -> bool:
        return bool(int(stack.run("cat", f"/run/{name}").stdout.split()[1], 16) >> 19 & 1)

    assert (has("own"), has("other"), has("in-role")) == (True, False, True)
    assert "Permission denied" in stack.run("ls", "-l", "/proc/1/fd/").stderr


def test_the_first_process_is_not_reached_from_within(stack: Stack) -> None:
    stack.network()
    machine = stack.create(stack.answering())
    # While it looks whether a service is ready, it has a socket open for moments.
    wait_ready(stack.data, stack.name, "cpu-1", 20)
    # Its log and its table are files of the host.
    assert "Permission denied" in stack.run("ls", "-l", "/proc/1/fd/").stderr
    opened = set()
    for path in Path(f"/proc/{machine.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it has closed it since
            opened.add(path.readlink())
    folder = stack.data / stack.name / "machines" / "cpu-1"
    own = {folder / "boot.log", folder / "status", Path("anon_inode:[signalfd]")}
    assert {path for path in opened if path.name not in ("null", "tcp", "tcp6")} == own
