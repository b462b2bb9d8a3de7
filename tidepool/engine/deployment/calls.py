"""Calls of providers that make no resource by themselves (functions, methods, components), and the providers of those that name none."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from pulumi.runtime.proto import provider_pb2, resource_pb2

from tidepool.engine import wire
from tidepool.engine.deployment.callbacks import Callback, CallbackFailed, hook_fields
from tidepool.engine.deployment.goal import Family, Goal
from tidepool.engine.deployment.live import provider_urn
from tidepool.engine.deployment.options import Request
from tidepool.engine.deployment.registration import as_outputs, with_own_dependencies
from tidepool.engine.deployment.registry import plugin_request, with_plugin
from tidepool.engine.deployment.status import RequestRefused
from tidepool.engine.deployment.step import Context, Registered
from tidepool.engine.providers.contract import CheckFailure, Provider, ProviderError
from tidepool.engine.providers.discovery import PluginRequest, Version
from tidepool.engine.resource import PROVIDER_TYPE_PREFIX, ResourceState
from tidepool.engine.values import Properties, Secret, without_outputs

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
        inputs = with_plugin(self.configuration(request.package), request.version, request.download_url)
        state = ResourceState("", PROVIDER_TYPE_PREFIX + request.package, custom=True, inputs=inputs)
        registered = await self._register(Goal(default_name(request), state))
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


class Functions:
    """Calls what is no resource. ``transforms`` change every function call."""

    def __init__(
        self, context: Context, defaults: DefaultProviders, family: Family, address: Callable[[], str]
    ) -> None:
        """``address`` gives where providers reach the monitor."""
        self._context = context
        self._defaults = defaults
        self._family = family
        self._address = address
        self.transforms: list[Callback] = []

    async def invoke(
        self, request: resource_pb2.ResourceInvokeRequest
    ) -> resource_pb2.ResourceInvokeResponse:
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
        provider = await self._provider(options.provider, plugin, request.tok)
        if self._family.is_pending(request.dependsOn):
            return resource_pb2.ResourceInvokeResponse(unknown=True)
        try:
            result = await provider.invoke(request.tok, args, self._context.options.preview)
        except ProviderError as error:
            raise RequestRefused(f"invocation of {request.tok} returned an error: {error}") from error
        keep = request.acceptResources or request.tok == "pulumi:pulumi:getResource"
        message = resource_pb2.ResourceInvokeResponse(failures=_failures(result.failures))
        getattr(message, "return").CopyFrom(wire.to_struct(result.returns, resources=keep))
        return message

    async def call(self, request: resource_pb2.ResourceCallRequest) -> provider_pb2.CallResponse:
        provider = await self._method_provider(request)
        args = wire.from_struct(request.args)
        dependencies = with_own_dependencies(args, {k: v.urns for k, v in request.argDependencies.items()})
        status = self._context.status
        call = provider_pb2.CallRequest(
            tok=request.tok,
            args=wire.to_struct(as_outputs(args, dependencies), outputs=True),
            argDependencies={
                k: provider_pb2.CallRequest.ArgumentDependencies(urns=v) for k, v in dependencies.items()
            },
            **self._context.request.described(),
            monitorEndpoint=self._address(),
            accepts_output_values=True,
        )
        try:
            result = await provider.call(call)
        except ProviderError as error:
            status.error(f"call to function '{request.tok}' failed: {error}")
            status.fail()
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
            reference = goal.state.provider
        plugin = PluginRequest(package, request.version, request.pluginDownloadURL.rstrip("/"))
        return await self._provider(reference, plugin, request.tok)

    async def _provider(self, reference: str, plugin: PluginRequest, token: str) -> Provider:
        """Return the provider ``reference`` (``URN::ID``), or the default one of ``plugin`` where it is empty."""
        if not reference:
            reference = await self._defaults.reference(plugin, token)
        elif "::" not in provider_urn(reference):
            raise RequestRefused(f"bad provider reference '{reference}'")
        return await self._context.registry.get(reference)


def _failures(failures: Iterable[CheckFailure]) -> list[Any]:
    return [provider_pb2.CheckFailure(property=f.property, reason=f.reason) for f in failures]


def construct_request(
    request: Request, monitor_address: str, options: resource_pb2.TransformResourceOptions, goal: Goal
) -> provider_pb2.ConstructRequest:
    """Return the message that asks the provider of ``goal`` to construct it, and says where it reaches the monitor."""
    state = goal.state
    by_property = {k: list(v) for k, v in state.property_dependencies.items()}
    construct = provider_pb2.ConstructRequest(
        **request.described(),
        monitorEndpoint=monitor_address,
        type=state.type,
        name=goal.name,
        parent=state.parent,
        inputs=wire.to_struct(as_outputs(state.inputs, by_property), outputs=True),
        inputDependencies={
            k: provider_pb2.ConstructRequest.PropertyDependencies(urns=v) for k, v in by_property.items()
        },
        providers=options.providers,
        dependencies=state.dependencies,
        aliases=goal.aliases,
        protect=goal.protect,
        additionalSecretOutputs=state.additional_secret_outputs,
        deletedWith=state.deleted_with,
        replace_with=state.replace_with,
        deleteBeforeReplace=goal.delete_before_replace,
        ignoreChanges=state.ignore_changes,
        replaceOnChanges=state.replace_on_changes,
        retainOnDelete=goal.retain_on_delete,
        accepts_output_values=True,
    )
    if options.HasField("custom_timeouts"):
        t = options.custom_timeouts
        construct.customTimeouts.CopyFrom(
            provider_pb2.ConstructRequest.CustomTimeouts(
                create=t.create, update=t.update, delete=t.delete, read=t.read
            )
        )
    if state.resource_hooks:
        bindings = provider_pb2.ConstructRequest.ResourceHooksBinding
        construct.resource_hooks.CopyFrom(bindings(**hook_fields(state.resource_hooks)))
    return construct
