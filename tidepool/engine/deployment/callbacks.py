"""Functions of the program that the engine calls, served by its SDK: transforms, resource hooks and error hooks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import Message
from pulumi.runtime.proto import alias_pb2, callback_pb2, callback_pb2_grpc, resource_pb2

from tidepool.engine import rpc, wire
from tidepool.engine import urn as urns
from tidepool.engine.deployment.status import HookFailed, Status
from tidepool.engine.providers.contract import InitializationFailed, ProviderDied, ProviderError
from tidepool.engine.resource import ResourceState
from tidepool.engine.values import Properties

M = TypeVar("M", bound=Message)


class CallbackFailed(Exception):
    """A function of the program raised an error; the text is its own."""


class Callback:
    """One function of the program."""

    def __init__(self, stub: callback_pb2_grpc.CallbacksStub, token: str) -> None:
        self._stub = stub
        self._token = token

    async def transform(
        self,
        resource: resource_pb2.RegisterResourceRequest,
        properties: Properties,
        options: resource_pb2.TransformResourceOptions,
    ) -> tuple[Properties, resource_pb2.TransformResourceOptions]:
        """Let a transform change a resource's properties and options."""
        request = resource_pb2.TransformRequest(
            name=resource.name,
            type=resource.type,
            custom=resource.custom,
            parent=resource.parent,
            properties=wire.to_struct(properties, outputs=True),
            options=options,
        )
        response = await self._invoke(request, resource_pb2.TransformResponse())
        if response.HasField("properties"):
            properties = wire.from_struct(response.properties)
        return properties, response.options if response.HasField("options") else options

    async def transform_invoke(
        self, token: str, args: Properties, options: resource_pb2.TransformInvokeOptions
    ) -> tuple[Properties, resource_pb2.TransformInvokeOptions]:
        """Let a transform change the arguments and options of a function call."""
        request = resource_pb2.TransformInvokeRequest(
            token=token, args=wire.to_struct(args, outputs=True), options=options
        )
        response = await self._invoke(request, resource_pb2.TransformInvokeResponse())
        if response.HasField("args"):
            args = wire.from_struct(response.args)
        return args, response.options if response.HasField("options") else options

    async def resource_hook(
        self, old: ResourceState | None, new: ResourceState | None, *, after: bool
    ) -> None:
        """Run a resource hook; raises CallbackFailed where it fails."""
        request = resource_pb2.ResourceHookRequest(**_hook_fields(old, new))
        if after and new is not None:
            request.new_outputs.CopyFrom(wire.to_struct(new.outputs, outputs=True))
        response = await self._invoke(request, resource_pb2.ResourceHookResponse())
        if response.error:
            raise CallbackFailed(response.error)

    async def error_hook(
        self, old: ResourceState | None, new: ResourceState | None, operation: str, failures: list[str]
    ) -> bool:
        """Ask an error hook whether the operation is to be tried again."""
        request = resource_pb2.ErrorHookRequest(
            **_hook_fields(old, new), failed_operation=operation, errors=failures
        )
        response = await self._invoke(request, resource_pb2.ErrorHookResponse())
        if response.error:
            raise CallbackFailed(response.error)
        return bool(response.retry)

    async def _invoke(self, request: Message, response: M) -> M:
        message = callback_pb2.CallbackInvokeRequest(token=self._token, request=request.SerializeToString())
        try:
            answer = await rpc.call(self._stub.Invoke, message)
        except rpc.Failure as failure:
            raise CallbackFailed(failure.text) from failure
        response.ParseFromString(answer.response)
        return response


class Callbacks:
    """Connections to the servers that the program's functions are behind, one each."""

    def __init__(self) -> None:
        self._channels: dict[str, grpc.Channel] = {}

    def get(self, callback: callback_pb2.Callback) -> Callback:
        """The function that ``callback`` names; raises ValueError where it has no target."""
        if not callback.target:
            raise ValueError("target must be specified")
        if callback.target not in self._channels:
            self._channels[callback.target] = rpc.open_channel(callback.target)
        return Callback(callback_pb2_grpc.CallbacksStub(self._channels[callback.target]), callback.token)

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()


def _hook_fields(old: ResourceState | None, new: ResourceState | None) -> dict[str, Any]:
    state = new or old
    assert state is not None
    fields: dict[str, Any] = {
        "urn": state.urn,
        "id": state.id,
        "name": urns.name_of(state.urn),
        "type": state.type,
    }
    if new is not None:
        fields["new_inputs"] = wire.to_struct(new.inputs, outputs=True)
        fields["new_options"] = _options(new)
    if old is not None:
        fields["old_inputs"] = wire.to_struct(old.inputs, outputs=True)
        fields["old_outputs"] = wire.to_struct(old.outputs, outputs=True)
        fields["old_options"] = _options(old)
    return fields


def _options(state: ResourceState) -> resource_pb2.ResourceOptions:
    options = resource_pb2.ResourceOptions(
        depends_on=state.dependencies,
        ignore_changes=state.ignore_changes,
        replace_on_changes=state.replace_on_changes,
        provider=state.provider,
        deleted_with=state.deleted_with,
        hide_diff=state.hide_diff,
        replace_with=state.replace_with,
        parent=state.parent,
        aliases=[alias_pb2.Alias(urn=a) for a in state.aliases],
        additional_secret_outputs=state.additional_secret_outputs,
        protect=state.protect,
        retain_on_delete=state.retain_on_delete,
    )
    setattr(options, "import", state.import_id)
    if state.resource_hooks:
        bindings = resource_pb2.RegisterResourceRequest.ResourceHooksBinding
        options.hooks.CopyFrom(bindings(**hook_fields(state.resource_hooks)))
    timeouts = state.custom_timeouts
    if timeouts:
        options.custom_timeouts.CopyFrom(
            resource_pb2.RegisterResourceRequest.CustomTimeouts(
                create=_duration(timeouts.create_s),
                update=_duration(timeouts.update_s),
                delete=_duration(timeouts.delete_s),
                read=_duration(timeouts.read_s),
            )
        )
    return options


#: Names of hook bindings on the wire, by the kinds that the state knows.
HOOK_FIELDS: Mapping[str, str] = {
    "BeforeCreate": "before_create",
    "AfterCreate": "after_create",
    "BeforeUpdate": "before_update",
    "AfterUpdate": "after_update",
    "BeforeDelete": "before_delete",
    "AfterDelete": "after_delete",
    "OnError": "on_error",
}


def hook_fields(hooks: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The fields of a message that bind a resource to ``hooks``."""
    return {HOOK_FIELDS[kind]: names for kind, names in hooks.items()}


def _duration(seconds: float) -> str:
    return f"{seconds:g}s" if seconds else ""


T = TypeVar("T")

#: How often error hooks may have an operation tried again. Source: Pulumi's step.go.
MAX_RETRIES: Final = 100


@dataclass(frozen=True, slots=True)
class ResourceHook:
    """A function of the program that runs before or after a step."""

    callback: Callback
    on_dry_run: bool
    ignore_errors: bool


class Hooks:
    """The hooks that the program registered, by name."""

    def __init__(self, status: Status, *, preview: bool) -> None:
        self._status = status
        self._preview = preview
        self._resource_hooks: dict[str, ResourceHook] = {}
        self._error_hooks: dict[str, Callback] = {}
        #: Whether an after hook failed: the step stands, the operation has failed.
        self.failed = False

    def register(self, name: str, hook: ResourceHook) -> None:
        """Add a resource hook; raises ValueError where the name is empty or taken."""
        self._check(name)
        self._resource_hooks[name] = hook

    def register_error_hook(self, name: str, callback: Callback) -> None:
        """Add an error hook; raises ValueError where the name is empty or taken."""
        self._check(name)
        self._error_hooks[name] = callback

    async def run(self, kind: str, old: ResourceState | None, new: ResourceState | None) -> None:
        """Run the hooks of that kind which the resource names, one after the other.

        Raises:
            HookFailed: where one fails that may not be ignored.
        """
        state = new or old
        assert state is not None
        for name in state.resource_hooks.get(kind, ()):
            hook = self._resource_hooks.get(name)
            if hook is None:
                raise HookFailed(f'hook "{name}" was not registered')
            if self._preview and not hook.on_dry_run:
                continue
            try:
                await hook.callback.resource_hook(old, new, after=kind.startswith("After"))
            except Exception as error:
                if hook.ignore_errors:
                    self._status.warn(f'{kind} hook "{name}" failed: {error}', state.urn)
                    continue
                when = "before" if kind.startswith("Before") else "after"
                raise HookFailed(f'{when} hook "{name}" failed: {error}') from error

    async def run_after(self, kind: str, old: ResourceState | None, new: ResourceState | None) -> None:
        """Run after hooks: one that fails fails the operation, but not the step, which is done."""
        state = new or old
        assert state is not None
        if kind not in state.resource_hooks:
            return
        try:
            await self.run(kind, old, new)
        except HookFailed as error:
            self._status.error(str(error), state.urn)
            self.failed = True

    async def with_retries(
        self,
        operation: str,
        old: ResourceState | None,
        new: ResourceState | None,
        attempt: Callable[[], Awaitable[T]],
    ) -> T:
        """Do ``attempt``, again while it fails and the resource's error hooks ask for it."""
        state = new or old
        assert state is not None
        names = state.resource_hooks.get("OnError", ())
        failures: list[str] = []
        while True:
            try:
                return await attempt()
            except (ProviderDied, InitializationFailed):
                raise
            except ProviderError as error:
                failures.insert(0, str(error))
                if not names or not await self._wants_retry(names, operation, old, new, failures):
                    raise
                if len(failures) > MAX_RETRIES:
                    self._status.warn(
                        f"maximum number of error hook retries ({MAX_RETRIES}) reached", state.urn
                    )
                    raise
                self._status.warn(
                    f"retrying {operation} due to on-error hook request ({len(failures)}/{MAX_RETRIES})",
                    state.urn,
                )

    async def _wants_retry(
        self,
        names: tuple[str, ...],
        operation: str,
        old: ResourceState | None,
        new: ResourceState | None,
        failures: list[str],
    ) -> bool:
        retry = False
        for name in names:
            callback = self._error_hooks.get(name)
            if callback is None:
                raise HookFailed(f'error hooks execution failed: error hook "{name}" was not registered')
            try:
                retry = await callback.error_hook(old, new, operation, failures) or retry
            except Exception as error:
                raise HookFailed(
                    f'error hooks execution failed: error hook "{name}" failed: {error}'
                ) from error
        return retry

    def _check(self, name: str) -> None:
        if not name:
            raise ValueError("resource hook name cannot be empty")
        if name in self._resource_hooks or name in self._error_hooks:
            raise ValueError(f'resource hook already registered for name "{name}"')
