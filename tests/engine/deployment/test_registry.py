"""How many processes a provider has in one operation."""

from __future__ import annotations

import asyncio

import pytest

from tidepool.engine.deployment.registry import Registry, with_plugin
from tidepool.engine.providers.discovery import PluginRequest
from tidepool.engine.resource import ResourceState
from tidepool.engine.values import Properties

from .world import MemoryProvider, World

TYPE = "pulumi:providers:mem"
STATE = ResourceState(
    urn=f"urn:pulumi:dev::graph::{TYPE}::default", type=TYPE, custom=True, id="its-id", inputs={"key": "a"}
)


@pytest.mark.parametrize(
    ("inputs", "processes"),
    [(STATE.inputs, 1), (with_plugin(STATE.inputs, "1.2.0", ""), 2), ({"key": "b"}, 2)],
    ids=["the same", "another version", "another configuration"],
)
@pytest.mark.parametrize("is_asked_for_before", [True, False])
def test_one_that_did_not_change_has_one_process(
    inputs: Properties, processes: int, is_asked_for_before: bool
) -> None:
    """Old resources ask for it before the program registers it, or the other way round."""
    loaded: list[MemoryProvider] = []

    async def load(_: PluginRequest) -> MemoryProvider:
        loaded.append(MemoryProvider(World(), {}, lambda: 0, lambda: None, lambda: None))
        return loaded[-1]

    async def operation() -> None:
        reference = f"{STATE.urn}::{STATE.id}"
        registry = Registry(load, {reference: STATE}.get)
        if is_asked_for_before:
            await registry.ensure(reference)
        assert not (await registry.check(STATE.urn, STATE.inputs, inputs, b"", False)).failures
        if inputs == STATE.inputs:
            await registry.same(STATE, checked=True)
        await registry.get(reference)
        await registry.close_all()

    asyncio.run(operation())
    assert len(loaded) == processes
    assert all(each.closed for each in loaded)
