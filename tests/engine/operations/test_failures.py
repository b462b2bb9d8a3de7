"""Providers that die and programs that fail: told in the person's words, and the state knows."""

from __future__ import annotations

import json

import pytest

from .stacks import CHAIN, Stack

LAST_WORDS = "fake: gave up in"


@pytest.mark.parametrize("method", ["create", "update", "delete"])
def test_a_provider_that_dies_leaves_its_step_pending(stack: Stack, method: str) -> None:
    stack.write(CHAIN)
    stack.up(COUNT="3")
    program = (stack.project / "__main__.py").read_text()
    if method == "update":
        stack.write(program.replace("value=i", "value=i + 1"))
    count = {"create": "4", "update": "3", "delete": "2"}[method]
    name = {"create": "r3", "update": "r1", "delete": "r2"}[method]
    before = stack.effects()
    ran = stack.run("up", COUNT=count, FAKE_FAULTS=json.dumps({f"{method}:{name}": "die"}))
    assert ran.code == 1
    assert ran.has_no_engine_frames()
    urn = f"urn:pulumi:dev::ops::fake:index:Item::{name}"
    assert f"plugin fake died while {method.capitalize()} of {urn} was under way" in ran.text
    assert f"{LAST_WORDS} {method} of {name}" in ran.text
    assert "ended with exit code 7" in ran.text
    doing = {"create": "creating", "update": "updating", "delete": "deleting"}[method]
    assert stack.pending() == [(name, doing)]
    assert not stack.locked()
    assert not stack.journal.exists()
    assert stack.world().keys() == stack.states().keys()
    assert stack.effects() - before == (1 if method == "update" else 0)  # r0 was updated before it
    again = stack.up(COUNT=count)
    assert f"{urn}, interrupted while {doing}" in again.text
    stack_names = {t["name"] for t in stack.world().values()}
    assert stack_names == {f"r{i}" for i in range(int(count))}
    assert stack.world().keys() == stack.states().keys()


def test_an_answer_that_was_lost_is_got_again(stack: Stack) -> None:
    stack.write(CHAIN)
    ran = stack.run("up", FAKE_FAULTS=json.dumps({"create:r1": "lost-answer"}))
    assert ran.code == 1
    assert stack.pending() == [("r1", "creating")]
    assert sorted(stack.world()) == ["r0-1", "r1-1"]
    assert sorted(stack.states()) == ["r0-1"]
    stack.up()
    stack.check_exact(3)


def test_a_provider_that_dies_among_many_steps(stack: Stack) -> None:
    """What ended well before is in the state, what was under way is pending, nothing is neither."""
    ran = stack.run("up", COUNT="40", FAKE_FAULTS=json.dumps({"create:r20": "die"}))
    assert ran.code == 1
    assert ran.has_no_engine_frames()
    world, states, pending = stack.world(), stack.states(), stack.pending()
    assert states.keys() <= world.keys()
    assert {world[id]["name"] for id in world.keys() - states.keys()} <= {name for name, _ in pending}
    assert ("r20", "creating") in pending
    stack.up(COUNT="40")
    stack.check_exact(40)


def test_with_continue_on_error_a_death_fails_the_rest(stack: Stack) -> None:
    ran = stack.run(
        "up",
        "--continue-on-error",
        "--parallel",
        "1",
        COUNT="5",
        FAKE_FAULTS=json.dumps({"create:r1": "die"}),
    )
    assert ran.code == 1
    assert ran.has_no_engine_frames()
    assert "r1-1" not in stack.world()
    assert stack.states().keys() == stack.world().keys()
    assert f"{LAST_WORDS} create of r1" in ran.text
    # The program ends when a registration fails, and which ones it had sent by then is a matter of its threads: not
    # all need be heard of. But nothing is made after the death, and what was begun is told to have failed.
    before, after = ran.text.split("died while Create", 1)
    names = {f"r{number}" for number in range(5)}
    assert {t["name"] for t in stack.world().values()} == {n for n in names if f"Item {n} created" in before}
    assert not [name for name in names if f"Item {name} created" in after]
    begun = {name for name in names if f"Item {name} creating" in ran.text} - {
        name for name in names if f"Item {name} created" in before
    }
    assert "r1" in begun
    assert not [name for name in begun if f"Item {name} **creating failed**" not in after]
    assert ("r1", "creating") in stack.pending()
    stack.up(COUNT="5")
    stack.check_exact(5)


def test_a_provider_that_dies_while_comparing_leaves_nothing_pending(stack: Stack) -> None:
    stack.up()
    for method in ("check", "diff"):
        ran = stack.run("up", FAKE_FAULTS=json.dumps({f"{method}:r1": "die"}))
        assert ran.code == 1
        assert f"{LAST_WORDS} {method} of r1" in ran.text
        assert ran.has_no_engine_frames()
        assert stack.pending() == []
    stack.check_exact(3)


def test_a_provider_that_does_not_start(stack: Stack) -> None:
    for start, told in (
        ("die", "the fake provider does not start today"),
        ("babble", "where its port is expected"),
    ):
        ran = stack.run("up", FAKE_START=start)
        assert ran.code == 1
        assert told in ran.text
        assert ran.has_no_engine_frames()
        assert stack.world() == {}
        assert not stack.locked()
        assert not stack.journal.exists()


PROGRAMS = {
    "an exception": (
        'def deep():\n    raise ValueError("too deep")\n',
        "deep()",
        ["ValueError: too deep", "in deep"],
    ),
    "an exception in an apply": ("", 'a.id.apply(lambda _: {}["nowhere"])', ["KeyError: 'nowhere'"]),
    "a cause": (
        "",
        'try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise RuntimeError("cannot divide") from error',
        ["ZeroDivisionError", "RuntimeError: cannot divide", "direct cause"],
    ),
    "a mistake in its text": ("", "def :", ["SyntaxError"]),
    "a missing module": ("", "import no_such_module", ["No module named 'no_such_module'"]),
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_program_that_fails_shows_its_own_traceback(stack: Stack, kind: str) -> None:
    before, body, told = PROGRAMS[kind]
    stack.write(f'from fake_sdk import Item\n{before}\na = Item("r0", value=0)\n{body}\n')
    ran = stack.run("up")
    assert ran.code == 1
    assert "Traceback (most recent call last)" in ran.text or "SyntaxError" in told
    assert "__main__.py" in ran.text
    for part in told:
        assert part in ran.text
    assert ran.has_no_engine_frames(), ran.text
    assert stack.world().keys() == stack.states().keys()
    assert not stack.locked()


def test_a_program_that_ends_with_an_exit_code(stack: Stack) -> None:
    stack.write('import sys\nfrom fake_sdk import Item\nItem("r0", value=0)\nsys.exit(3)\n')
    ran = stack.run("up")
    assert ran.code == 1
    assert "rogram exited with non-zero exit code: 3" in ran.text
    assert "Traceback" not in ran.text


def test_a_failed_resource_is_no_traceback(stack: Stack) -> None:
    stack.write(CHAIN)
    ran = stack.run("up", FAKE_FAULTS=json.dumps({"create:r1": "fail"}))
    assert ran.code == 1
    assert "create of r1 failed" in ran.text
    assert "Traceback" not in ran.text
    assert ran.has_no_engine_frames()
    assert sorted(stack.states()) == sorted(stack.world()) == ["r0-1"]
    assert stack.pending() == []


def test_the_state_tells_the_calls_of_the_program_and_not_what_ran_it(stack: Stack) -> None:
    stack.write('from fake_sdk import Item\ndef make():\n    Item("r0", value=0)\nmake()\n')
    stack.up()
    (state,) = stack.states().values()
    places = [frame["sourcePosition"] for frame in state["stackTrace"] if frame]
    assert places == ["project:///__main__.py#3", "project:///__main__.py#4"]


LOST_ASSET = """
import pulumi
from fake_sdk import Item
for i in range(3):
    Item(f"r{i}", value=i)
%s
"""
LOST = 'Item("lost", value=pulumi.FileAsset("nowhere.txt"), opts=pulumi.ResourceOptions(depends_on=[]))'


def test_an_asset_that_cannot_be_read_fails_its_own_registration(stack: Stack) -> None:
    """The program is told by an exception, as of anything else that is refused; other resources are made."""
    stack.write(LOST_ASSET % LOST)
    ran = stack.run("up")
    assert ran.code == 1
    assert "Program failed with an unhandled exception" in ran.text
    assert "failed to open asset file" in ran.text
    assert "nowhere.txt" in ran.text
    assert ran.has_no_engine_frames()
    assert stack.world().keys() == stack.states().keys()
    assert stack.pending() == []


def test_a_program_may_do_without_an_asset(stack: Stack) -> None:
    told = """
async def attempt():
    request = pb.RegisterResourceRequest(type="fake:index:Item", name="lost", custom=True)
    request.object.update({"value": {
        "4dabf18193072939515e22adb298388d": "c44067f5952c0a294b673a41bacd8c17", "uri": "http://127.0.0.1:9/none"}})
    try:
        await asyncio.to_thread(pulumi.runtime.settings.get_monitor().RegisterResource, request)
    except Exception as error:
        print("refused:", error)
import asyncio
from pulumi.runtime.proto import resource_pb2 as pb
pulumi.export("done", pulumi.Output.from_input(attempt()))
"""
    stack.write(LOST_ASSET % told)
    ran = stack.up()
    assert "refused: failed to fetch 'http://127.0.0.1:9/none'" in ran.text
    assert sorted(stack.states()) == ["r0-1", "r1-1", "r2-1"]
