"""The providers of resources that name none: made by the engine, one a package and version."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from tidepool.engine.deployment.goal import Goal
from tidepool.engine.deployment.registry import plugin_request, with_plugin
from tidepool.engine.deployment.status import RequestRefused
from tidepool.engine.deployment.step import Registered
from tidepool.engine.providers.contract import ProviderError
from tidepool.engine.providers.discovery import PluginRequest
from tidepool.engine.providers.versions import Version
from tidepool.engine.resource import PROVIDER_TYPE_PREFIX, ResourceState
from tidepool.engine.values import Properties, Secret

#: Packages whose providers are made of the program itself: they see the whole configuration.
DYNAMIC_PACKAGES: Final = frozenset({"pulumi-python", "pulumi-nodejs"})

Register = Callable[[Goal], Coroutine[Any, Any, Registered]]


class DefaultProviders:
    """References of default providers, each registered when it is first asked for."""

    def __init__(self, config: Properties, base: Iterable[ResourceState], register: Register) -> None:
        """``config`` holds full keys (``ns:name``), secret values as secrets; ``base`` is the stack's state."""
        self._config = config
        self._register = register
        self._usual = newest_plugins(base)
        self._references: dict[PluginRequest, asyncio.Task[str]] = {}

    async def reference(self, request: PluginRequest, token: str) -> str:
        """Return the reference (``URN::ID``) of the default provider of a package, made where it is not there yet.

        Raises:
            RequestRefused: where default providers of the package are disabled; ``token`` is what asks for it.
        """
        if self._is_disabled(request.package):
            raise RequestRefused(
                f"Default provider for '{request.package}' disabled. '{token}' must use an explicit provider."
            )
        request = self.completed(request)
        task = self._references.get(request)
        if task is None:
            task = asyncio.create_task(self._make(request))
            self._references[request] = task
        return await asyncio.shield(task)

    def completed(self, request: PluginRequest) -> PluginRequest:
        """``request`` with what it leaves open as the stack has it already: its newest plugin of the package."""
        usual = self._usual.get(request.package, request)
        return PluginRequest(
            request.package, request.version or usual.version, request.download_url or usual.download_url
        )

    async def _make(self, request: PluginRequest) -> str:
        goal = Goal(
            type=PROVIDER_TYPE_PREFIX + request.package,
            name=default_name(request),
            custom=True,
            properties=with_plugin(
                self.configuration(request.package), request.version, request.download_url
            ),
        )
        registered = await self._register(goal)
        return f"{registered.state.urn}::{registered.state.id}"

    def configuration(self, package: str) -> Properties:
        """Return the part of the stack's configuration that is for the providers of a package."""
        if package in DYNAMIC_PACKAGES:
            return dict(self._config)
        prefix = f"{package}:"
        return {k.removeprefix(prefix): v for k, v in self._config.items() if k.startswith(prefix)}

    def _is_disabled(self, package: str) -> bool:
        value = self._config.get("pulumi:disable-default-providers")
        if isinstance(value, Secret):
            value = value.element
        if package == "pulumi" or not value:
            return False
        try:
            barred = [str(v).strip() for v in json.loads(value)]
        except (ValueError, TypeError) as error:
            raise ValueError(f"Failed to parse {value}: {error}") from error
        return "*" in barred or package in barred


def newest_plugins(states: Iterable[ResourceState]) -> dict[str, PluginRequest]:
    """The plugin with the highest version that providers among ``states`` ask for, by package."""
    newest: dict[str, tuple[Version | None, PluginRequest]] = {}
    for state in states:
        if not state.is_provider:
            continue
        try:
            plugin = plugin_request(state.urn, state.inputs)
            version = Version.parse(plugin.version) if plugin.version else None
        except (ProviderError, ValueError):
            continue  # not one that can be loaded: whoever needs this very provider is told why
        best, _ = newest.get(plugin.package, (None, plugin))
        if best is None or (version is not None and version >= best):
            newest[plugin.package] = version, plugin
    return {package: plugin for package, (_, plugin) in newest.items()}


def default_name(request: PluginRequest) -> str:
    """The name of the default provider resource: ``default``, with version and URL where given."""
    parts = ["default"]
    if request.version:
        parts.append(re.sub(r"[.+-]", "_", request.version))
    if request.download_url:
        parts.append(re.sub(r"[^A-Za-z0-9_.-]", "_", request.download_url))
    return "_".join(parts)
