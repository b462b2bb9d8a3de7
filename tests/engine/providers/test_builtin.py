from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from tidepool.engine.errors import EngineError
from tidepool.engine.providers.builtin import BuiltinProvider
from tidepool.engine.providers.contract import (
    CheckFailure,
    DiffResult,
    Existing,
    InvokeResult,
    Provider,
    ProviderError,
)
from tidepool.engine.resource import ResourceState
from tidepool.engine.values import UNKNOWN, Properties, Secret

STASH = "urn:pulumi:dev::p::pulumi:index:Stash::s"
REFERENCE = "urn:pulumi:dev::p::pulumi:pulumi:StackReference::r"
OTHER = "urn:pulumi:dev::p::pulumi:index:None::r"
ITEM = ResourceState(
    "urn:item", "a:b:C", True, id="i-1", provider="urn:provider::p-1", outputs={"x": Secret(1)}
)
warnings: list[tuple[str, str]] = []


def stack_outputs(name: str) -> Properties:
    if name != "org/proj/other":
        raise EngineError(f"unknown stack {name!r}")
    return {"url": "u", "key": Secret("k"), "a": [Secret(1)]}


@pytest.fixture
def provider() -> Provider:
    warnings.clear()
    return BuiltinProvider(
        stack_outputs, {ITEM.urn: ITEM}.get, lambda urn, text: warnings.append((urn, text))
    )


def run(answer: Awaitable[Any]) -> Any:
    async def wait() -> Any:
        return await answer

    return asyncio.run(wait())


def test_a_stash_keeps_what_was_stashed_first(provider: Provider) -> None:
    assert run(provider.check(STASH, {}, {"input": 1}, b"", False)).inputs == {"input": 1}
    made = run(provider.create(STASH, {"input": Secret(1)}, 0, False))
    assert made.id
    assert made.outputs == {"input": Secret(1), "output": Secret(1)}
    changed = run(provider.diff(STASH, Existing(made.id, {"input": 1}, made.outputs), {"input": True}, ()))
    assert changed == DiffResult("some", changed_keys=("input",))
    updated = run(
        provider.update(STASH, Existing(made.id, {"input": 1}, made.outputs), {"input": 2}, 0, (), False)
    )
    assert updated.outputs == {"input": 2, "output": Secret(1)}
    found = run(provider.read(STASH, Existing(made.id, {"input": 2}, updated.outputs)))
    assert (found.id, found.outputs) == (made.id, updated.outputs)
    run(provider.delete(STASH, Existing(made.id, {}, {}), 0))


def test_a_preview_has_no_id(provider: Provider) -> None:
    assert run(provider.create(STASH, {"input": UNKNOWN}, 0, True)).id == ""


@pytest.mark.parametrize(
    ("urn", "news", "failure"),
    [
        (STASH, {}, CheckFailure("input", 'missing required property "input"')),
        (STASH, {"input": 1, "more": 1}, CheckFailure("more", 'unknown property "more"')),
        (REFERENCE, {}, CheckFailure("name", 'missing required property "name"')),
        (REFERENCE, {"name": 3}, CheckFailure("name", 'property "name" must be a string')),
    ],
)
def test_wrong_inputs_are_named(
    provider: Provider, urn: str, news: Properties, failure: CheckFailure
) -> None:
    assert run(provider.check(urn, {}, news, b"", False)).failures == (failure,)


def test_a_stack_reference_reads_the_other_stack(provider: Provider) -> None:
    expected = {
        "name": "org/proj/other",
        "outputs": stack_outputs("org/proj/other"),
        "secretOutputNames": ["a", "key"],
    }
    inputs = {"name": "org/proj/other"}
    assert run(provider.read(REFERENCE, Existing("i", inputs, inputs))).outputs == expected
    assert run(provider.create(REFERENCE, inputs, 0, False)).outputs == expected
    assert run(provider.invoke("pulumi:pulumi:readStackOutputs", inputs, False)) == InvokeResult(expected)
    other = run(provider.diff(REFERENCE, Existing("i", inputs, {}), {"name": "x"}, ()))
    assert other.replace_keys == ("name",)
    run(provider.check(REFERENCE, {}, inputs, b"", False))
    assert warnings[0][0] == REFERENCE


def test_an_unknown_stack_is_an_error_of_the_resource(provider: Provider) -> None:
    with pytest.raises(ProviderError, match="unknown stack 'x'"):
        run(provider.read(REFERENCE, Existing("i", {"name": "x"}, {"name": "x"})))


def test_a_resource_can_be_looked_up(provider: Provider) -> None:
    found = run(provider.invoke("pulumi:pulumi:getResource", {"urn": ITEM.urn}, False))
    assert found.returns == {
        "urn": ITEM.urn,
        "id": "i-1",
        "provider": ITEM.provider,
        "state": {"x": Secret(1)},
    }
    with pytest.raises(ProviderError, match="unknown resource urn:none"):
        run(provider.invoke("pulumi:pulumi:getResource", {"urn": "urn:none"}, False))


def test_what_it_does_not_know_it_refuses(provider: Provider) -> None:
    for call in (
        provider.check(OTHER, {}, {}, b"", False),
        provider.diff(OTHER, Existing("i", {}, {}), {}, ()),
        provider.create(OTHER, {}, 0, False),
        provider.update(OTHER, Existing("i", {}, {}), {}, 0, (), False),
        provider.read(OTHER, Existing("i", {}, {})),
    ):
        with pytest.raises(ProviderError, match="unrecognized resource type 'pulumi:index:None'"):
            run(call)
    with pytest.raises(ProviderError, match="unrecognized function name"):
        run(provider.invoke("pulumi:pulumi:none", {}, False))
    with pytest.raises(ProviderError, match="not supported by the embedded engine"):
        run(provider.invoke("pulumi:pulumi:readStackResourceOutputs", {"stackName": "x"}, False))
