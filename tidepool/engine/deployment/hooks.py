"""The program's own functions around steps: resource hooks and error hooks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from tidepool.engine.deployment.callbacks import Callback
from tidepool.engine.deployment.status import HookFailed, Status
from tidepool.engine.providers.contract import InitializationFailed, ProviderDied, ProviderError
from tidepool.engine.resource import ResourceState

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
                await hook.callback.resource_hook(name, old, new, after=kind.startswith("After"))
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
                retry = await callback.error_hook(name, old, new, operation, failures) or retry
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
