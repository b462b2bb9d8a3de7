"""Frozen views as documents of JSON: keys in camel case, times in ISO 8601 and UTC, node sets as hostlists. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from tidepool.cluster.hostlist import HostSet


def document(view: object) -> Any:
    """``view`` with all in it as JSON has it."""
    if is_dataclass(view) and not isinstance(view, type):
        return {_camel(each.name): document(getattr(view, each.name)) for each in fields(view)}
    if isinstance(view, Mapping):
        return {str(_key(key)): document(value) for key, value in view.items()}
    if isinstance(view, datetime):
        return view.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(view, HostSet):
        return str(view)
    if isinstance(view, Enum):
        return view.value
    if isinstance(view, tuple | list | set | frozenset):
        return [document(each) for each in view]
    return view


def _key(key: object) -> object:
    return key.value if isinstance(key, Enum) else key


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
