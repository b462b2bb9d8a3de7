"""Plugins that stay serve one operation after the other, and one that is not as good as new is not kept."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pulumi import automation

from tests.engine.operations.stacks import Stack
from tidepool.engine.errors import EngineError
from tidepool.engine.providers.connection import VARIABLE, attach_port
from tidepool.engine.warm import WarmPulumiCommand, warm_command

from .conftest import opened, warm_environment

PROGRAM = f"""
import os, pulumi
from fake_sdk import Item
Item("a", value=int(os.environ.get("VALUE", "1")))
pulumi.export("attached", os.environ.get("{VARIABLE}", ""))
"""


@pytest.fixture
def kept(stack: Stack) -> Iterator[WarmPulumiCommand]:
    """With the plugin `fake`, which writes down its calls, and dies of the creation of "deadly"."""
    env = {
        **warm_environment(stack),
        "FAKE_LOG": str(stack.root / "calls"),
        "FAKE_FAULTS": json.dumps({"create:slow": "deaf:600", "create:deadly": "die"}),
    }
    with warm_command(env, folder=stack.project, plugins=["fake"]) as command:
        stack.write(PROGRAM)
        yield command


def attached(up: automation.UpResult) -> str:
    return str(up.outputs["attached"].value)


def calls(stack: Stack) -> list[str]:
    return [json.loads(line)["method"] for line in (stack.root / "calls").read_text().splitlines()]


def test_operations_attach_to_one(stack: Stack, kept: WarmPulumiCommand) -> None:
    kept.prepare()
    first = opened(stack, kept).up()
    second = opened(stack, kept, VALUE="2").up()
    assert attached(first) == attached(second) != ""
    assert calls(stack).count("Attach") == 2
    # Nobody told it to end what it does: it is not theirs.
    assert "Cancel" not in calls(stack)
    assert stack.world()["a-1"]["props"]["value"] == 2


def test_one_that_died_is_started_again(stack: Stack, kept: WarmPulumiCommand) -> None:
    first = attached(opened(stack, kept).up())
    stack.write(PROGRAM + 'Item("deadly")\n')
    with pytest.raises(automation.CommandError, match="plugin fake died while Create") as caught:
        opened(stack, kept).up()
    assert "so what became of it is not known" in str(caught.value)
    assert stack.pending() == [("deadly", "creating")]
    stack.write(PROGRAM)
    assert attached(opened(stack, kept).up()) != first


def test_one_that_was_left_at_work_is_not_kept(stack: Stack, kept: WarmPulumiCommand) -> None:
    """Its thread would go on in the middle of the next operation."""
    first = attached(opened(stack, kept).up())
    stack.write(PROGRAM + 'Item("slow")\npulumi.export("pid", os.getpid())\nprint("pid", os.getpid())\n')

    def kill(line: str) -> None:
        _, found, pid = line.partition(" pid ")
        if found:
            os.kill(int(pid), signal.SIGKILL)

    with pytest.raises(automation.CommandError, match="code: 137"):
        opened(stack, kept).up(on_output=kill)
    stack.write(PROGRAM)
    assert attached(opened(stack, kept).up()) != first


def test_one_that_is_not_there_is_told_of(stack: Stack) -> None:
    with (
        warm_command(warm_environment(stack), folder=stack.project, plugins=["nowhere"]) as command,
        pytest.raises(EngineError, match="no resource plugin 'pulumi-resource-nowhere' found"),
    ):
        opened(stack, command).up()


def test_one_that_does_not_come_up_is_told_of(stack: Stack) -> None:
    env = {**warm_environment(stack), "FAKE_START": "die"}
    with (
        warm_command(env, folder=stack.project, plugins=["fake"]) as command,
        pytest.raises(EngineError, match="ended before it had told its port"),
    ):
        opened(stack, command).up()


def test_where_nobody_listens_the_operation_says_so(stack: Stack) -> None:
    ran = stack.run("up", **{VARIABLE: "fake:1"})
    assert ran.code == 1
    assert "fake" in ran.text
    assert ran.has_no_engine_frames()
    assert stack.world() == stack.states() == {}


def test_ports_are_read_as_the_cli_reads_them() -> None:
    both = {VARIABLE: "other:12,fake:34"}
    assert (attach_port("fake", both), attach_port("other", both)) == (34, 12)
    assert (
        attach_port("third", both) is attach_port("fake", {}) is attach_port("fake", {VARIABLE: ""}) is None
    )
    with pytest.raises(EngineError, match="expected a port for fake, got 'here'"):
        attach_port("fake", {VARIABLE: "fake:here"})


def test_they_end_with_their_owner(stack: Stack, kept: WarmPulumiCommand, tmp_path: Path) -> None:
    kept.prepare()
    (plugin,) = kept._plugins._running.values()
    assert plugin.is_there
    kept.close()
    assert not plugin.is_there
