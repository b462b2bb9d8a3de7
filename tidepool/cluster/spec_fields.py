"""What the models of a spec say of themselves: their keys, and the models within them."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo


def field_key(name: str, field: FieldInfo) -> str:
    """The key of a field in ``Pulumi.<stack>.yaml``."""
    alias = field.validation_alias
    return alias if isinstance(alias, str) else name


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that values of ``annotation`` are, or hold: of ``tuple[Fleet, ...]`` it is Fleet."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := model_in(inner))), None)
