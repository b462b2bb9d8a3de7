"""Which plugin is asked for where the program does not say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from pulumi.runtime.proto import resource_pb2

from tidepool.engine.deployment.calls import DefaultProviders, newest_plugins
from tidepool.engine.deployment.deployment import Deployment
from tidepool.engine.deployment.goal import Goal
from tidepool.engine.deployment.registry import with_plugin
from tidepool.engine.deployment.step import Registered
from tidepool.engine.providers.discovery import PluginRequest
from tidepool.engine.resource import ResourceState, Snapshot

from .play import Order, play
from .programs import Program
from .world import World


def provider(name: str, version: str = "", url: str = "") -> ResourceState:
    type = "pulumi:providers:mem"
    return ResourceState(
        urn=f"urn:pulumi:dev::graph::{type}::{name}",
        type=type,
        custom=True,
        id=f"{name}-id",
        inputs=with_plugin({}, version, url),
    )


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([], None),
        ([provider("a")], PluginRequest("mem")),
        ([provider("a", "1.9.0"), provider("b", "1.10.0"), provider("c")], PluginRequest("mem", "1.10.0")),
        (
            [provider("a", "2.0.0-rc.1"), provider("b", "2.0.0", "https://x")],
            PluginRequest("mem", "2.0.0", "https://x"),
        ),
    ],
)
def test_the_newest_plugin_of_the_stack_is_the_usual_one(
    states: list[ResourceState], expected: PluginRequest | None
) -> None:
    assert newest_plugins(states).get("mem") == expected


async def _never(goal: Goal) -> Registered:
    raise AssertionError(f"{goal} is registered")


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (PluginRequest("mem"), PluginRequest("mem", "1.2.0", "https://x")),
        (PluginRequest("mem", "3.0.0"), PluginRequest("mem", "3.0.0", "https://x")),
        (PluginRequest("mem", "", "https://y"), PluginRequest("mem", "1.2.0", "https://y")),
        (PluginRequest("other"), PluginRequest("other")),
    ],
)
def test_default_providers_take_what_is_left_open_from_the_stack(
    asked: PluginRequest, given: PluginRequest
) -> None:
    base = [provider("a", "1.2.0", "https://x")]
    assert DefaultProviders({}, base, _never).completed(asked) == given


@dataclass(frozen=True, slots=True)
class Explicit(Program):
    """A program of one provider."""

    version: str = ""

    async def run(self, deployment: Deployment) -> None:
        request = resource_pb2.RegisterResourceRequest(
            type="pulumi:providers:mem", name="p", custom=True, version=self.version
        )
        await deployment.serve(deployment.service.register_resource(request))


@pytest.mark.parametrize(("said", "taken"), [("", "1.2.0"), ("1.1.0", "1.1.0")])
def test_an_explicit_provider_takes_the_plugin_of_default_ones_unless_it_says_which(
    said: str, taken: str, tmp_path: Path
) -> None:
    base = Snapshot(resources=(provider("old", "1.2.0"),))
    played = play(Order(), Explicit((), version=said), base, World(), tmp_path)
    assert played.errors == []
    assert [r.inputs["version"] for r in played.snapshot.resources] == [taken]
