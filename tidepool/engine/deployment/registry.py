"""Providers as resources: loading, configuring, and finding them by reference.

A provider is a resource of the stack (``pulumi:providers:PACKAGE``), and the registry is the provider of
such resources: its ``check`` loads the plugin, its ``create`` and ``update`` configure it. Source:
Pulumi's ``pkg/resource/deploy/providers/registry.go``.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Final

from tidepool.engine import urn as urns
from tidepool.engine.providers.contract import (
    CheckFailure,
    CheckResult,
    CreateResult,
    DiffResult,
    Existing,
    Provider,
    ProviderError,
    UpdateResult,
)
from tidepool.engine.providers.discovery import PluginRequest
from tidepool.engine.resource import PROVIDER_TYPE_PREFIX, ResourceState
from tidepool.engine.value_json import UNKNOWN_STRING
from tidepool.engine.values import Properties, Secret, equal

#: Options of the engine among a provider's inputs; they are not the provider's to see.
INTERNAL: Final = "__internal"
VERSION: Final = "version"
_DOWNLOAD_URL: Final = "pluginDownloadURL"

#: Loads a plugin: starts its process, without configuring it.
Load = Callable[[PluginRequest], Awaitable[Provider]]


class Registry(Provider):
    """All providers of an operation, whose own close ends none of them. References are ``URN::ID``."""

    kind = "provider resources"

    def __init__(self, load: Load, old: Callable[[str], ResourceState | None]) -> None:
        """``old`` finds the state of a provider that the stack began with, by reference."""
        self._load = load
        self._old = old
        self._ready: dict[str, Provider] = {}
        #: Checked, and not configured yet, by URN.
        self._checked: dict[str, Provider] = {}
        self._aliases: dict[str, str] = {}
        self._all: list[Provider] = []
        self._ensuring: dict[str, Awaitable[None]] = {}

    # -- for the engine --------------------------------------------------------------------------------

    def has(self, reference: str) -> bool:
        return reference in self._ready

    async def get(self, reference: str) -> Provider:
        """The provider behind a reference, from the stack's state where the program did not register it.

        Raises:
            ProviderError: where there is none.
        """
        if reference not in self._ready:
            await self.ensure(reference)
        return self._ready[reference]

    async def ensure(self, reference: str) -> None:
        """Make sure that the provider of an old resource can be used."""
        if not reference or reference in self._ready:
            return
        if reference not in self._ensuring:
            self._ensuring[reference] = asyncio.ensure_future(self._ensure(reference))
        await self._ensuring[reference]

    async def _ensure(self, reference: str) -> None:
        state = self._old(reference)
        if state is None:
            raise ProviderError(f"unknown provider '{reference}'")
        await self.same(state, checked=False)

    def alias(self, urn: str, old_urn: str) -> None:
        """Let the provider ``urn`` be found under its old URN too."""
        if urn != old_urn:
            self._aliases[urn] = old_urn

    async def same(self, state: ResourceState, *, checked: bool) -> None:
        """Make a provider ready that did not change; ``checked`` says that it was just looked at."""
        reference = f"{state.urn}::{state.id}"
        if reference in self._ready:
            return
        provider = self._checked.pop(state.urn, None) if checked else None
        if provider is None:
            provider = await self._load_for(state.urn, state.inputs)
        await provider.configure(state.urn, state.id, self.configuration(state.inputs))
        self._set(state.urn, state.id, provider)

    async def cancel(self) -> None:
        """Ask all providers to end what is under way."""
        for provider in self._all:
            try:
                await provider.cancel()
            except ProviderError:
                continue  # it is asked to hurry; that it cannot is no reason to stop asking the others

    async def close_all(self) -> None:
        await asyncio.gather(*(p.close() for p in self._all))

    @staticmethod
    def configuration(inputs: Properties) -> Properties:
        """Return the inputs that the provider itself is configured with."""
        return {k: v for k, v in inputs.items() if k != INTERNAL}

    # -- the provider of providers ---------------------------------------------------------------------

    async def check(
        self, urn: str, olds: Properties, news: Properties, random_seed: bytes, preview: bool
    ) -> CheckResult:
        """Load the plugin and let it check its configuration."""
        version = news.get(VERSION)
        if version is not None and not isinstance(version, str):
            return CheckResult({}, (CheckFailure(VERSION, f"'{VERSION}' must be a string"),))
        if reference := self._unchanged(urn, news):
            # A second process would be started for this question alone.
            provider = await self.get(reference)
        else:
            provider = await self._load_for(urn, news)
        result = await provider.check_config(urn, self.configuration(olds), self.configuration(news))
        if result.failures:
            return result
        if not reference:
            self._checked[urn] = provider
        inputs = dict(result.inputs)
        for key in (VERSION, INTERNAL):
            if key in news:
                inputs.setdefault(key, news[key])
        if not equal(inputs.get(VERSION), news.get(VERSION, inputs.get(VERSION))):
            raise ProviderError(
                f'provider "{urn}" attempted to change version from "{news[VERSION]}" to "{inputs[VERSION]}"'
            )
        return CheckResult(inputs)

    async def diff(
        self, urn: str, old: Existing, new_inputs: Properties, ignore_changes: tuple[str, ...]
    ) -> DiffResult:
        provider = self._checked.get(urn) or self._ready[f"{urn}::{old.id}"]
        news = self.configuration(new_inputs)
        before = Existing("", self.configuration(old.inputs), old.outputs)
        diff = await provider.diff_config(urn, before, news, ignore_changes)
        if diff.changes == "unknown":
            changes = "none" if equal(old.outputs, news) else "some"
            return DiffResult(changes, diff.replace_keys)  # type: ignore[arg-type]
        return diff

    async def create(self, urn: str, inputs: Properties, timeout_s: float, preview: bool) -> CreateResult:
        """Configure a new provider. In a preview its id is not known, so resources see it as new."""
        id = "" if preview else str(uuid.uuid4())
        provider = self._checked.pop(urn, None) or await self._load_for(urn, inputs)
        configuration = self.configuration(inputs)
        await provider.configure(urn, id, configuration)
        self._set(urn, id or UNKNOWN_STRING, provider)
        return CreateResult(id or UNKNOWN_STRING, configuration)

    async def update(
        self,
        urn: str,
        old: Existing,
        new_inputs: Properties,
        timeout_s: float,
        ignore_changes: tuple[str, ...],
        preview: bool,
    ) -> UpdateResult:
        """Take a newly configured process for an existing provider."""
        provider = self._checked.pop(urn, None) or await self._load_for(urn, new_inputs)
        configuration = self.configuration(new_inputs)
        await provider.configure(urn, old.id, configuration)
        self._set(urn, old.id, provider)
        return UpdateResult(configuration)

    # -- within ----------------------------------------------------------------------------------------

    def _unchanged(self, urn: str, inputs: Properties) -> str:
        """Return the reference of a provider that old resources have asked for and whose inputs are these; empty where there is none."""
        for reference in self._ensuring:
            state = self._old(reference)
            if state is not None and state.urn == urn and equal(state.inputs, inputs):
                return reference
        return ""

    def _set(self, urn: str, id: str, provider: Provider) -> None:
        self._ready[f"{urn}::{id}"] = provider
        alias = self._aliases.get(urn)
        if alias is not None:
            self._ready[f"{alias}::{id}"] = provider

    async def _load_for(self, urn: str, inputs: Properties) -> Provider:
        provider = await self._load(plugin_request(urn, inputs))
        self._all.append(provider)
        return provider


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
