"""Resources of a stack, with the fields that the checkpoint has of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tidepool.engine.values import Properties

PROVIDER_TYPE_PREFIX: Final = "pulumi:providers:"

OperationType = Literal["creating", "updating", "deleting", "reading", "importing"]


@dataclass(frozen=True, slots=True)
class CustomTimeouts:
    """Limits of each operation of a provider, in seconds; 0 is the provider's own default."""

    create_s: float = 0.0
    update_s: float = 0.0
    delete_s: float = 0.0
    read_s: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.create_s or self.update_s or self.delete_s or self.read_s)


@dataclass(frozen=True, slots=True)
class ResourceState:
    """One resource of a stack.

    Two states of one URN can stand side by side: the live one and older ones with ``delete`` set,
    which wait for their deletion after a replacement. Fields are those of Pulumi's ``ResourceV3``
    (``sdk/go/common/apitype/core.go``); times are RFC 3339 strings as found in the checkpoint.
    """

    urn: str
    type: str
    custom: bool
    id: str = ""
    delete: bool = False
    inputs: Properties = field(default_factory=dict)
    outputs: Properties = field(default_factory=dict)
    parent: str = ""
    protect: bool = False
    taint: bool = False
    external: bool = False
    dependencies: tuple[str, ...] = ()
    init_errors: tuple[str, ...] = ()
    provider: str = ""
    property_dependencies: dict[str, tuple[str, ...]] = field(default_factory=dict)
    pending_replacement: bool = False
    additional_secret_outputs: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    custom_timeouts: CustomTimeouts = CustomTimeouts()
    import_id: str = ""
    retain_on_delete: bool = False
    deleted_with: str = ""
    replace_with: tuple[str, ...] = ()
    created: str = ""
    modified: str = ""
    source_position: str = ""
    stack_trace: tuple[str, ...] = ()
    ignore_changes: tuple[str, ...] = ()
    hide_diff: tuple[str, ...] = ()
    replace_on_changes: tuple[str, ...] = ()
    replacement_trigger: Any = None
    refresh_before_update: bool = False
    view_of: str = ""
    resource_hooks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: Keys of the checkpoint that this engine does not know, kept as they were read.
    unknown_fields: dict[str, Any] = field(default_factory=dict)

    @property
    def is_provider(self) -> bool:
        """Tells whether this resource is a provider itself."""
        return self.type.startswith(PROVIDER_TYPE_PREFIX)

    def all_dependencies(self) -> set[str]:
        """The URNs that must exist while this resource does: parent, provider, dependencies of all kinds."""
        urns = set(self.dependencies)
        for deps in self.property_dependencies.values():
            urns.update(deps)
        urns.update(self.replace_with)
        if self.parent:
            urns.add(self.parent)
        if self.deleted_with:
            urns.add(self.deleted_with)
        if self.provider:
            urns.add(self.provider.rsplit("::", 1)[0])
        return urns


@dataclass(frozen=True, slots=True)
class PendingOperation:
    """A step that was under way when its operation was cut off: what became of it is not known."""

    resource: ResourceState
    type: OperationType


@dataclass(frozen=True, slots=True)
class SecretsProvider:
    """The encryption of a stack's secrets: ``type`` is "passphrase"; ``state`` holds its salt."""

    type: str
    state: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All resources of a stack, each after those it depends on."""

    resources: tuple[ResourceState, ...] = ()
    pending_operations: tuple[PendingOperation, ...] = ()
    secrets_provider: SecretsProvider | None = None
    #: Keys of the deployment that this engine does not interpret (metadata, ...), kept as they were read.
    unknown_fields: dict[str, Any] = field(default_factory=dict)
