"""A provider in a process of its own, spoken to over gRPC.

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
    CallResult,
    CheckResult,
    ConstructResult,
    CreateResult,
    DiffResult,
    DiffUnavailable,
    Existing,
    InitializationFailed,
    InvokeResult,
    Provider,
    ProviderDied,
    ProviderError,
    ProviderUnimplemented,
    ReadResult,
    UpdateResult,
)
from tidepool.engine.resource import PROVIDER_TYPE_PREFIX
from tidepool.engine.values import (
    Properties,
    contains_secrets,
    contains_unknowns,
    without_outputs,
    without_secrets,
)
from tidepool.engine.wire import WireError

#: Providers' own inputs are sent without secrets: not all plugins take them there.
_TO_CONFIG: Final = messages.Sending(secrets=False, resources=False)
_TO_CONFIGURE: Final = messages.Sending()


@dataclass(frozen=True, slots=True)
class Configured:
    """A plugin that may be asked. ``known`` is false where its configuration holds unknown values: then it is not called."""

    capabilities: messages.Capabilities
    known: bool


class PluginProvider(Provider):
    """Speaks to a plugin about its configuration, its resources, its functions and components."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._protocol = rpc.messages("provider_pb2")
        self._configured: asyncio.Task[Configured] | None = None

    @property
    def name(self) -> str:
        return self._connection.name

    async def version(self) -> str:
        """The plugin's version, as it says itself; may be empty."""
        from google.protobuf import empty_pb2

        return str((await self._call("GetPluginInfo", empty_pb2.Empty())).version)

    async def check_config(self, urn: str, olds: Properties, news: Properties) -> CheckResult:
        """Validate the provider's own inputs; one that cannot takes them as they are."""
        request = self._protocol.CheckRequest(
            **_about(urn),
            olds=_TO_CONFIG.struct(olds),
            news=_TO_CONFIG.struct(news),
        )
        try:
            response = await self._call("CheckConfig", request, urn)
        except ProviderUnimplemented:
            return CheckResult(news)
        with _answer_of(self.name, "CheckConfig"):
            inputs = messages.IN_PREVIEW.properties(response.inputs)
        return CheckResult(messages.with_secrets_of(inputs, news), messages.failures(response.failures))

    async def diff_config(
        self, urn: str, old: Existing, new_inputs: Properties, ignore_changes: tuple[str, ...]
    ) -> DiffResult:
        """Compare the provider's own inputs; one that cannot leaves it to the engine, and never replaces."""
        request = self._protocol.DiffRequest(
            **_about(urn),
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
            **_about(urn),
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

    async def _ready(self) -> Configured:
        if self._configured is None:
            raise ProviderError(f"provider {self.name} is used before it was configured")
        if self._configured.done():
            return self._configured.result()
        # Shielded: a resource that is given up must not take the configuration with it.
        return await asyncio.shield(self._configured)

    async def cancel(self) -> None:
        await self._connection.cancel()

    async def close(self) -> None:
        if self._configured is not None and not self._configured.done():
            self._configured.cancel()
        await self._connection.close()

    # -- functions and components

    async def construct(self, request: Any) -> ConstructResult:
        """Let the provider make a component. ``request.inputs`` may hold outputs, whether it takes them or not."""
        c = await self._ready()
        if not c.known:
            return await self._register_unconfigured(request)
        if not c.capabilities.secrets:
            raise ProviderError("plugins that can construct components must support secrets")
        with _answer_of(self.name, "Construct"):
            sent = self._protocol.ConstructRequest()
            sent.CopyFrom(request)
            sent.inputs.CopyFrom(self._component_args(c.capabilities, request.inputs))
            sent.accepts_output_values = True
            response = await self._call("Construct", sent, request.name)
            state = messages.component_decoder(request.dryRun).properties(response.state)
        return ConstructResult(response.urn, state, messages.urns_by_key(response.stateDependencies))

    async def invoke(self, token: str, args: Properties, preview: bool) -> InvokeResult:
        c = await self._ready()
        if not c.known:
            return InvokeResult({})
        encode = c.capabilities.sending(unknowns=False)
        request = self._protocol.InvokeRequest(tok=token, args=encode.struct(args), preview=preview)
        response = await self._call("Invoke", request, token)
        with _answer_of(self.name, "Invoke"):
            returns = messages.KNOWN.properties(getattr(response, "return"))
        if not c.capabilities.secrets and contains_secrets(args):
            returns = messages.all_secret(returns)
        return InvokeResult(returns, messages.failures(response.failures))

    async def call(self, request: Any) -> CallResult:
        """Call a method of a component. ``request.args`` may hold outputs, whether it takes them or not."""
        c = await self._ready()
        if not c.known:
            return CallResult({})
        with _answer_of(self.name, "Call"):
            sent = self._protocol.CallRequest()
            sent.CopyFrom(request)
            # Methods are newer than secrets: their arguments keep them always.
            sent.args.CopyFrom(self._component_args(c.capabilities, request.args, secrets=True))
            sent.accepts_output_values = True
            response = await self._call("Call", sent, request.tok)
            returns = messages.component_decoder(request.dryRun).properties(getattr(response, "return"))
        return CallResult(
            returns, messages.urns_by_key(response.returnDependencies), messages.failures(response.failures)
        )

    def _component_args(
        self, capabilities: messages.Capabilities, args: Any, *, secrets: bool = False
    ) -> Any:
        if capabilities.outputs:
            return args
        properties = without_outputs(messages.COMPONENT_IN_PREVIEW.properties(args))
        if secrets:
            return messages.Sending(byte_strings=capabilities.byte_strings).struct(properties)
        return capabilities.sending(unknowns=True).struct(properties)

    async def _register_unconfigured(self, request: Any) -> ConstructResult:
        """Register the component in the provider's place: it cannot do so itself before it is configured."""
        protocol = rpc.messages("resource_pb2")
        channel = rpc.open_channel(request.monitorEndpoint)
        try:
            monitor = rpc.messages("resource_pb2_grpc").ResourceMonitorStub(channel)
            register = protocol.RegisterResourceRequest(
                type=request.type, name=request.name, parent=request.parent
            )
            response = await rpc.call(monitor.RegisterResource, register)
        except rpc.Failure as failure:
            raise messages.as_error(failure) from failure
        finally:
            channel.close()
        return ConstructResult(response.urn, {})

    # -- resources

    async def check(
        self, urn: str, olds: Properties, news: Properties, random_seed: bytes, preview: bool
    ) -> CheckResult:
        c = await self._ready()
        if not c.known:
            return CheckResult(news)
        encode = c.capabilities.sending(unknowns=preview)
        request = self._protocol.CheckRequest(
            **_about(urn),
            olds=encode.struct(olds),
            news=encode.struct(news),
            randomSeed=random_seed,
        )
        response = await self._call("Check", request, urn)
        with _answer_of(self.name, "Check"):
            inputs = messages.decoder(preview).properties(response.inputs)
        if not c.capabilities.secrets:
            inputs = messages.with_secrets_of(inputs, news)
        return CheckResult(inputs, messages.failures(response.failures))

    async def diff(
        self, urn: str, old: Existing, new_inputs: Properties, ignore_changes: tuple[str, ...]
    ) -> DiffResult:
        c = await self._ready()
        if not c.known:
            raise DiffUnavailable(
                "The provider for this resource has inputs that are not known during preview.\n"
                "This preview may not correctly represent the changes that will be applied during an update."
            )
        encode = c.capabilities.sending(unknowns=True, elide_assets=True)
        request = self._protocol.DiffRequest(
            id=old.id,
            **_about(urn),
            old_inputs=encode.struct(old.inputs),
            olds=encode.struct(old.outputs),
            news=encode.struct(new_inputs),
            ignoreChanges=ignore_changes,
        )
        return messages.diff_result(await self._call("Diff", request, urn))

    async def create(self, urn: str, inputs: Properties, timeout_s: float, preview: bool) -> CreateResult:
        """Make the resource; in a preview say, as far as it is known, what it would be."""
        c = await self._ready()
        if preview and not c.known:
            return CreateResult("", {})
        if preview and not c.capabilities.preview:
            return CreateResult("", inputs)
        self._require_known(c, urn)
        request = self._protocol.CreateRequest(
            **_about(urn),
            properties=c.capabilities.sending(unknowns=preview).struct(inputs),
            timeout=timeout_s,
            preview=preview,
        )
        try:
            response = await self._connection.call("Create", request, urn)
        except rpc.Failure as failure:
            # As the CLI has it, a create that failed left nothing behind.
            raise self._failed(failure, c.capabilities, "", inputs, None, of_state=False) from failure
        if not response.id and not preview:
            raise ProviderError(
                f"plugin {self.name} returned no id from the creation of '{urn}'", state_unknown=True
            )
        outputs = self._outputs("Create", response.properties, c.capabilities, inputs, preview)
        return CreateResult(response.id, outputs, response.refresh_before_update)

    async def read(self, urn: str, old: Existing, timeout_s: float = 0) -> ReadResult:
        try:
            c = await self._ready()
        except ProviderDied:
            raise
        except ProviderError as error:
            raise ProviderError(str(error), state_unknown=True) from error
        if not c.known:
            return ReadResult("", {}, {})
        encode = c.capabilities.sending(unknowns=False, elide_assets=True)
        request = self._protocol.ReadRequest(
            id=old.id,
            **_about(urn),
            properties=encode.struct(old.outputs),
            inputs=encode.struct(old.inputs),
            timeout=timeout_s,
        )
        try:
            response = await self._connection.call("Read", request, urn)
        except rpc.Failure as failure:
            raise self._failed(failure, c.capabilities, "", old.outputs, old.inputs) from failure
        found = self._outputs("Read", response.properties, c.capabilities, old.outputs, False)
        found_inputs = None
        if response.HasField("inputs"):
            found_inputs = self._outputs("Read", response.inputs, c.capabilities, old.inputs, False)
            found_inputs = messages.with_contents_of(found_inputs, old.inputs)
        return ReadResult(
            response.id,
            found_inputs,
            messages.with_contents_of(found, old.inputs),
            response.refresh_before_update,
        )

    async def update(
        self,
        urn: str,
        old: Existing,
        new_inputs: Properties,
        timeout_s: float,
        ignore_changes: tuple[str, ...],
        preview: bool,
    ) -> UpdateResult:
        """Change the resource in place; in a preview say, as far as it is known, what it would be."""
        c = await self._ready()
        if preview and not c.known:
            return UpdateResult({})
        if preview and not c.capabilities.preview:
            return UpdateResult(new_inputs)
        self._require_known(c, urn)
        encode_old = c.capabilities.sending(unknowns=False, elide_assets=True)
        request = self._protocol.UpdateRequest(
            id=old.id,
            **_about(urn),
            old_inputs=encode_old.struct(old.inputs),
            olds=encode_old.struct(old.outputs),
            news=c.capabilities.sending(unknowns=preview).struct(new_inputs),
            timeout=timeout_s,
            ignoreChanges=ignore_changes,
            preview=preview,
        )
        try:
            response = await self._connection.call("Update", request, urn)
        except rpc.Failure as failure:
            raise self._failed(failure, c.capabilities, old.id, new_inputs, None) from failure
        outputs = self._outputs("Update", response.properties, c.capabilities, new_inputs, preview)
        return UpdateResult(outputs, response.refresh_before_update)

    async def delete(self, urn: str, old: Existing, timeout_s: float) -> None:
        c = await self._ready()
        self._require_known(c, urn)
        encode = c.capabilities.sending(unknowns=False, elide_assets=True)
        request = self._protocol.DeleteRequest(
            id=old.id,
            **_about(urn),
            properties=encode.struct(old.outputs),
            old_inputs=encode.struct(old.inputs),
            timeout=timeout_s,
        )
        try:
            await self._connection.call("Delete", request, urn)
        except rpc.Failure as failure:
            raise messages.as_error(failure, of_state=True) from failure

    # -- within

    async def _call(self, method: str, request: Any, about: str = "") -> Any:
        try:
            return await self._connection.call(method, request, about)
        except rpc.Failure as failure:
            raise messages.as_error(failure) from failure

    def _outputs(
        self, method: str, message: Any, capabilities: messages.Capabilities, sent: Properties, preview: bool
    ) -> Properties:
        with _answer_of(self.name, method):
            outputs = messages.decoder(preview).properties(message)
        return outputs if capabilities.secrets else messages.with_secrets_of(outputs, sent)

    def _failed(
        self,
        failure: rpc.Failure,
        capabilities: messages.Capabilities,
        id: str,
        sent: Properties,
        sent_inputs: Properties | None,
        *,
        of_state: bool = True,
    ) -> ProviderError:
        """The error of a call on a resource, which may have left something that is to be kept."""
        detail = failure.detail("ErrorResourceInitFailed")
        if detail is None:
            return messages.as_error(failure, of_state=of_state)
        outputs = self._outputs(failure.code, detail.properties, capabilities, sent, False)
        inputs = None
        if detail.HasField("inputs"):
            inputs = self._outputs(failure.code, detail.inputs, capabilities, sent_inputs or {}, False)
            inputs = messages.with_contents_of(inputs, sent_inputs or {})
        return InitializationFailed(
            id or detail.id,
            messages.with_contents_of(outputs, sent_inputs or {}),
            inputs,
            tuple(detail.reasons),
        )

    def _require_known(self, configured: Configured, urn: str) -> None:
        if not configured.known:
            raise ProviderError(
                f"the configuration of provider {self.name} is not known, so '{urn}' cannot be changed"
            )


def _about(urn: str) -> dict[str, str]:
    """Return the fields of a message that name a resource."""
    return {"urn": urn, "name": urns.name_of(urn), "type": urns.type_of(urn)}


@contextmanager
def _answer_of(name: str, method: str) -> Iterator[None]:
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
