"""Resources of a stack, and their JSON in a checkpoint (``ResourceV3``).

Key names, their order and what is left out when empty are those of Go's struct in
``sdk/go/common/apitype/core.go``. Keys that are not known here are kept and written back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
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
        return self.type.startswith(PROVIDER_TYPE_PREFIX)

    def changed(self, **changes: Any) -> ResourceState:
        """This state with other values in some fields: as `dataclasses.replace` does, in a third of the time."""
        values = list(_VALUES(self))
        for name, value in changes.items():
            values[_PLACES[name]] = value
        return ResourceState(*values)

    def references(self) -> Iterator[tuple[str, str]]:
        """All that this resource refers to but its provider: the kind of reference, and the URN."""
        if self.parent:
            yield "parent", self.parent
        for urn in self.dependencies:
            yield "dependency", urn
        for key, named in self.property_dependencies.items():
            kind = f"property dependency (of property {key})"
            for urn in named:
                yield kind, urn
        if self.deleted_with:
            yield "deletedWith", self.deleted_with
        for urn in self.replace_with:
            yield "replaceWith", urn

    def all_dependencies(self) -> set[str]:
        """The URNs that must exist while this resource does: parent, provider, dependencies of all kinds."""
        urns = {urn for _, urn in self.references()}
        if self.provider:
            urns.add(self.provider.rsplit("::", 1)[0])
        return urns


_PLACES: Final = {field.name: place for place, field in enumerate(fields(ResourceState))}
_VALUES: Final = attrgetter(*_PLACES)


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
    for key, value_of, form in _ENCODED:
        value = value_of(state)
        if value:
            out[key] = value if form is None else form.encode(value, encrypt)
        elif form is _VALUE and value is not None:
            out[key] = encode_value(value, encrypt)
    if state.unknown_fields:
        out.update(state.unknown_fields)
    return out


def _decode_resource(raw: dict[str, Any], decrypt: Decrypt) -> ResourceState:
    if not raw["urn"] or not raw["type"]:
        raise ValueError("'urn' and 'type' must not be empty")
    if raw.get("id") and not raw.get("custom"):
        raise ValueError("'custom' is false but the ID is not empty")
    fields: dict[str, Any] = {"custom": False}
    unknown: dict[str, Any] = {}
    for key, value in raw.items():
        known = _FIELDS.get(key)
        if known is None:
            unknown[key] = value
            continue
        name, form = known
        if value:
            fields[name] = value if form is None else form.decode(value, decrypt)
        elif form is _VALUE and value is not None:
            fields[name] = decode_value(value, decrypt)
    return ResourceState(**fields, unknown_fields=unknown)


@dataclass(frozen=True, slots=True)
class _Form:
    """A field's JSON, where that is not the value itself."""

    encode: Callable[[Any, Encrypt], Any]
    decode: Callable[[Any, Decrypt], Any]


_PROPERTIES: Final = _Form(encode_properties, decode_properties)
_VALUE: Final = _Form(encode_value, decode_value)
_LIST: Final = _Form(lambda value, _: list(value), lambda raw, _: tuple(raw))
_LISTS: Final = _Form(
    lambda value, _: {key: list(value[key]) for key in sorted(value)},
    lambda raw, _: {key: tuple(items or ()) for key, items in raw.items()},
)
_TIMEOUTS: Final = _Form(lambda value, _: _encode_timeouts(value), lambda raw, _: _decode_timeouts(raw))
_POSITIONS: Final = _Form(
    lambda value, _: [{"sourcePosition": p} if p else {} for p in value],
    lambda raw, _: tuple([frame.get("sourcePosition") or "" for frame in raw]),
)

#: The fields by their keys, in the order in which they are written. Empty ones are left out.
_FIELDS: Final[Mapping[str, tuple[str, _Form | None]]] = {
    "urn": ("urn", None),
    "custom": ("custom", None),
    "delete": ("delete", None),
    "id": ("id", None),
    "type": ("type", None),
    "inputs": ("inputs", _PROPERTIES),
    "outputs": ("outputs", _PROPERTIES),
    "parent": ("parent", None),
    "protect": ("protect", None),
    "taint": ("taint", None),
    "external": ("external", None),
    "dependencies": ("dependencies", _LIST),
    "initErrors": ("init_errors", _LIST),
    "provider": ("provider", None),
    "propertyDependencies": ("property_dependencies", _LISTS),
    "pendingReplacement": ("pending_replacement", None),
    "additionalSecretOutputs": ("additional_secret_outputs", _LIST),
    "aliases": ("aliases", _LIST),
    "customTimeouts": ("custom_timeouts", _TIMEOUTS),
    "importID": ("import_id", None),
    "retainOnDelete": ("retain_on_delete", None),
    "deletedWith": ("deleted_with", None),
    "replaceWith": ("replace_with", _LIST),
    "created": ("created", None),
    "modified": ("modified", None),
    "sourcePosition": ("source_position", None),
    "stackTrace": ("stack_trace", _POSITIONS),
    "ignoreChanges": ("ignore_changes", _LIST),
    "hideDiff": ("hide_diff", _LIST),
    "replaceOnChanges": ("replace_on_changes", _LIST),
    "replacementTrigger": ("replacement_trigger", _VALUE),
    "refreshBeforeUpdate": ("refresh_before_update", None),
    "viewOf": ("view_of", None),
    "resourceHooks": ("resource_hooks", _LISTS),
}
_ENCODED: Final = tuple(
    (key, attrgetter(name), form) for key, (name, form) in _FIELDS.items() if key not in ("urn", "custom")
)


_TIMED: Final = ("create", "update", "delete", "read")


def _decode_timeouts(raw: dict[str, Any]) -> CustomTimeouts:
    return CustomTimeouts(*(float(raw.get(kind) or 0) for kind in _TIMED))


def _encode_timeouts(timeouts: CustomTimeouts) -> dict[str, Any]:
    seconds = ((kind, getattr(timeouts, f"{kind}_s")) for kind in _TIMED)
    return {kind: int(s) if s == int(s) else s for kind, s in seconds if s}
