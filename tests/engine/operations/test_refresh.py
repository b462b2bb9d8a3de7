"""What a refresh leaves in the checkpoint, read as it stands: scenarios are compared without what is chance in it."""

from __future__ import annotations

from .stacks import CHAIN, Stack


def test_properties_that_come_from_nothing_are_listed_until_a_refresh_as_the_cli_has_it(stack: Stack) -> None:
    stack.write(CHAIN)
    stack.up(COUNT="2")
    before = dependencies(stack)
    first, second = sorted(before)
    assert before[first] == {"value": [], "size": []}
    assert before[second]["value"] == []
    assert len(before[second]["size"]) == 1
    refreshed = stack.run("refresh")
    assert refreshed.code == 0, refreshed.text
    assert dependencies(stack) == {first: {}, second: {"size": before[second]["size"]}}


def dependencies(stack: Stack) -> dict[str, dict[str, list[str]]]:
    """``propertyDependencies`` in the stack's file, by the names of resources."""
    return {
        state["urn"].rpartition("::")[2]: state.get("propertyDependencies", {})
        for state in stack.states().values()
    }
