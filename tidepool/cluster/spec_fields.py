"""Descriptions of the models of a spec: their keys, and the models within them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo


def field_key(name: str, field: FieldInfo) -> str:
    """The key of a field in ``Pulumi.<stack>.yaml``."""
    alias = field.validation_alias
    return alias if isinstance(alias, str) else name


def models_in(annotation: Any) -> tuple[type[BaseModel], ...]:
    """The models that values of ``annotation`` are, or hold: of ``tuple[Fleet, ...]`` it is Fleet."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    return tuple(dict.fromkeys(found for inner in get_args(annotation) for found in models_in(inner)))


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The first of them, which is the only one but where a ``name`` tells which of several is meant."""
    return next(iter(models_in(annotation)), None)


def is_by_name(annotation: Any) -> bool:
    """Return whether values of ``annotation`` are mappings, in which a person's names stand before the models."""
    origin = get_origin(annotation)
    return (isinstance(origin, type) and issubclass(origin, Mapping)) or any(
        is_by_name(inner) for inner in get_args(annotation)
    )


def model_named(annotation: Any, name: str) -> type[BaseModel] | None:
    """Return that one of several models whose ``name`` it is."""
    found = models_in(annotation)
    named = (model for model in found if name in get_args(_name_of(model)))
    return next(named, None) if len(found) > 1 else None


def _name_of(model: type[BaseModel]) -> Any:
    field = model.model_fields.get("name")
    return field.annotation if field else None
