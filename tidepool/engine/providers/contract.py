"""The contract of providers: the engine's questions, and the answers that a provider can give.

One class of the contract speaks gRPC to a plugin in its own process (:mod:`.plugin`); another serves
the engine's own types in the same process (:mod:`.builtin`). All methods are coroutines on the engine's
loop. Source: ``proto/pulumi/provider.proto``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from tidepool.engine.events import PropertyDiff
from tidepool.engine.values import Properties


class ProviderError(Exception):
    """The provider refused or failed. The text is the provider's own message, ready to be shown.

    ``state_unknown`` is true where the failure leaves open what the resource is, as the Pulumi CLI judges it:
    gRPC's Internal, DataLoss and Unknown from an update, a delete or a read, and a create without an id.
    """

    def __init__(self, text: str, *, state_unknown: bool = False) -> None:
        super().__init__(text)
        self.state_unknown = state_unknown


class ProviderDied(ProviderError):
    """The provider's process ended while a call was under way: what became of the call is not known.

    The text holds the last lines of its stderr.
    """


class ProviderUnimplemented(ProviderError):
    """The provider does not implement this call."""


class DiffUnavailable(ProviderError):
    """The provider cannot compare yet, because its own configuration is not known in this preview.

    The text is a warning to show; the engine then takes the resource as changed, to be updated in place.
    """


class InitializationFailed(ProviderError):
    """The resource exists, but did not come up: ``id`` and ``outputs`` are to be kept, with ``reasons``."""

    def __init__(
        self, id: str, outputs: Properties, inputs: Properties | None, reasons: tuple[str, ...]
    ) -> None:
        super().__init__(_listed(reasons))
        self.id = id
        self.outputs = outputs
        self.inputs = inputs
        self.reasons = reasons

    @property
    def found(self) -> ReadResult:
        """The resource as it is."""
        return ReadResult(self.id, self.inputs, self.outputs)


def _listed(reasons: tuple[str, ...]) -> str:
    """Several reasons as the Pulumi CLI lists them."""
    if not reasons:
        return "resource failed to initialize"
    count = "1 error" if len(reasons) == 1 else f"{len(reasons)} errors"
    return f"{count} occurred:\n" + "".join(f"\t* {r}\n" for r in reasons) + "\n"


@dataclass(frozen=True, slots=True)
class Existing:
    """A resource as the stack has it. ``id`` is empty for the configuration of a provider."""

    id: str
    inputs: Properties
    outputs: Properties


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """One mistake in a resource's inputs. ``property`` is a path, or empty."""

    property: str
    reason: str


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Inputs as the provider completed them; they count only where ``failures`` is empty."""

    inputs: Properties
    failures: tuple[CheckFailure, ...] = ()


@dataclass(frozen=True, slots=True)
class DiffResult:
    """``changes`` "unknown" lets the engine compare the inputs itself."""

    changes: Literal["none", "some", "unknown"]
    replace_keys: tuple[str, ...] = ()
    changed_keys: tuple[str, ...] = ()
    delete_before_replace: bool = False
    #: None where the provider gave no detailed diff.
    detailed_diff: Mapping[str, PropertyDiff] | None = None

    @property
    def replaces(self) -> bool:
        """True where the change can only be made by a new resource."""
        return bool(self.replace_keys)


@dataclass(frozen=True, slots=True)
class CreateResult:
    """``id`` is empty in a preview where it is not known yet."""

    id: str
    outputs: Properties
    refresh_before_update: bool = False


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """The resource's outputs after the update."""

    outputs: Properties
    refresh_before_update: bool = False


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The resource as the provider found it. An empty ``id`` says that it is gone."""

    id: str
    inputs: Properties | None
    outputs: Properties | None
    refresh_before_update: bool = False


@dataclass(frozen=True, slots=True)
class InvokeResult:
    """The return value of a function, or the mistakes in its arguments."""

    returns: Properties
    failures: tuple[CheckFailure, ...] = ()


@dataclass(frozen=True, slots=True)
class CallResult:
    """The return value of a method; ``return_dependencies`` are URNs by top-level key."""

    returns: Properties
    return_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    failures: tuple[CheckFailure, ...] = ()


@dataclass(frozen=True, slots=True)
class ConstructResult:
    """The component that a provider registered through the monitor, and its state."""

    urn: str
    state: Properties
    state_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Provider:
    """A configured or not yet configured provider. It refuses what it does not define.

    Every method raises :class:`ProviderError` or one of its kinds. ``timeout_s`` 0 is the provider's
    own default. Properties that hold secrets come back with their secrets marked: where the plugin
    does not keep them, an output equal by key to a secret input is made secret by the caller.
    """

    #: The subject of a refusal.
    kind = "provider"

    async def check_config(self, urn: str, olds: Properties, news: Properties) -> CheckResult:
        """Validate a provider's own inputs."""
        self._refuse("cannot be configured")

    async def diff_config(
        self, urn: str, old: Existing, new_inputs: Properties, ignore_changes: tuple[str, ...]
    ) -> DiffResult:
        """Compare a provider's own inputs."""
        self._refuse("cannot be configured")

    async def configure(self, urn: str, id: str, inputs: Properties) -> None:
        """Give the provider its configuration; once, before any call on resources."""
        self._refuse("cannot be configured")

    async def check(
        self, urn: str, olds: Properties, news: Properties, random_seed: bytes, preview: bool
    ) -> CheckResult:
        """Validate and complete a resource's inputs."""
        self._refuse("cannot be checked")

    async def diff(
        self, urn: str, old: Existing, new_inputs: Properties, ignore_changes: tuple[str, ...]
    ) -> DiffResult:
        """Compare a resource's state with new inputs."""
        self._refuse("cannot be compared")

    async def create(self, urn: str, inputs: Properties, timeout_s: float, preview: bool) -> CreateResult:
        """Make the resource; raises InitializationFailed where it exists but did not come up."""
        self._refuse("cannot be created")

    async def read(self, urn: str, old: Existing, timeout_s: float = 0) -> ReadResult:
        """Find out what the resource is now; raises InitializationFailed where it is not well."""
        self._refuse("may not be read")

    async def update(
        self,
        urn: str,
        old: Existing,
        new_inputs: Properties,
        timeout_s: float,
        ignore_changes: tuple[str, ...],
        preview: bool,
    ) -> UpdateResult:
        """Change the resource in place; raises InitializationFailed as ``create`` does."""
        self._refuse("cannot be updated")

    async def delete(self, urn: str, old: Existing, timeout_s: float) -> None:
        """Remove the resource; one that is gone already is a success."""

    async def construct(self, request: Any) -> ConstructResult:
        """Let the provider make a component; ``request`` is a ``provider_pb2.ConstructRequest``."""
        self._refuse("may not be constructed")

    async def invoke(self, token: str, args: Properties, preview: bool) -> InvokeResult:
        """Call a function of the provider."""
        self._refuse("have no functions")

    async def call(self, request: Any) -> CallResult:
        """Call a method of a component; ``request`` is a ``provider_pb2.CallRequest``."""
        self._refuse("have no methods")

    async def cancel(self) -> None:
        """Ask the provider to end what is under way, soon and cleanly."""

    async def close(self) -> None:
        """End the provider's process; nothing may be under way any more."""

    def _refuse(self, why: str) -> NoReturn:
        raise ProviderError(f"{self.kind} {why}")
