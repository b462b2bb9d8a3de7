"""Interrupts: the first ends the operation soon and cleanly, the second at once; both save the state."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from .stacks import CHAIN, Stack, await_line, ended

ENDLESS = """
import time
from fake_sdk import Item

def wait(_):
    {wait}

Item("r0", value=0).id.apply(wait)
"""
WAITS = {
    "busy": "while True: pass",
    "asleep": "time.sleep(10_000)",
    "deaf": """while True:
        try: time.sleep(10_000)
        except BaseException: pass""",
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_interrupt_lets_what_is_under_way_end(stack: Stack, number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    stack.write(CHAIN)
    ran = stack.run("up", COUNT="10", FAKE_SIGNAL=f"create:4:before:{name}")
    assert ran.code == 1
    assert ran.has_no_engine_frames()
    assert "update canceled" in ran.text
    assert sorted(stack.world()) == ["r0-1", "r1-1", "r2-1", "r3-1"]
    assert sorted(stack.states()) == ["r0-1", "r1-1", "r2-1", "r3-1"]
    assert stack.pending() == []
    assert not stack.locked()
    assert not stack.journal.exists()
    stack.up(COUNT="10")
    stack.check_exact(10)


def test_an_interrupt_before_anything_was_begun_lets_go_of_the_stack(stack: Stack) -> None:
    early = str(Path(__file__).with_name("early.py"))
    ran = ended(stack.start_script((early,), "up"))
    assert ran.code == 130
    assert ran.err == "error: interrupted\n"
    assert stack.world() == stack.states() == {}
    assert not stack.locked()
    assert not stack.journal.exists()
    assert "took over a lock" not in stack.up().text


def test_steps_beside_each_other_all_end(stack: Stack) -> None:
    ran = stack.run("up", "--parallel", "4", COUNT="20", FAKE_SIGNAL="create:6:before:INT")
    assert ran.code == 1
    assert 6 <= len(stack.world()) <= 13
    assert stack.world().keys() == stack.states().keys()
    assert stack.pending() == []
    stack.up(COUNT="20")
    stack.check_exact(20)


def test_an_interrupted_destroy_keeps_the_rest(stack: Stack) -> None:
    stack.up(COUNT="6")
    ran = stack.run("destroy", "--parallel", "1", FAKE_SIGNAL="delete:2:before:INT")
    assert ran.code != 0
    assert len(stack.world()) == 4
    assert stack.world().keys() == stack.states().keys()
    assert stack.run("destroy").code == 0
    assert stack.world() == {}


@pytest.mark.parametrize("wait", WAITS)
def test_the_second_interrupt_ends_a_program_that_never_ends(stack: Stack, wait: str) -> None:
    stack.write(ENDLESS.format(wait=WAITS[wait]))
    process = stack.start("up")
    await_line(process, process.stdout, "r0 created")
    process.send_signal(signal.SIGINT)
    await_line(process, process.stdout, "Interrupt again to end at once")
    process.send_signal(signal.SIGINT)
    ran = ended(process)
    assert ran.code != 0
    assert "error: update canceled" in ran.text
    assert "warning: the program did not end, and was left behind" in ran.err
    assert ran.has_no_engine_frames()
    assert list(stack.states()) == list(stack.world()) == ["r0-1"]
    assert not stack.locked()
    assert not stack.journal.exists()
    stack.write(ENDLESS.format(wait="pass"))
    assert "cut off" not in stack.up().text
    assert list(stack.world()) == ["r0-1"]


def test_the_second_interrupt_leaves_a_hanging_step_pending(stack: Stack) -> None:
    process = stack.start("up", FAKE_FAULTS=json.dumps({"create:r1": "deaf:600"}))
    await_line(process, process.stdout, "r1 creating")
    process.send_signal(signal.SIGINT)
    await_line(process, process.stdout, "Interrupt again to end at once")
    process.send_signal(signal.SIGINT)
    ran = ended(process)
    assert ran.code != 0
    assert ran.has_no_engine_frames()
    assert ("r1", "creating") in stack.pending(), ran.text
    assert not stack.locked()
    assert not stack.journal.exists()
    stack.up()
    stack.check_exact(3)
