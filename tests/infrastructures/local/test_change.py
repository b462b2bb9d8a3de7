"""What may be changed of a machine that is there, and when it comes to pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.infrastructures.local.stacks import PYTHON, Stack
from tests.machine_faults import pull_plug
from tidepool.cluster.boot import Device, File, Service
from tidepool.infrastructures.local.kernel import InUse, delete_machine, may_close_devices

_HOLD = "import sys; held = bytearray(int(sys.argv[1]) << 20); print('held')"


def test_limits_change_while_it_runs(stack: Stack) -> None:
    stack.network()
    before = stack.create(stack.answering())
    assert stack.run(PYTHON, "-c", _HOLD, "150").code == 137
    after = stack.create(replace(stack.answering(), memory_mib=256, cpus=2.5))
    assert (after.pid, after.memory_mib, after.cpus, after.outdated) == (before.pid, 256, 2.5, False)
    assert stack.run(PYTHON, "-c", _HOLD, "150").stdout == "held\n"
    assert stack.create(stack.answering()).memory_mib == 64
    assert stack.run(PYTHON, "-c", _HOLD, "150").code == 137
    assert stack.read().pid == before.pid


def test_aliases_change_while_it_runs(stack: Stack) -> None:
    stack.network()
    machine = stack.create(stack.spec())
    stack.create(stack.spec(2))
    again = stack.create(replace(stack.spec(), aliases=("login-1",)))
    assert (again.pid, again.outdated) == (machine.pid, False)
    assert stack.run("getent", "hosts", "login-1", on="cpu-2").stdout.split() == [
        "10.77.0.11",
        "cpu-1",
        "login-1",
    ]


def test_the_rest_is_taken_at_its_next_boot(stack: Stack) -> None:
    stack.network()
    old = replace(stack.answering(), files=(File("/etc/which", "old"),))
    new = replace(
        old, files=(File("/etc/which", "new"),), services=(Service("other", ("/bin/sleep", "1000")),)
    )
    running = stack.create(old)
    asked = stack.create(new)
    assert (asked.pid, asked.outdated, asked.fingerprint) == (running.pid, True, new.fingerprint)
    assert [service.name for service in asked.services] == ["answering"]
    assert stack.run("cat", "/etc/which").stdout == "old"
    assert stack.create(old).outdated is False, "and back again"
    stack.create(new)
    pull_plug(stack.data, stack.name, "cpu-1")
    assert (stack.read().state, stack.read().outdated) == ("dead", False)
    booted = stack.create(new)
    assert booted.outdated is False
    assert stack.run("cat", "/etc/which").stdout == "new"
    assert [service.name for service in booted.services] == ["other"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"address": "10.77.0.99"}, r"address 10\.77\.0\.11, not 10\.77\.0\.99"),
        ({"mac": "02:00:0a:4d:00:63"}, "mac 02:00:0a:4d:00:0b, not 02:00:0a:4d:00:63"),
        ({"image": "/usr"}, "image /.*, not /usr"),
        ({"network": "other"}, "network net, not other"),
    ],
)
@pytest.mark.parametrize("running", [True, False])
def test_another_identity_is_refused_and_the_machine_stays(
    stack: Stack, change: Mapping[str, Any], named: str, running: bool
) -> None:
    stack.network()
    machine = stack.create(stack.spec())
    stack.run("sh", "-c", "echo kept >/var/state")
    if not running:
        pull_plug(stack.data, stack.name, "cpu-1")
    with pytest.raises(InUse, match=f"is there, and has {named}; delete it first"):
        stack.create(replace(stack.spec(), **change))
    again = stack.create(stack.spec())
    assert (again.pid == machine.pid) is running
    assert stack.run("cat", "/var/state").stdout == "kept\n"
    delete_machine(stack.data, stack.name, "cpu-1")


def test_a_failing_boot_leaves_the_disk_that_was_there(stack: Stack) -> None:
    stack.network()
    stack.create(stack.spec())
    stack.run("sh", "-c", "echo kept >/var/state")
    pull_plug(stack.data, stack.name, "cpu-1")
    record = stack.data / stack.name / "machines" / "cpu-1" / "record.json"
    record.write_text("cut sho")
    with pytest.raises(InUse):
        stack.create(replace(stack.spec(), address="10.77.255.254"))
    stack.create(stack.spec())
    assert stack.run("cat", "/var/state").stdout == "kept\n"


def test_devices_are_there_at_each_boot(stack: Stack) -> None:
    stack.network()
    spec = replace(stack.spec(), devices=(Device("/dev/nvidia0"), Device("/dev/more/one", 1, 5, mode="0600")))
    for _ in range(2):
        machine = stack.create(spec)
        assert machine.pid
        assert not may_close_devices(machine.pid)
        shown = stack.run("stat", "-c", "%F %t %T %a", "/dev/nvidia0", "/dev/more/one").stdout.splitlines()
        assert shown == ["character special file 3c 0 666", "character special file 1 5 600"]
        assert stack.run("head", "-c", "1", "/dev/more/one").stdout == "\0"
        pull_plug(stack.data, stack.name, "cpu-1")
