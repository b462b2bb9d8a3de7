"""A deployment moved to another stack name or project: every URN in it is rewritten.

Works on the JSON form, so no passphrase is needed: URNs do not stand within ciphertexts, only within
secrets in plain text. Source: ``RenameStack`` in ``pkg/resource/edit/operations.go``.
"""

from __future__ import annotations

from typing import Any, Final

from tidepool.engine import urn as urns
from tidepool.engine.state.layout import StackReference
from tidepool.engine.value_json import RESOURCE_REFERENCE, SIGNATURE_KEY

_ONE: Final = ("urn", "parent", "deletedWith", "viewOf")
_MANY: Final = ("dependencies", "replaceWith", "aliases")


def rename_deployment(raw: dict[str, Any], old: StackReference, new: StackReference) -> dict[str, Any]:
    """``raw`` (a ``DeploymentV3``) with the stack ``old`` named ``new``; ``raw`` itself stays as it is."""
    out = dict(raw)
    if raw.get("resources"):
        out["resources"] = [_resource(r, old, new) for r in raw["resources"]]
    if raw.get("pending_operations"):
        out["pending_operations"] = [
            {**op, "resource": _resource(op["resource"], old, new)} for op in raw["pending_operations"]
        ]
    return out


def rename_urn(urn: str, old: StackReference, new: StackReference) -> str:
    """``urn`` moved from the stack ``old`` to ``new``; as it is where it belongs to another stack."""
    try:
        parts = urns.parse(urn)
    except ValueError:
        return urn
    if parts.stack != old.name or parts.project != old.project:
        return urn
    if parts.qualified_type == urns.ROOT_STACK_TYPE:
        return urns.make(new.name, new.project, "", urns.ROOT_STACK_TYPE, f"{new.project}-{new.name}")
    return urns.renamed(urn, new.name, new.project)


def _resource(raw: dict[str, Any], old: StackReference, new: StackReference) -> dict[str, Any]:
    out = dict(raw)
    for key in _ONE:
        if out.get(key):
            out[key] = rename_urn(out[key], old, new)
    for key in _MANY:
        if out.get(key):
            out[key] = [rename_urn(u, old, new) for u in out[key]]
    if out.get("propertyDependencies"):
        out["propertyDependencies"] = {
            key: [rename_urn(u, old, new) for u in deps or ()]
            for key, deps in out["propertyDependencies"].items()
        }
    if out.get("provider"):
        urn, _, id = out["provider"].rpartition("::")
        out["provider"] = f"{rename_urn(urn, old, new)}::{id}"
    for key in ("inputs", "outputs", "replacementTrigger"):
        if out.get(key) is not None:
            out[key] = _value(out[key], old, new)
    return out


def _value(raw: Any, old: StackReference, new: StackReference) -> Any:
    if isinstance(raw, list):
        return [_value(item, old, new) for item in raw]
    if not isinstance(raw, dict):
        return raw
    if raw.get(SIGNATURE_KEY) == RESOURCE_REFERENCE and isinstance(raw.get("urn"), str):
        return {**raw, "urn": rename_urn(raw["urn"], old, new)}
    if SIGNATURE_KEY in raw:
        return raw
    return {key: _value(item, old, new) for key, item in raw.items()}
