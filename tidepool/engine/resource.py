"""Resources of a stack, and their JSON in a checkpoint (``ResourceV3``).

Key names, their order and what is left out when empty are those of Go's struct in
``sdk/go/common/apitype/core.go``. Keys that are not known here are kept and written back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tidepool.engine.errors import EngineError
from tidepool.engine.value_json import (
    Decrypt,
    Encrypt,
    decode_properties,
    decode_value,
    encode_properties,
    encode_value,
)
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


class MalformedCheckpoint(EngineError):
    """The state is JSON, but not a checkpoint."""


def decode_resource(raw: dict[str, Any], decrypt: Decrypt) -> ResourceState:
    """The resource that ``raw`` (a ``ResourceV3``) describes.

    Raises:
        MalformedCheckpoint: when a required field is missing or a field has the wrong shape.
    """
    if raw.__class__ is not dict:
        raise MalformedCheckpoint(
            f"a resource in the state is malformed: expected an object, found {raw!r:.100}"
        )
    try:
        return _decode_resource(raw, decrypt)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"missing required field {error}" if isinstance(error, KeyError) else str(error)
        name = raw.get("urn") or "without a URN"
        raise MalformedCheckpoint(f"resource '{name}' in the state is malformed: {what}") from error


def encode_resource(state: ResourceState, encrypt: Encrypt) -> dict[str, Any]:
    """``state`` as a ``ResourceV3``. Nothing of ``state`` is changed; plain parts may be shared with it."""
    out: dict[str, Any] = {"urn": state.urn, "custom": state.custom}
    if state.delete:
        out["delete"] = True
    if state.id:
        out["id"] = state.id
    out["type"] = state.type
    if state.inputs:
        out["inputs"] = encode_properties(state.inputs, encrypt)
    if state.outputs:
        out["outputs"] = encode_properties(state.outputs, encrypt)
    if state.parent:
        out["parent"] = state.parent
    if state.protect:
        out["protect"] = True
    if state.taint:
        out["taint"] = True
    if state.external:
        out["external"] = True
    if state.dependencies:
        out["dependencies"] = list(state.dependencies)
    if state.init_errors:
        out["initErrors"] = list(state.init_errors)
    if state.provider:
        out["provider"] = state.provider
    if state.property_dependencies:
        deps = state.property_dependencies
        out["propertyDependencies"] = {key: list(deps[key]) for key in sorted(deps)}
    if state.pending_replacement:
        out["pendingReplacement"] = True
    if state.additional_secret_outputs:
        out["additionalSecretOutputs"] = list(state.additional_secret_outputs)
    if state.aliases:
        out["aliases"] = list(state.aliases)
    if state.custom_timeouts:
        out["customTimeouts"] = _encode_timeouts(state.custom_timeouts)
    if state.import_id:
        out["importID"] = state.import_id
    if state.retain_on_delete:
        out["retainOnDelete"] = True
    if state.deleted_with:
        out["deletedWith"] = state.deleted_with
    if state.replace_with:
        out["replaceWith"] = list(state.replace_with)
    if state.created:
        out["created"] = state.created
    if state.modified:
        out["modified"] = state.modified
    if state.source_position:
        out["sourcePosition"] = state.source_position
    if state.stack_trace:
        out["stackTrace"] = [{"sourcePosition": p} if p else {} for p in state.stack_trace]
    if state.ignore_changes:
        out["ignoreChanges"] = list(state.ignore_changes)
    if state.hide_diff:
        out["hideDiff"] = list(state.hide_diff)
    if state.replace_on_changes:
        out["replaceOnChanges"] = list(state.replace_on_changes)
    if state.replacement_trigger is not None:
        out["replacementTrigger"] = encode_value(state.replacement_trigger, encrypt)
    if state.refresh_before_update:
        out["refreshBeforeUpdate"] = True
    if state.view_of:
        out["viewOf"] = state.view_of
    if state.resource_hooks:
        hooks = state.resource_hooks
        out["resourceHooks"] = {key: list(hooks[key]) for key in sorted(hooks)}
    if state.unknown_fields:
        out.update(state.unknown_fields)
    return out


_RESOURCE_KEYS: Final = frozenset(
    {
        "urn",
        "custom",
        "delete",
        "id",
        "type",
        "inputs",
        "outputs",
        "parent",
        "protect",
        "taint",
        "external",
        "dependencies",
        "initErrors",
        "provider",
        "propertyDependencies",
        "pendingReplacement",
        "additionalSecretOutputs",
        "aliases",
        "customTimeouts",
        "importID",
        "retainOnDelete",
        "deletedWith",
        "replaceWith",
        "created",
        "modified",
        "sourcePosition",
        "stackTrace",
        "ignoreChanges",
        "hideDiff",
        "replaceOnChanges",
        "replacementTrigger",
        "refreshBeforeUpdate",
        "viewOf",
        "resourceHooks",
    }
)


def _decode_resource(raw: dict[str, Any], decrypt: Decrypt) -> ResourceState:
    get = raw.get
    urn, type = raw["urn"], raw["type"]
    if not urn or not type:
        raise ValueError("'urn' and 'type' must not be empty")
    if get("id") and not get("custom"):
        raise ValueError("'custom' is false but the ID is not empty")
    unknown = raw.keys() - _RESOURCE_KEYS
    trigger = get("replacementTrigger")
    return ResourceState(
        urn=urn,
        type=type,
        custom=get("custom") or False,
        id=get("id") or "",
        delete=get("delete") or False,
        inputs=decode_properties(get("inputs") or {}, decrypt),
        outputs=decode_properties(get("outputs") or {}, decrypt),
        parent=get("parent") or "",
        protect=get("protect") or False,
        taint=get("taint") or False,
        external=get("external") or False,
        dependencies=tuple(get("dependencies") or ()),
        init_errors=tuple(get("initErrors") or ()),
        provider=get("provider") or "",
        property_dependencies={k: tuple(v or ()) for k, v in (get("propertyDependencies") or {}).items()},
        pending_replacement=get("pendingReplacement") or False,
        additional_secret_outputs=tuple(get("additionalSecretOutputs") or ()),
        aliases=tuple(get("aliases") or ()),
        custom_timeouts=_decode_timeouts(get("customTimeouts")),
        import_id=get("importID") or "",
        retain_on_delete=get("retainOnDelete") or False,
        deleted_with=get("deletedWith") or "",
        replace_with=tuple(get("replaceWith") or ()),
        created=get("created") or "",
        modified=get("modified") or "",
        source_position=get("sourcePosition") or "",
        stack_trace=tuple([frame.get("sourcePosition") or "" for frame in get("stackTrace") or ()]),
        ignore_changes=tuple(get("ignoreChanges") or ()),
        hide_diff=tuple(get("hideDiff") or ()),
        replace_on_changes=tuple(get("replaceOnChanges") or ()),
        replacement_trigger=None if trigger is None else decode_value(trigger, decrypt),
        refresh_before_update=get("refreshBeforeUpdate") or False,
        view_of=get("viewOf") or "",
        resource_hooks={k: tuple(v or ()) for k, v in (get("resourceHooks") or {}).items()},
        unknown_fields={k: raw[k] for k in raw if k in unknown} if unknown else {},
    )


_NO_TIMEOUTS: Final = CustomTimeouts()


def _decode_timeouts(raw: dict[str, Any] | None) -> CustomTimeouts:
    if not raw:
        return _NO_TIMEOUTS
    return CustomTimeouts(*(float(raw.get(k) or 0) for k in ("create", "update", "delete", "read")))


def _encode_timeouts(timeouts: CustomTimeouts) -> dict[str, Any]:
    seconds = {
        "create": timeouts.create_s,
        "update": timeouts.update_s,
        "delete": timeouts.delete_s,
        "read": timeouts.read_s,
    }
    return {k: int(s) if s == int(s) else s for k, s in seconds.items() if s}
