"""The plugin that a provider resource asks for, and how it asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tidepool.engine import urn as urns
from tidepool.engine.providers.contract import ProviderError
from tidepool.engine.resource import PROVIDER_TYPE_PREFIX
from tidepool.engine.values import Properties, Secret

#: Options of the engine among a provider's inputs; they are not the provider's to see.
INTERNAL: Final = "__internal"
VERSION: Final = "version"
_DOWNLOAD_URL: Final = "pluginDownloadURL"


@dataclass(frozen=True, slots=True)
class PluginRequest:
    """The plugin that a provider resource asks for. ``version`` and ``download_url`` may be empty."""

    package: str
    version: str = ""
    download_url: str = ""


def plugin_request(urn: str, inputs: Properties) -> PluginRequest:
    """The plugin that a provider resource asks for by its type and inputs; secrets never name a plugin."""
    package = urns.type_of(urn).removeprefix(PROVIDER_TYPE_PREFIX)
    if "parameterization" in _internal(inputs) or "parameterization" in inputs:
        raise ProviderError(
            f"provider {urns.name_of(urn)!r} of package {package!r} is parameterized, which the embedded "
            "engine does not do; the Pulumi CLI does"
        )
    url = _internal(inputs).get(_DOWNLOAD_URL, inputs.get(_DOWNLOAD_URL))
    return PluginRequest(package, _text(inputs.get(VERSION)), _text(url))


def with_plugin(inputs: Properties, version: str, download_url: str) -> Properties:
    """A provider's inputs that ask for that plugin."""
    if not version and not download_url:
        return inputs
    internal = dict(_internal(inputs))
    inputs = {**inputs, INTERNAL: internal}
    if version:
        inputs[VERSION] = version
    if download_url:
        internal[_DOWNLOAD_URL] = download_url
    return inputs


def _internal(inputs: Properties) -> Properties:
    value = inputs.get(INTERNAL)
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    if isinstance(value, Secret):
        value = value.element
    return value if isinstance(value, str) else ""
