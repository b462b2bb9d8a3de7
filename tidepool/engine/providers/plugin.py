"""A provider in a process of its own, spoken to over gRPC: its functions, components and resources.

Source: Pulumi's ``sdk/go/common/resource/plugin/provider_plugin.go``.
"""

from __future__ import annotations

from typing import Any

from tidepool.engine import rpc
from tidepool.engine.providers import messages
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
    ProviderDied,
    ProviderError,
    ReadResult,
    UpdateResult,
)
from tidepool.engine.providers.plugin_configuration import Configured, ConfiguredPlugin, about, answer_of
from tidepool.engine.values import Properties, contains_secrets, without_outputs


class CallablePlugin(ConfiguredPlugin):
    """Calls the functions of a plugin, and lets it make components."""

    async def construct(self, request: Any) -> ConstructResult:
        """Let the provider make a component. ``request.inputs`` may hold outputs, whether it takes them or not."""
        c = await self.ready()
        if not c.known:
            return await self._register_unconfigured(request)
        if not c.capabilities.secrets:
            raise ProviderError("plugins that can construct components must support secrets")
        with answer_of(self.name, "Construct"):
            sent = self._protocol.ConstructRequest()
            sent.CopyFrom(request)
            sent.inputs.CopyFrom(self._component_args(c.capabilities, request.inputs))
            sent.accepts_output_values = True
            response = await self._call("Construct", sent, request.name)
            state = messages.component_decoder(request.dryRun).properties(response.state)
        return ConstructResult(response.urn, state, messages.urns_by_key(response.stateDependencies))

    async def invoke(self, token: str, args: Properties, preview: bool) -> InvokeResult:
        """Call a function of the provider."""
        c = await self.ready()
        if not c.known:
            return InvokeResult({})
        encode = c.capabilities.sending(unknowns=False)
        request = self._protocol.InvokeRequest(tok=token, args=encode.struct(args), preview=preview)
        response = await self._call("Invoke", request, token)
        with answer_of(self.name, "Invoke"):
            returns = messages.KNOWN.properties(getattr(response, "return"))
        if not c.capabilities.secrets and contains_secrets(args):
            returns = messages.all_secret(returns)
        return InvokeResult(returns, messages.failures(response.failures))

    async def call(self, request: Any) -> CallResult:
        """Call a method of a component. ``request.args`` may hold outputs, whether it takes them or not."""
        c = await self.ready()
        if not c.known:
            return CallResult({})
        with answer_of(self.name, "Call"):
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


class PluginProvider(CallablePlugin):
    """Speaks to a plugin about its resources."""

    async def check(
        self, urn: str, olds: Properties, news: Properties, random_seed: bytes, preview: bool
    ) -> CheckResult:
        """Validate and complete a resource's inputs."""
        c = await self.ready()
        if not c.known:
            return CheckResult(news)
        encode = c.capabilities.sending(unknowns=preview)
        request = self._protocol.CheckRequest(
            **about(urn),
            olds=encode.struct(olds),
            news=encode.struct(news),
            randomSeed=random_seed,
        )
        response = await self._call("Check", request, urn)
        with answer_of(self.name, "Check"):
            inputs = messages.decoder(preview).properties(response.inputs)
        if not c.capabilities.secrets:
            inputs = messages.with_secrets_of(inputs, news)
        return CheckResult(inputs, messages.failures(response.failures))

    async def diff(
        self, urn: str, old: Existing, new_inputs: Properties, ignore_changes: tuple[str, ...]
    ) -> DiffResult:
        """Compare a resource's state with new inputs.

        Raises:
            DiffUnavailable: where the provider's own configuration is not known.
        """
        c = await self.ready()
        if not c.known:
            raise DiffUnavailable(
                "The provider for this resource has inputs that are not known during preview.\n"
                "This preview may not correctly represent the changes that will be applied during an update."
            )
        encode = c.capabilities.sending(unknowns=True, elide_assets=True)
        request = self._protocol.DiffRequest(
            id=old.id,
            **about(urn),
            old_inputs=encode.struct(old.inputs),
            olds=encode.struct(old.outputs),
            news=encode.struct(new_inputs),
            ignoreChanges=ignore_changes,
        )
        return messages.diff_result(await self._call("Diff", request, urn))

    async def create(self, urn: str, inputs: Properties, timeout_s: float, preview: bool) -> CreateResult:
        """Make the resource; in a preview say, as far as it is known, what it would be."""
        c = await self.ready()
        if preview and not c.known:
            return CreateResult("", {})
        if preview and not c.capabilities.preview:
            return CreateResult("", inputs)
        self._require_known(c, urn)
        request = self._protocol.CreateRequest(
            **about(urn),
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
        """Find out what the resource is now."""
        try:
            c = await self.ready()
        except ProviderDied:
            raise
        except ProviderError as error:
            raise ProviderError(str(error), state_unknown=True) from error
        if not c.known:
            return ReadResult("", {}, {})
        encode = c.capabilities.sending(unknowns=False, elide_assets=True)
        request = self._protocol.ReadRequest(
            id=old.id,
            **about(urn),
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
        c = await self.ready()
        if preview and not c.known:
            return UpdateResult({})
        if preview and not c.capabilities.preview:
            return UpdateResult(new_inputs)
        self._require_known(c, urn)
        encode_old = c.capabilities.sending(unknowns=False, elide_assets=True)
        request = self._protocol.UpdateRequest(
            id=old.id,
            **about(urn),
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
        """Remove the resource."""
        c = await self.ready()
        self._require_known(c, urn)
        encode = c.capabilities.sending(unknowns=False, elide_assets=True)
        request = self._protocol.DeleteRequest(
            id=old.id,
            **about(urn),
            properties=encode.struct(old.outputs),
            old_inputs=encode.struct(old.inputs),
            timeout=timeout_s,
        )
        try:
            await self._connection.call("Delete", request, urn)
        except rpc.Failure as failure:
            raise messages.as_error(failure, of_state=True) from failure

    # -- within

    def _outputs(
        self, method: str, message: Any, capabilities: messages.Capabilities, sent: Properties, preview: bool
    ) -> Properties:
        with answer_of(self.name, method):
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
