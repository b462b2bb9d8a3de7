"""Which plugins are started before the program asks for them."""

from __future__ import annotations

from pathlib import Path

from tidepool.engine.project import PluginPath
from tidepool.engine.providers.discovery import PluginRequest
from tidepool.engine.resource import ResourceState, Snapshot
from tidepool.engine.running import likely_plugins

_OF_PROJECT = (PluginPath("fake", Path("/plugins/fake")),)


def test_a_stack_without_resources_starts_those_of_the_project() -> None:
    assert likely_plugins(Snapshot(), _OF_PROJECT) == [PluginRequest("fake")]
    assert likely_plugins(Snapshot(), ()) == []


def test_a_stack_with_resources_starts_those_that_it_uses_and_no_others() -> None:
    urn = "urn:pulumi:dev::ops::pulumi:providers:other::default"
    provider = ResourceState(urn=urn, type="pulumi:providers:other", custom=True, id="1")
    its = ResourceState(
        urn="urn:pulumi:dev::ops::other:index:Item::a",
        type="other:index:Item",
        custom=True,
        provider=f"{urn}::1",
    )
    assert likely_plugins(Snapshot(resources=(provider, its)), _OF_PROJECT) == [PluginRequest("other")]
    assert likely_plugins(Snapshot(resources=(provider,)), _OF_PROJECT) == []
