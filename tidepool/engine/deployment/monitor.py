"""The service that a running program and its components ask: Pulumi's ``ResourceMonitor``.

Requests and responses are those of ``proto/pulumi/resource.proto``. The methods here are coroutines on
the engine's loop; :mod:`.endpoint` serves them to programs, over gRPC or in this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from google.protobuf import empty_pb2
from pulumi.runtime.proto import callback_pb2, resource_pb2

from tidepool.engine import wire
from tidepool.engine.assets import AssetError, lack_hashes, with_hashes
from tidepool.engine.deployment.callbacks import Callback, CallbackFailed, Callbacks, ResourceHook
from tidepool.engine.deployment.calls import DefaultProviders, Functions, construct_request
from tidepool.engine.deployment.generator import Registrar
from tidepool.engine.deployment.goal import Family, Goal
from tidepool.engine.deployment.registration import (
    as_outputs,
    goal_of,
    inherit,
    property_dependencies,
    source_position,
    stack_trace,
    transform_options,
    with_own_dependencies,
)
from tidepool.engine.deployment.status import RequestRefused
from tidepool.engine.deployment.step import Context, Registered
from tidepool.engine.providers.contract import ProviderError
from tidepool.engine.providers.discovery import PluginRequest
from tidepool.engine.resource import PROVIDER_TYPE_PREFIX, ResourceState
from tidepool.engine.values import (
    Properties,
    contains_unknowns,
    output_dependencies,
    without_outputs,
)

_UNSUPPORTED_FEATURES: Final = frozenset({resource_pb2.RESOURCE_MONITOR_FEATURE_PARAMETERIZATION})
_FEATURES: Final = tuple(
    number
    for name, number in resource_pb2.ResourceMonitorFeature.items()
    if name != "RESOURCE_MONITOR_FEATURE_STATE_MIGRATIONS" and number not in _UNSUPPORTED_FEATURES
)
_LEGACY_FEATURES: Final = frozenset(
    {
        "secrets",
        "resourceReferences",
        "outputValues",
        "aliasSpecs",
        "replacementTrigger",
        "deletedWith",
        "replaceWith",
        "transforms",
        "invokeTransforms",
        "resourceHooks",
        "errorHooks",
        "sendsOptionsToHooks",
    }
)


class Monitor:
    """Serves one program and the components that its providers construct."""

    def __init__(
        self,
        context: Context,
        registrar: Registrar,
        defaults: DefaultProviders,
        address: Callable[[], str],
        finished: Callable[[], Awaitable[None]],
    ) -> None:
        """``address`` gives where providers reach the monitor; ``finished`` waits, after the program, for the end."""
        self._context = context
        self._request = context.request
        self._registrar = registrar
        self._defaults = defaults
        self._address = address
        self._finished = finished
        self._callbacks = Callbacks()
        self._family = Family()
        self._functions = Functions(context, defaults, self._family, address)
        self.invoke, self.call = self._functions.invoke, self._functions.call
        self._pending_transforms: dict[tuple[str, str, str], list[Callback]] = {}
        self._stack_transforms: list[Callback] = []

    def close(self) -> None:
        self._callbacks.close()

    # -- small questions -------------------------------------------------------------------------------

    async def get_deployment_info(self, _: empty_pb2.Empty) -> resource_pb2.DeploymentInfo:
        """Describe the operation to the program, and the features that it may use."""
        return resource_pb2.DeploymentInfo(**self._request.described(), supportedFeatures=_FEATURES)

    async def supports_feature(
        self, request: resource_pb2.SupportsFeatureRequest
    ) -> resource_pb2.SupportsFeatureResponse:
        """Tell whether a feature, named as older SDKs do, may be used."""
        return resource_pb2.SupportsFeatureResponse(hasSupport=request.id in _LEGACY_FEATURES)

    async def register_package(
        self, request: resource_pb2.RegisterPackageRequest
    ) -> resource_pb2.RegisterPackageResponse:
        """Refuse: parameterized packages are the CLI's."""
        raise RequestRefused(
            f"package {request.name!r} is parameterized, which the embedded engine does not do; "
            "the Pulumi CLI does"
        )

    async def register_stack_transform(self, request: callback_pb2.Callback) -> empty_pb2.Empty:
        """Let a function of the program change every resource."""
        self._stack_transforms.append(self._callbacks.get(request))
        return empty_pb2.Empty()

    async def register_stack_invoke_transform(self, request: callback_pb2.Callback) -> empty_pb2.Empty:
        """Let a function of the program change every function call."""
        self._functions.transforms.append(self._callbacks.get(request))
        return empty_pb2.Empty()

    async def register_resource_hook(
        self, request: resource_pb2.RegisterResourceHookRequest
    ) -> empty_pb2.Empty:
        """Name a function of the program that runs before or after steps."""
        callback = self._callbacks.get(request.callback)
        hook = ResourceHook(callback, request.on_dry_run, request.ignore_errors)
        self._context.hooks.register(request.name, hook)
        return empty_pb2.Empty()

    async def register_error_hook(self, request: resource_pb2.RegisterErrorHookRequest) -> empty_pb2.Empty:
        """Name a function of the program that decides whether a failed operation is tried again."""
        self._context.hooks.register_error_hook(request.name, self._callbacks.get(request.callback))
        return empty_pb2.Empty()

    async def signal_and_wait_for_shutdown(self, _: empty_pb2.Empty) -> empty_pb2.Empty:
        """The program registers no more; it stays to serve its callbacks until the operation is done."""
        await self._finished()
        return empty_pb2.Empty()

    # -- resources -------------------------------------------------------------------------------------

    async def register_resource(
        self, request: resource_pb2.RegisterResourceRequest
    ) -> resource_pb2.RegisterResourceResponse:
        """One resource of the program, or one that a provider is to construct."""
        if request.state_migrations:
            raise RequestRefused("state migrations are not supported by the embedded engine")
        type, parent = request.type, request.parent
        if (request.custom or request.remote) and type.count(":") != 2:
            raise RequestRefused(f"invalid resource type {type!r}: expected PACKAGE:MODULE:TYPE")
        if request.envVarMappings:
            raise RequestRefused(
                "envVarMappings are not supported by the embedded engine"
                if type.startswith(PROVIDER_TYPE_PREFIX)
                else "envVarMappings can only be used with provider resources"
            )
        if parent in self._family.goals:
            inherit(request, self._family.goals[parent])
        properties = await self._hashed(wire.from_struct(request.object))
        dependencies = list(request.dependencies)
        by_property = property_dependencies(request, properties, dependencies)
        options = transform_options(request, self._family.providers_of(parent))
        own, transforms = self._transforms_for(request)
        if transforms:
            # As the CLI has it: only to transforms of its own do values tell what they came from.
            properties = as_outputs(properties, by_property if request.transforms else {})
            properties, options = await _transformed(request, properties, options, transforms)
            properties = await self._hashed(properties)
        if request.transforms:
            by_property = {k: sorted(output_dependencies(v)) for k, v in properties.items()}
            dependencies = list(
                dict.fromkeys([*options.depends_on, *(u for us in by_property.values() for u in us)])
            )
        else:
            by_property = with_own_dependencies(properties, by_property)
        if not request.custom:
            for package, inherited in self._family.providers_of(parent).items():
                if package not in options.providers:
                    options.providers[package] = inherited
        if type.startswith(PROVIDER_TYPE_PREFIX) and not (options.version or options.plugin_download_url):
            package = type.removeprefix(PROVIDER_TYPE_PREFIX)
            plugin = self._defaults.completed(PluginRequest(package))
            options.version, options.plugin_download_url = plugin.version, plugin.download_url
        goal = goal_of(request, options, properties, dependencies, by_property, str(self._request.root))
        if (request.custom and not type.startswith(PROVIDER_TYPE_PREFIX)) or request.remote:
            provider = await self._provider_reference(request, options)
            goal = replace(goal, state=goal.state.changed(provider=provider))
        if request.remote:
            return await self._construct(request, options, goal, own)
        goal = replace(goal, state=goal.state.changed(inputs=without_outputs(goal.state.inputs)))
        registered = await self._registrar.register(goal)
        self._remember(registered.state.urn, request, options, own, goal)
        return self._registered_response(request, registered)

    async def register_resource_outputs(
        self, request: resource_pb2.RegisterResourceOutputsRequest
    ) -> empty_pb2.Empty:
        """The outputs of a component, which is complete now."""
        outputs = without_outputs(wire.from_struct(request.outputs))
        await self._registrar.register_outputs(request.urn, await self._hashed(outputs))
        return empty_pb2.Empty()

    async def read_resource(
        self, request: resource_pb2.ReadResourceRequest
    ) -> resource_pb2.ReadResourceResponse:
        """A resource that the program looks up and does not own."""
        if request.type.count(":") != 2:
            raise RequestRefused(f"invalid resource type {request.type!r}: expected PACKAGE:MODULE:TYPE")
        provider = request.provider
        if not provider and not request.type.startswith(PROVIDER_TYPE_PREFIX):
            package = request.type.split(":", 1)[0]
            plugin = PluginRequest(package, request.version, request.pluginDownloadURL.rstrip("/"))
            provider = await self._defaults.reference(plugin, request.type)
        sought = ResourceState(
            urn="",
            type=request.type,
            custom=True,
            id=request.id,
            inputs=without_outputs(wire.from_struct(request.properties)),
            parent=request.parent,
            external=True,
            provider=provider,
            dependencies=tuple(request.dependencies),
            additional_secret_outputs=tuple(request.additionalSecretOutputs),
            source_position=source_position(request.sourcePosition, str(self._request.root)),
            stack_trace=stack_trace(request, str(self._request.root)),
        )
        state = (await self._registrar.read(request.name, sought)).state
        self._family.settle(state.urn, request.parent, exists=True)
        properties = wire.to_struct(
            state.outputs, secrets=request.acceptSecrets, resources=request.acceptResources
        )
        return resource_pb2.ReadResourceResponse(urn=state.urn, properties=properties)

    # -- components that a provider constructs ---------------------------------------------------------

    async def _construct(
        self,
        request: resource_pb2.RegisterResourceRequest,
        options: resource_pb2.TransformResourceOptions,
        goal: Goal,
        own: list[Callback],
    ) -> resource_pb2.RegisterResourceResponse:
        status = self._context.status
        provider = await self._context.registry.get(goal.state.provider)
        construct = construct_request(self._request, self._address(), options, goal)
        try:
            result = await provider.construct(construct)
        except ProviderError as error:
            status.error(f"{goal.state.type} resource '{goal.name}' has a problem: {error}")
            status.fail()
            raise
        dependencies = with_own_dependencies(result.state, result.state_dependencies)
        self._remember(result.urn, request, options, own, goal)
        return resource_pb2.RegisterResourceResponse(
            urn=result.urn,
            object=self._outputs_message(request, without_outputs(result.state)),
            propertyDependencies={
                k: resource_pb2.RegisterResourceResponse.PropertyDependencies(urns=v)
                for k, v in dependencies.items()
            },
        )

    # -- within ----------------------------------------------------------------------------------------

    async def _hashed(self, properties: Properties) -> Properties:
        """Return ``properties`` with the hashes of their assets; what cannot be read is this request's failure alone."""
        if not lack_hashes(properties):
            return properties
        try:
            # On a thread: a file may be large, and an address slow.
            return await asyncio.to_thread(with_hashes, properties, self._request.working_folder)
        except AssetError as error:
            raise RequestRefused(str(error)) from error

    def _transforms_for(
        self, request: resource_pb2.RegisterResourceRequest
    ) -> tuple[list[Callback], list[Callback]]:
        """The resource's own transforms, and all that are to run: its own, its parents', the stack's."""
        key = (request.parent, request.type, request.name)
        own = self._pending_transforms.pop(key, None)
        if own is None:
            own = [self._callbacks.get(c) for c in request.transforms]
            if request.remote and own:
                # The provider will register the component itself: then these are to run, once.
                self._pending_transforms[key] = own
        return own, [*own, *self._family.transforms_from(request.parent), *self._stack_transforms]

    async def _provider_reference(
        self,
        request: resource_pb2.RegisterResourceRequest,
        options: resource_pb2.TransformResourceOptions,
    ) -> str:
        if request.packageRef:
            raise RequestRefused(f"unknown provider package '{request.packageRef}'")
        package = request.type.split(":", 1)[0]
        plugin = PluginRequest(package, options.version, options.plugin_download_url.rstrip("/"))
        if options.provider:
            return options.provider
        return await self._defaults.reference(plugin, request.type)

    def _remember(
        self,
        urn: str,
        request: resource_pb2.RegisterResourceRequest,
        options: resource_pb2.TransformResourceOptions,
        own: list[Callback],
        goal: Goal,
    ) -> None:
        self._family.remember(urn, request.parent, goal, own)
        if not request.custom:
            self._family.remember_component(urn, request.parent, options.providers)

    def _registered_response(
        self,
        request: resource_pb2.RegisterResourceRequest,
        registered: Registered,
    ) -> resource_pb2.RegisterResourceResponse:
        state = registered.state
        if request.custom:
            self._family.settle(state.urn, request.parent, exists=bool(state.id))
        if registered.result != "success" and not request.supportsResultReporting:
            raise RequestRefused("resource registration failed")
        # The outputs of a component that did not change may refer to resources that are not there yet.
        outputs = state.outputs if request.custom else {}
        return resource_pb2.RegisterResourceResponse(
            urn=state.urn,
            id=state.id,
            object=self._outputs_message(request, outputs),
            result=_RESULTS[registered.result],
            unknown=registered.unknown,
        )

    @staticmethod
    def _outputs_message(request: resource_pb2.RegisterResourceRequest, outputs: Properties) -> Any:
        if not request.supportsPartialValues:
            outputs = {k: v for k, v in outputs.items() if not contains_unknowns(v)}
        return wire.to_struct(outputs, secrets=request.acceptSecrets, resources=request.acceptResources)


_RESULTS: Final = {
    "success": resource_pb2.SUCCESS,
    "failed": resource_pb2.FAIL,
    "skipped": resource_pb2.SKIP,
}


async def _transformed(
    request: resource_pb2.RegisterResourceRequest,
    properties: Properties,
    options: resource_pb2.TransformResourceOptions,
    transforms: Iterable[Callback],
) -> tuple[Properties, resource_pb2.TransformResourceOptions]:
    for callback in transforms:
        try:
            properties, options = await callback.transform(request, properties, options)
        except CallbackFailed as error:
            raise RequestRefused(f"invoke transform: {error}") from error
    return properties, options
