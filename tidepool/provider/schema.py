"""The schema of the package, for documentation and programs in other languages: what the models declare."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from types import UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

from tidepool.cluster.boot import Variables
from tidepool.resources.model import MISSING, Resource, camel, types_of

_SIMPLE: Final[Mapping[Any, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    IPv4Network: "string",
}


def schema_of(resources: Sequence[type[Resource]], version: str) -> str:
    """Return Pulumi's schema of a package with these resources, as JSON."""
    types: dict[str, Any] = {}
    found = {each.token: _resource(each, types) for each in sorted(resources, key=lambda each: each.token)}
    return json.dumps(
        {
            "name": "tidepool",
            "version": version,
            "description": "Clusters of Slurm and Kubernetes that grow and shrink with their queue.",
            "types": types,
            "resources": found,
        }
    )


def _resource(resource: type[Resource], types: dict[str, Any]) -> dict[str, Any]:
    annotations, properties = types_of(resource.model), resource.properties.values()
    specs = {}
    for each in properties:
        spec = _type(annotations[each.name], types)
        if each.keyed_by:
            spec = {"type": "object", "additionalProperties": spec["items"]}
        specs[each.wire] = {
            **spec,
            **({"secret": True} if each.is_secret else {}),
            **({"willReplaceOnChanges": True} if each.replaces else {}),
        }
    inputs = [each for each in properties if each.role == "given"]
    return {
        "description": inspect.getdoc(resource) or "",
        "properties": specs,
        "required": [each.wire for each in properties if each.role == "output" or each.default is MISSING],
        "inputProperties": {each.wire: specs[each.wire] for each in inputs},
        "requiredInputs": [each.wire for each in inputs if each.default is MISSING],
    }


def _type(type_: Any, types: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = get_origin(type_), get_args(type_)
    if type_ == Variables:
        return {"type": "object", "additionalProperties": {"type": "string"}}
    if origin in (Union, UnionType):
        return _type(arguments[0], types)
    if origin in (tuple, Sequence):
        return {"type": "array", "items": _type(arguments[0], types)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _type(arguments[1], types)}
    if origin is Literal or isinstance(type_, TypeVar):
        return {"type": "string"}
    if dataclasses.is_dataclass(model := origin or type_):
        return {"$ref": f"#/types/{_object(model, types)}"}
    return {"type": _SIMPLE[type_]} if type_ in _SIMPLE else {"$ref": "pulumi.json#/Any"}


def _object(model: Any, types: dict[str, Any]) -> str:
    """Add a type of the package; gives its token."""
    token = f"tidepool:index:{model.__name__}"
    if token not in types:
        types[token] = {}
        annotations = types_of(model)
        fields = dataclasses.fields(model)
        types[token] = {
            "type": "object",
            "description": inspect.getdoc(model) or "",
            "properties": {camel(each.name): _type(annotations[each.name], types) for each in fields},
            "required": [camel(each.name) for each in fields if each.default is dataclasses.MISSING],
        }
    return token
