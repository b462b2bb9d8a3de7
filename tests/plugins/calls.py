"""A plugin of the tests, called as Pulumi calls it, without a process around it."""

from __future__ import annotations

from typing import Any

from tests.plugins.serving import Kinds, PluginProvider
from tests.provider.calls import Called
from tidepool.provider.provider import EngineLog


def plugin_calls(kinds: Kinds, token: str, **configuration: Any) -> Called:
    """The plugin of ``kinds`` with that configuration, asked about the type ``token``."""
    calls = Called(PluginProvider(kinds, EngineLog(""), lambda: None), token)
    calls.configure(configuration)
    return calls
