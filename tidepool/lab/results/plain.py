"""Words of the laboratory as JSON, and back: outcomes, workloads, campaigns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")


def to_json(value: object) -> bytes:
    """Return a frozen dataclass, or a mapping, as JSON on one line."""
    return json.dumps(value, default=_plain, ensure_ascii=False).encode()


def from_json(kind: type[T], text: bytes) -> T:
    """Return the value of this kind that stands in ``text``.

    Raises:
        ValueError: it is none, with what is wrong.
    """
    try:
        hashable: Any = kind
        value: T = _adapter(hashable).validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")) from error
    return value


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _plain(value: object) -> Any:
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")
