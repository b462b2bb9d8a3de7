"""kill -9 of whoever makes or deletes a machine or a network, at each stage: the next call ends right."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.infrastructures.local.stacks import Stack
from tidepool.infrastructures.local.kernel import delete_machine, delete_network, list_machines, wait_ready

pytestmark = pytest.mark.slow

#: Dies before (or after) the nth call of a function, given as "module:name" or "module:Class.name".
_DYING = """
import importlib, os, signal, sys
from pathlib import Path
from tests.infrastructures.local.stacks import Stack

data, name, image, action, where, when, count = sys.argv[1:]
stack = Stack(Path(data), name, Path(image))
module, _, path = where.partition(":")
owner = importlib.import_module(module)
*inner, function = path.split(".")
for part in inner:
    owner = getattr(owner, part)
original, calls = getattr(owner, function), []

def dying(*args, **kwargs):
    calls.append(1)
    last = len(calls) == int(count)
    if last and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    result = original(*args, **kwargs)
    if last:
        os.kill(os.getpid(), signal.SIGKILL)
    return result

setattr(owner, function, dying)
if action == "create_network":
    stack.network()
elif action == "create_machine":
    stack.create(stack.answering(1))
else:
    stack.delete_all()
"""
_LOCAL = "tidepool.infrastructures.local.kernel"


def _die(stack: Stack, action: str, where: str, when: str = "before", count: int = 1) -> None:
    arguments = [str(stack.data), stack.name, str(stack.image), action, f"{_LOCAL}.{where}", when, str(count)]
    done = subprocess.run(
        [sys.executable, "-c", _DYING, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


_NETWORK_STAGES = [
    ("network:end_all", "before", 1),
    ("record:Record.save", "after", 1),
    ("network:newborn", "before", 1),
    ("birth:_spawn", "after", 1),
    ("birth:_first_process", "after", 1),
    ("record:Record.save", "after", 2),
    ("network:make_switch", "after", 1),
    ("birth:Newborn.boot", "after", 1),
    ("record:Record.save", "after", 3),
]
_MACHINE_STAGES = [
    ("machine:boot", "before", 1),
    ("record:Record.save", "after", 1),
    ("boot:register_address", "before", 1),
    ("boot:register_address", "after", 1),
    ("birth:_spawn", "after", 1),
    ("birth:_first_process", "after", 1),
    ("record:Record.save", "after", 2),
    ("birth:Newborn.boot", "before", 1),
    ("birth:_read_line", "before", 2),
    ("birth:Newborn.boot", "after", 1),
    ("record:Record.save", "after", 3),
]


@pytest.mark.parametrize(("where", "when", "count"), _NETWORK_STAGES)
@pytest.mark.parametrize("then", ["made", "deleted"])
def test_the_maker_of_a_network_is_killed(stack: Stack, where: str, when: str, count: int, then: str) -> None:
    _die(stack, "create_network", where, when, count)
    if then == "deleted":
        delete_network(stack.data, stack.name, "net")
        return
    assert stack.network().state == "up"
    stack.create(stack.spec())


@pytest.mark.parametrize(("where", "when", "count"), _MACHINE_STAGES)
@pytest.mark.parametrize("then", ["made", "made otherwise", "deleted"])
def test_the_maker_of_a_machine_is_killed(stack: Stack, where: str, when: str, count: int, then: str) -> None:
    stack.network()
    _die(stack, "create_machine", where, when, count)
    assert {machine.name for machine in list_machines(stack.data, stack.name)} <= {"cpu-1"}
    if then == "deleted":
        delete_machine(stack.data, stack.name, "cpu-1")
        delete_network(stack.data, stack.name, "net")
        return
    stack.create(stack.answering(1) if then == "made" else stack.spec(1))
    wait_ready(stack.data, stack.name, "cpu-1", 20)
    assert stack.read().state == "running"


@pytest.mark.parametrize(
    "where",
    [
        "machine:end_all",
        "cgroup_versions:remove_group",
        "machine:release_address",
        "machine:remove_lock",
        "network:_unmake",
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_whoever_deletes_is_killed(stack: Stack, where: str, when: str) -> None:
    stack.network()
    stack.create(stack.answering(1))
    _die(stack, "delete_all", where, when)
    stack.delete_all()
