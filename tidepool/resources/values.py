"""Pulumi's property values as plain Python, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, TypeAlias

from pulumi.provider.experimental.property_value import Computed, PropertyValue

#: None, a bool, a float, a text, a list or a dict of these, or `UNKNOWN`.
Plain: TypeAlias = Any
Inputs: TypeAlias = Mapping[str, Plain]


class _Unknown(Enum):
    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return "UNKNOWN"


#: Stands, in previews, for what is known only when something else was made.
UNKNOWN: Final = _Unknown.UNKNOWN

#: As the protocol writes it: for a text, a bool, a number, a list, an asset, an archive, a map. The SDK's
#: `PropertyValue` (3.260) takes them for ordinary texts, and cannot write its own `Computed`.
_UNKNOWN_TEXT: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_UNKNOWN_TEXTS: Final = frozenset(
    {
        _UNKNOWN_TEXT,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)


def plain(value: Any) -> Plain:
    """The `PropertyValue` without secrecy and dependencies.

    Raises:
        ValueError: it is an asset, an archive or a resource, which no input of ours takes.
    """
    held = value.value
    if isinstance(held, Computed) or (isinstance(held, str) and held in _UNKNOWN_TEXTS):
        return UNKNOWN
    if held is None or isinstance(held, bool | float | str):
        return held
    if isinstance(held, Mapping):
        return {key: plain(each) for key, each in held.items()}
    if isinstance(held, Sequence):
        return [plain(each) for each in held]
    raise ValueError(f"a value is {value.type.value.lower()}; allowed are texts, numbers, lists and maps")


def property_value(value: Plain, *, secret: bool = False) -> PropertyValue:
    """The value as Pulumi is told of it."""
    return PropertyValue(_held(value), is_secret=secret)


def _held(value: Plain) -> Any:
    if value is UNKNOWN:
        return _UNKNOWN_TEXT
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return float(value)
    if isinstance(value, Mapping):
        return {key: property_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [property_value(each) for each in value]
    return value


def has_unknowns(value: Plain) -> bool:
    """Return whether something of it is not known yet."""
    if isinstance(value, Mapping):
        return any(has_unknowns(each) for each in value.values())
    if isinstance(value, list):
        return any(has_unknowns(each) for each in value)
    return value is UNKNOWN
