"""Calls of a plugin that are about no resource of its own: components, functions, methods."""

from __future__ import annotations

from typing import Any

from tidepool.engine import rpc
from tidepool.engine.providers import messages
from tidepool.engine.providers.contract import CallResult, ConstructResult, InvokeResult, ProviderError
from tidepool.engine.providers.plugin_configuration import AnswerOf, ConfiguredPlugin
from tidepool.engine.values import Properties, contains_secrets, without_outputs
from tidepool.engine.wire import Encoder


class CallablePlugin(ConfiguredPlugin):
    """Calls the functions of a plugin, and lets it make components."""

    async def construct(self, request: Any) -> ConstructResult:
        """Let the provider make a component. ``request.inputs`` may hold outputs, whether it takes them or not."""
        c = await self.ready()
        if not c.known:
            return await self._register_unconfigured(request)
        if not c.capabilities.secrets:
            raise ProviderError("plugins that can construct components must support secrets")
        with AnswerOf(self.name, "Construct"):
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
        with AnswerOf(self.name, "Invoke"):
            returns = messages.KNOWN.properties(getattr(response, "return"))
        if not c.capabilities.secrets and contains_secrets(args):
            returns = messages.all_secret(returns)
        return InvokeResult(returns, messages.failures(response.failures))

    async def call(self, request: Any) -> CallResult:
        """Call a method of a component. ``request.args`` may hold outputs, whether it takes them or not."""
        c = await self.ready()
        if not c.known:
            return CallResult({})
        with AnswerOf(self.name, "Call"):
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
            return messages.Sending(Encoder(byte_strings=capabilities.byte_strings)).struct(properties)
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
