"""The process of a plugin and its configuration: what must be known before it is asked about resources.

Source: Pulumi's ``sdk/go/common/resource/plugin/provider_plugin.go``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from tidepool.engine import rpc
from tidepool.engine import urn as urns
from tidepool.engine.providers import messages
from tidepool.engine.providers.connection import Connection
from tidepool.engine.providers.contract import (
    CheckResult,
    DiffResult,
    Existing,
    Provider,
    ProviderError,
    ProviderUnimplemented,
)
from tidepool.engine.resource import PROVIDER_TYPE_PREFIX
from tidepool.engine.values import Properties, contains_unknowns, without_secrets
from tidepool.engine.wire import WireError

#: Providers' own inputs are sent without secrets: not all plugins take them there.
_TO_CONFIG: Final = messages.Sending(secrets=False, resources=False)
_TO_CONFIGURE: Final = messages.Sending()


@dataclass(frozen=True, slots=True)
class Configured:
    """A plugin that may be asked. ``known`` is false where its configuration holds unknown values: then it is not called."""

    capabilities: messages.Capabilities
    known: bool


class ConfiguredPlugin(Provider):
    """Configures a plugin, and ends it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._protocol = rpc.messages("provider_pb2")
        self._configured: asyncio.Task[Configured] | None = None

    @property
    def name(self) -> str:
        """The package."""
        return self._connection.name

    @property
    def pid(self) -> int:
        """The id of the plugin's process."""
        return self._connection.pid

    async def version(self) -> str:
        """The plugin's version, as it says itself; may be empty."""
        from google.protobuf import empty_pb2

        return str((await self._call("GetPluginInfo", empty_pb2.Empty())).version)

    async def check_config(self, urn: str, olds: Properties, news: Properties) -> CheckResult:
        """Validate the provider's own inputs; one that cannot takes them as they are."""
        request = self._protocol.CheckRequest(
            **about(urn),
            olds=_TO_CONFIG.struct(olds),
            news=_TO_CONFIG.struct(news),
        )
        try:
            response = await self._call("CheckConfig", request, urn)
        except ProviderUnimplemented:
            return CheckResult(news)
        with answer_of(self.name, "CheckConfig"):
            inputs = messages.IN_PREVIEW.properties(response.inputs)
        return CheckResult(messages.with_secrets_of(inputs, news), messages.failures(response.failures))

    async def diff_config(
        self, urn: str, old: Existing, new_inputs: Properties, ignore_changes: tuple[str, ...]
    ) -> DiffResult:
        """Compare the provider's own inputs; one that cannot leaves it to the engine, and never replaces."""
        request = self._protocol.DiffRequest(
            **about(urn),
            old_inputs=_TO_CONFIG.struct(old.inputs),
            olds=_TO_CONFIG.struct(old.outputs),
            news=_TO_CONFIG.struct(new_inputs),
            ignoreChanges=ignore_changes,
        )
        try:
            response = await self._call("DiffConfig", request, urn)
        except ProviderUnimplemented:
            return DiffResult("unknown")
        return messages.diff_result(response)

    async def configure(self, urn: str, id: str, inputs: Properties) -> None:
        """Give the provider its configuration.

        Returns at once, as the Pulumi CLI does: other providers can be configured meanwhile. Calls on
        resources wait for it, and it is they that raise where it fails.
        """
        if any(contains_unknowns(v) for k, v in inputs.items() if k != "version"):
            self._configured = asyncio.ensure_future(self._leave_unconfigured())
            return
        package = urns.type_of(urn).removeprefix(PROVIDER_TYPE_PREFIX)
        request = self._protocol.ConfigureRequest(
            **about(urn),
            id=id or None,
            acceptSecrets=True,
            acceptResources=True,
            sends_old_inputs=True,
            sends_old_inputs_to_delete=True,
            variables={f"{package}:config:{k}": _variable(v) for k, v in inputs.items() if k != "version"},
            args=_TO_CONFIGURE.struct(inputs),
        )
        self._configured = asyncio.ensure_future(self._configure(request, urn))
        self._configured.add_done_callback(_retrieve)

    async def _configure(self, request: Any, urn: str) -> Configured:
        try:
            response = await self._connection.call("Configure", request, urn)
        except rpc.Failure as failure:
            raise _configure_error(failure) from failure
        return Configured(
            self._connection.capabilities or messages.Capabilities.of_configure(response), known=True
        )

    async def _leave_unconfigured(self) -> Configured:
        return Configured(self._connection.capabilities or messages.Capabilities(), known=False)

    async def ready(self) -> Configured:
        if self._configured is None:
            raise ProviderError(f"provider {self.name} is used before it was configured")
        if self._configured.done():
            return self._configured.result()
        # Shielded: a resource that is given up must not take the configuration with it.
        return await asyncio.shield(self._configured)

    async def cancel(self) -> None:
        """Ask the provider to end what is under way."""
        await self._connection.cancel()

    async def close(self) -> None:
        """End the provider's process."""
        if self._configured is not None and not self._configured.done():
            self._configured.cancel()
        await self._connection.close()

    # -- within

    async def _call(self, method: str, request: Any, about: str = "") -> Any:
        try:
            return await self._connection.call(method, request, about)
        except rpc.Failure as failure:
            raise messages.as_error(failure) from failure


def about(urn: str) -> dict[str, str]:
    """Return the fields of a message that name a resource."""
    return {"urn": urn, "name": urns.name_of(urn), "type": urns.type_of(urn)}


@contextmanager
def answer_of(name: str, method: str) -> Iterator[None]:
    """Name the plugin whose message does not follow the protocol."""
    try:
        yield
    except WireError as error:
        raise ProviderError(f"plugin {name}, {method}: {error}") from error


def _variable(value: Any) -> str:
    """A configuration value in the old form of texts."""
    bare = without_secrets(value)
    if isinstance(bare, str):
        return bare
    return json.dumps(_jsonable(bare), separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def _jsonable(value: Any) -> Any:
    match value:
        case dict():
            return {k: _jsonable(v) for k, v in value.items()}
        case list():
            return [_jsonable(v) for v in value]
        case None | bool() | int() | float() | str():
            return value
        case _:
            # Assets and references have no old form.
            return str(value)


def _configure_error(failure: rpc.Failure) -> ProviderError:
    missing = failure.detail("ConfigureErrorMissingKeys")
    if missing is None:
        return messages.as_error(failure)
    return ProviderError(
        "\n".join(
            f'missing required configuration key "{key.name}": {key.description}\n'
            f"Set a value using the command `pulumi config set {key.name} <value>`."
            for key in missing.missingKeys
        )
    )


def _retrieve(task: asyncio.Task[Configured]) -> None:
    # A provider that nobody uses may fail to be configured without anybody asking.
    if not task.cancelled():
        task.exception()
