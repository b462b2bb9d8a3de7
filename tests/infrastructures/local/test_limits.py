"""A machine's limits bind, and bind in it alone."""

from __future__ import annotations

from dataclasses import replace

from tests.infrastructures.local.stacks import PYTHON, Stack
from tidepool.infrastructures.local.kernel import wait_ready

_HOG = "import sys; held = bytearray(int(sys.argv[1]) << 20); print('held')"


def test_what_takes_too_much_memory_is_killed_in_its_machine_only(stack: Stack) -> None:
    stack.network()
    for number in (1, 2):
        spec = stack.answering(number)
        stack.create(replace(spec, memory_mib=64))
        wait_ready(stack.data, stack.name, f"cpu-{number}", 20)
    before = {name: stack.read(name).services for name in ("cpu-1", "cpu-2")}
    assert stack.run(PYTHON, "-c", _HOG, "20").stdout == "held\n"
    assert stack.run(PYTHON, "-c", _HOG, "200").code == 137
    assert stack.read("cpu-1").memory_kills == 1
    assert stack.read("cpu-2").memory_kills == 0
    # What was there goes on, in both.
    assert {name: stack.read(name).services for name in before} == before
    assert stack.ask("cpu-1", on="cpu-2") == f"cpu-1 of {stack.name}"


def test_its_root_cannot_lift_the_limits(stack: Stack) -> None:
    stack.network()
    stack.create(stack.spec(memory_mib=64))
    stack.run("sh", "-c", "cd /sys/fs/cgroup; echo -1 >memory/memory.limit_in_bytes; mkdir memory/job")
    stack.run("sh", "-c", "cd /sys/fs/cgroup; echo max >memory.max; mkdir job")
    assert stack.run("find", "/sys/fs/cgroup", "-name", "job").stdout, "groups of its own it may make"
    assert stack.run(PYTHON, "-c", _HOG, "200").code == 137
    assert stack.read().memory_kills == 1


def test_what_is_written_to_memory_counts(stack: Stack) -> None:
    stack.network()
    stack.create(stack.spec(memory_mib=32))
    assert stack.run("dd", "if=/dev/zero", "of=/dev/shm/x", "bs=1M", "count=100").code == 137


def test_it_gets_no_more_of_the_processors_than_it_has(stack: Stack) -> None:
    stack.network()
    stack.create(stack.spec(cpus=0.2))
    busy = (
        "import os, time\n"
        "end = time.monotonic() + 1\n"
        "child = os.fork()\n"
        "while time.monotonic() < end: pass\n"
        "if child: os.wait(); t = os.times(); print(t.user + t.system + t.children_user + t.children_system)\n"
    )
    used_s = float(stack.run(PYTHON, "-c", busy).stdout)
    assert used_s < 0.5, "two busy processes for a second, and a fifth of a processor"
