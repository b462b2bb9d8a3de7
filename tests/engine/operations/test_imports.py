"""The option ``import_``: what exists becomes part of the stack, and then what the program says that it is."""

from __future__ import annotations

import json

import pytest

from .stacks import Stack

URN = "urn:pulumi:dev::ops::fake:index:Item::mine"


def program(inputs: str, options: str = 'import_="there-1"') -> str:
    return f"""
import pulumi
from fake_sdk import Item
mine = Item("mine", {inputs}, opts=pulumi.ResourceOptions({options}))
pulumi.export("serial", mine.serial)
"""


@pytest.fixture
def there(stack: Stack) -> Stack:
    """A stack beside which there is something that it does not have."""
    effect = {"op": "create", "id": "there-1", "type": "fake:index:Item", "name": "there", "serial": 1}
    with (stack.world_folder / "world.jsonl").open("a") as file:
        file.write(json.dumps({**effect, "props": {"name": "there", "value": 1}}) + "\n")
    return stack


def test_what_is_as_the_program_says_is_only_taken_in(there: Stack) -> None:
    there.write(program('name="there", value=1'))
    preview = there.run("preview", "--diff")
    assert preview.code == 0, preview.text
    assert "= fake:index:Item: (import)" in preview.out
    assert "= 1 to import" in preview.out
    assert there.states() == {}
    ran = there.up()
    assert " =  fake:index:Item mine imported" in ran.out
    assert "= 1 imported" in ran.out
    assert there.effects() == 1, "nothing was done to it"
    (state,) = there.states().values()
    assert (state["id"], state["importID"], state["inputs"]) == (
        "there-1",
        "there-1",
        {"name": "there", "value": 1},
    )
    assert state["outputs"] == {"name": "there", "value": 1, "serial": 1}
    # The program may go on saying so, or stop.
    assert there.run("up", "--expect-no-changes").code == 0
    there.write(program('name="there", value=1', ""))
    assert there.run("up", "--expect-no-changes").code == 0
    assert there.run("destroy").code == 0
    assert there.world() == {}


def test_what_differs_is_changed_after_it_was_taken_in(there: Stack) -> None:
    """As the CLI does; the preview tells of both steps, so nobody is surprised."""
    there.write(program('name="there", value=2'))
    preview = there.run("preview", "--diff")
    assert preview.code == 0, preview.text
    assert "= 1 to import" in preview.out
    assert "~ 1 to update" in preview.out
    assert "value: 1 => 2" in preview.out
    ran = there.up()
    assert "= 1 imported" in ran.out
    assert "~ 1 updated" in ran.out
    assert there.world()["there-1"]["props"]["value"] == 2
    assert there.states()["there-1"]["inputs"]["value"] == 2
    assert there.run("up", "--expect-no-changes").code == 0


def test_what_could_only_be_replaced_fails_with_the_differences(there: Stack) -> None:
    there.write(program('name="mine", value=1'))
    preview = there.run("preview")
    assert "may not be replaced" in preview.text
    ran = there.run("up")
    assert ran.code == 1
    assert "please remove the `import` declaration from your program;" in ran.text
    assert "name: there => mine" in ran.text
    assert ran.has_no_engine_frames()
    assert list(there.world()) == ["there-1"]
    assert not there.locked()


def test_differences_that_are_ignored_stay(there: Stack) -> None:
    there.write(program('name="there", value=2', 'import_="there-1", ignore_changes=["value"]'))
    ran = there.up()
    assert "updated" not in ran.out
    assert there.states()["there-1"]["inputs"]["value"] == 1
    assert there.effects() == 1


@pytest.mark.parametrize("verb", ["preview", "up"])
def test_what_is_not_there_fails(stack: Stack, verb: str) -> None:
    stack.write(program('name="there", value=1'))
    ran = stack.run(verb)
    assert ran.code == 1
    assert "resource 'there-1' does not exist" in ran.text
    assert ran.has_no_engine_frames()
    assert stack.states() == {}
    assert stack.pending() == []


def test_a_resource_of_the_stack_gives_way_to_an_imported_one(there: Stack) -> None:
    there.write(program('name="there", value=5', ""))
    there.up()
    assert sorted(there.world()) == ["there-1", "there-2"]
    there.write(program('name="there", value=1'))
    ran = there.up()
    assert "+-1 replaced" in ran.out
    assert list(there.world()) == list(there.states()) == ["there-1"]
    assert there.run("up", "--expect-no-changes").code == 0


def test_a_provider_that_dies_leaves_it_listed(there: Stack) -> None:
    there.write(program('name="there", value=1'))
    ran = there.run("up", FAKE_FAULTS=json.dumps({"read:mine": "die"}))
    assert ran.code == 1
    assert ran.has_no_engine_frames()
    there.up()
    assert list(there.states()) == ["there-1"]
