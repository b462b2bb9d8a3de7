"""Functions of providers and methods of components, called by a program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pulumi.runtime.proto import provider_pb2, resource_pb2

from tidepool.engine import wire
from tidepool.engine.deployment.callbacks import Callback, CallbackFailed
from tidepool.engine.deployment.chosen_provider import chosen_provider
from tidepool.engine.deployment.construct import surroundings
from tidepool.engine.deployment.family import Family
from tidepool.engine.deployment.plugin_request import PluginRequest
from tidepool.engine.deployment.registration import RequestRefused, as_outputs, with_own_dependencies
from tidepool.engine.providers.contract import CheckFailure, Provider, ProviderError
from tidepool.engine.resource import PROVIDER_TYPE_PREFIX
from tidepool.engine.values import without_outputs

if TYPE_CHECKING:
    from tidepool.engine.deployment.deployment import Deployment


class Functions:
    """Calls what is no resource. ``transforms`` change every function call."""

    def __init__(self, deployment: Deployment, family: Family) -> None:
        self._d = deployment
        self._family = family
        self.transforms: list[Callback] = []

    async def invoke(
        self, request: resource_pb2.ResourceInvokeRequest
    ) -> resource_pb2.ResourceInvokeResponse:
        """Call a function of a provider."""
        args = without_outputs(wire.from_struct(request.args))
        package = request.tok.split(":", 1)[0]
        options = resource_pb2.TransformInvokeOptions(
            provider=request.provider or self._family.providers_of(request.parent).get(package, ""),
            version=request.version,
            plugin_download_url=request.pluginDownloadURL,
        )
        for callback in self.transforms:
            try:
                args, options = await callback.transform_invoke(request.tok, args, options)
            except CallbackFailed as error:
                raise RequestRefused(str(error)) from error
        plugin = PluginRequest(package, options.version, options.plugin_download_url.rstrip("/"))
        provider = await chosen_provider(self._d, options.provider, plugin, request.tok)
        if self._family.is_pending(request.dependsOn):
            return resource_pb2.ResourceInvokeResponse(unknown=True)
        try:
            result = await provider.invoke(request.tok, args, self._d.options.preview)
        except ProviderError as error:
            raise RequestRefused(f"invocation of {request.tok} returned an error: {error}") from error
        keep = request.acceptResources or request.tok == "pulumi:pulumi:getResource"
        message = resource_pb2.ResourceInvokeResponse(failures=_failures(result.failures))
        getattr(message, "return").CopyFrom(wire.to_struct(result.returns, resources=keep))
        return message

    async def call(self, request: resource_pb2.ResourceCallRequest) -> provider_pb2.CallResponse:
        """Call a method of a component."""
        provider = await self._method_provider(request)
        args = wire.from_struct(request.args)
        dependencies = with_own_dependencies(args, {k: v.urns for k, v in request.argDependencies.items()})
        d = self._d
        call = provider_pb2.CallRequest(
            tok=request.tok,
            args=wire.to_struct(as_outputs(args, dependencies), outputs=True),
            argDependencies={
                k: provider_pb2.CallRequest.ArgumentDependencies(urns=v) for k, v in dependencies.items()
            },
            **await surroundings(d),
            accepts_output_values=True,
        )
        try:
            result = await provider.call(call)
        except ProviderError as error:
            d.error(f"call to function '{request.tok}' failed: {error}")
            d.fail()
            raise RequestRefused(f"call of {request.tok} returned an error: {error}") from error
        returned = with_own_dependencies(result.returns, result.return_dependencies)
        message = provider_pb2.CallResponse(
            returnDependencies={
                k: provider_pb2.CallResponse.ReturnDependencies(urns=v) for k, v in returned.items()
            },
            failures=_failures(result.failures),
        )
        getattr(message, "return").CopyFrom(wire.to_struct(result.returns))
        return message

    async def _method_provider(self, request: resource_pb2.ResourceCallRequest) -> Provider:
        package = request.tok.split(":", 1)[0]
        reference = request.provider
        receiver = request.args.fields.get("__self__") if "__self__" in request.args.fields else None
        if request.tok.startswith(PROVIDER_TYPE_PREFIX):
            # A method of a provider resource: the receiver is the provider that handles it.
            package = request.tok.removeprefix(PROVIDER_TYPE_PREFIX).split("/", 1)[0]
            if receiver is None:
                raise RequestRefused("missing __self__ argument for provider method call")
            fields = receiver.struct_value.fields
            reference = f"{fields['urn'].string_value}::{fields['id'].string_value}"
        elif not reference and receiver is not None:
            urn = receiver.struct_value.fields["urn"].string_value
            goal = self._family.goals.get(urn)
            if goal is None:
                raise RequestRefused(f"unknown resource {urn}")
            reference = goal.provider
        plugin = PluginRequest(package, request.version, request.pluginDownloadURL.rstrip("/"))
        return await chosen_provider(self._d, reference, plugin, request.tok)


def _failures(failures: Iterable[CheckFailure]) -> list[Any]:
    return [provider_pb2.CheckFailure(property=f.property, reason=f.reason) for f in failures]
