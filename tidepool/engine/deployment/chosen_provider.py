"""Which provider serves a request of the program: the one it names, or the package's default provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidepool.engine.deployment.graph import provider_urn
from tidepool.engine.deployment.plugin_request import PluginRequest
from tidepool.engine.deployment.registration import RequestRefused
from tidepool.engine.providers.contract import Provider

if TYPE_CHECKING:
    from tidepool.engine.deployment.deployment import Deployment


async def chosen_provider(d: Deployment, reference: str, plugin: PluginRequest, token: str) -> Provider:
    """The provider ``reference`` (``URN::ID``), or the default one of ``plugin`` where it is empty.

    Raises:
        RequestRefused: where it names none, or there is to be no default provider; ``token`` is what asks for it.
    """
    if not reference:
        reference = await default_reference(d, plugin, token)
    elif "::" not in provider_urn(reference):
        raise RequestRefused(f"bad provider reference '{reference}'")
    return await d.registry.get(reference)


async def default_reference(d: Deployment, plugin: PluginRequest, token: str) -> str:
    """The reference of the default provider of ``plugin``, which is made where it is not there yet.

    Raises:
        RequestRefused: where default providers of the package are disabled; ``token`` is what asks for it.
    """
    try:
        return await d.default_providers.reference(plugin)
    except PermissionError:
        raise RequestRefused(
            f"Default provider for '{plugin.package}' disabled. '{token}' must use an explicit provider."
        ) from None
