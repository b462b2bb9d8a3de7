"""The Automation API on the embedded engine: programs, outputs, events, and its own classes of errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi import automation

from tidepool.engine import EmbeddedPulumiCommand

from .stacks import Stack, await_line, ended

LOCAL = """
import pulumi
from fake_sdk import Item
config = pulumi.Config()
a = Item("a", value=config.require("value"), secret=pulumi.Output.secret("hidden"))
pulumi.export("id", a.id)
pulumi.export("size", 3)
pulumi.export("nested", {"list": [1, None, "x"]})
pulumi.export("password", pulumi.Output.secret("hidden"))
"""


@pytest.fixture
def folder(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """A stack whose environment is this process's own, as that of an Automation API program is."""
    for name in list(os.environ):
        if name.startswith(("PULUMI_", "FAKE_")):
            monkeypatch.delenv(name)
    for name, value in stack.env.items():
        if name.startswith(("PULUMI_", "FAKE_", "PYTHONPATH", "PATH")):
            monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "plugins"))
    yield stack
    sys.modules.pop("fake_sdk", None)


def options(**more: Any) -> automation.LocalWorkspaceOptions:
    return automation.LocalWorkspaceOptions(pulumi_command=EmbeddedPulumiCommand(), **more)


def local(stack: Stack) -> automation.Stack:
    """The stack of the project in the folder."""
    opened = automation.create_or_select_stack("dev", work_dir=str(stack.project), opts=options())
    opened.set_config("value", automation.ConfigValue("one"))
    return opened


def inline(stack: Stack, program: Callable[[], None]) -> automation.Stack:
    """A stack of an inline program, in the project of the folder."""
    return automation.create_or_select_stack(
        "dev", project_name="ops", program=program, opts=options(work_dir=str(stack.project))
    )


def test_a_local_program_goes_through_its_life(folder: Stack) -> None:
    folder.write(LOCAL)
    stack = local(folder)
    lines: list[str] = []
    events: list[automation.EngineEvent] = []

    previewed = stack.preview(on_event=events.append)
    assert previewed.change_summary == {automation.OpType.CREATE: 2}
    assert folder.world() == {}

    up = stack.up(on_output=lines.append, on_event=events.append)
    assert up.summary.result == "succeeded"
    assert up.summary.kind == "update"
    assert up.summary.resource_changes == {"create": 2}
    assert any("a created" in line for line in lines)
    assert up.stdout == "\n".join(lines)
    assert any(e.res_outputs_event and e.res_outputs_event.metadata.urn.endswith("::a") for e in events)
    assert sum(e.summary_event is not None for e in events) == 2  # of the preview and the update
    for outputs in (up.outputs, stack.outputs()):
        assert {k: (v.value, v.secret) for k, v in outputs.items()} == {
            "id": ("a-1", False),
            "size": (3, False),
            "nested": ({"list": [1, None, "x"]}, False),
            "password": ("hidden", True),
        }
    assert "hidden" not in up.stdout + up.stderr
    assert "hidden" not in folder.file.read_text()

    stack.set_config("value", automation.ConfigValue("two", secret=True))
    assert stack.up().summary.resource_changes == {"same": 1, "update": 1}
    assert folder.world()["a-1"]["props"]["value"] == "two"

    folder.lose("a-1")
    refreshed = stack.refresh()
    assert refreshed.summary.resource_changes is not None
    assert refreshed.summary.resource_changes[automation.OpType.DELETE] == 1
    assert folder.states() == {}
    assert stack.up().summary.resource_changes == {"same": 1, "create": 1}

    destroyed = stack.destroy()
    assert destroyed.summary.kind == "destroy"
    assert destroyed.summary.resource_changes == {"delete": 2}
    assert folder.world() == {}
    assert [u.kind for u in stack.history()] == ["destroy", "update", "refresh", "update", "update"]
    stack.workspace.remove_stack("dev")
    assert [s.name for s in stack.workspace.list_stacks()] == []


def test_an_inline_program(folder: Stack) -> None:
    said = "one"

    def program() -> None:
        from fake_sdk import Item

        item = Item("a", value=said)
        pulumi.export("value", item.value)
        pulumi.export("password", pulumi.Output.secret("hidden"))
        pulumi.info("the program speaks")

    stack = inline(folder, program)
    lines: list[str] = []
    assert stack.preview().change_summary == {automation.OpType.CREATE: 2}
    up = stack.up(on_output=lines.append)
    assert up.outputs["value"].value == "one"
    assert up.outputs["password"].secret
    assert any("the program speaks" in line for line in lines)
    said = "two"
    assert stack.up().outputs["value"].value == "two"
    assert stack.up().summary.resource_changes == {"same": 2}
    stack.destroy()
    assert folder.world() == {}


def test_an_inline_program_that_fails(folder: Stack) -> None:
    def program() -> None:
        raise ValueError("it cannot be")

    with pytest.raises(automation.InlineSourceRuntimeError) as caught:
        inline(folder, program).up()
    assert "ValueError: it cannot be" in str(caught.value)
    assert "test_automation.py" in str(caught.value)
    check_own_words(caught.value)
    assert not folder.locked()


def test_a_local_program_that_fails(folder: Stack) -> None:
    folder.write('def deep():\n    raise ValueError("it cannot be")\n\ndeep()\n')
    for operation in (local(folder).preview, local(folder).up):
        with pytest.raises(automation.errors.RuntimeError) as caught:
            operation()
        assert 'project/__main__.py", line 2, in deep' in str(caught.value)
        assert "ValueError: it cannot be" in str(caught.value)
        check_own_words(caught.value)


def test_a_failed_resource_is_a_command_error(folder: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write(LOCAL)
    stack = local(folder)
    monkeypatch.setenv("FAKE_FAULTS", json.dumps({"create:a": "fail"}))
    with pytest.raises(automation.CommandError) as caught:
        stack.up()
    assert type(caught.value) is automation.CommandError
    assert "create of a failed" in str(caught.value)
    assert "Traceback" not in str(caught.value)
    check_own_words(caught.value)
    monkeypatch.delenv("FAKE_FAULTS")
    assert stack.up().outputs["id"].value == "a-1"


def test_a_stack_that_is_not_there(folder: Stack) -> None:
    with pytest.raises(automation.StackNotFoundError):
        automation.select_stack("nowhere", work_dir=str(folder.project), opts=options())


def test_a_stack_that_is_there_already(folder: Stack) -> None:
    with pytest.raises(automation.StackAlreadyExistsError):
        automation.create_stack("dev", work_dir=str(folder.project), opts=options())


def test_two_at_once(folder: Stack) -> None:
    process: subprocess.Popen[str] = folder.start(
        "up", COUNT="1", FAKE_FAULTS=json.dumps({"create:r0": "hang:600"})
    )
    try:
        await_line(process, process.stdout, "r0 creating")
        stack = automation.select_stack("dev", work_dir=str(folder.project), opts=options())
        for operation in (stack.up, stack.refresh, stack.destroy):
            with pytest.raises(automation.ConcurrentUpdateError) as caught:
                operation()
            assert f"(pid {process.pid})" in str(caught.value)
            check_own_words(caught.value)
        stack.cancel()
        assert not folder.locked()
    finally:
        process.kill()
        ended(process)


def test_what_is_not_supported_is_a_command_error(folder: Stack) -> None:
    stack = local(folder)
    with pytest.raises(automation.CommandError, match="policy"):
        stack.up(policy_packs=["here"])
    assert folder.world() == {}


def check_own_words(error: automation.CommandError) -> None:
    """No traceback of the engine is in what the person gets."""
    assert "/tidepool/engine/" not in str(error)
