"""Resources <-> the JSON of a checkpoint (``ResourceV3``).

Key names, their order and what is left out when empty are those of Go's struct in
``sdk/go/common/apitype/core.go``. Keys that are not known here are kept and written back.
"""

from __future__ import annotations

from typing import Any, Final

from tidepool.engine.errors import EngineError
from tidepool.engine.resource import CustomTimeouts, ResourceState
from tidepool.engine.value_json import (
    Decrypt,
    Encrypt,
    decode_properties,
    decode_value,
    encode_properties,
    encode_value,
)


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
