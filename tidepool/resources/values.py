"""Pulumi's property values as plain Python, and as the messages that they travel in.

What a request has is left as it came, and read where it is looked at: most of it goes back as it is. (The SDK's `PropertyValue`
makes an object of each part; those of a thousand users take longer than all that is done with them.) Source: Pulumi's
``sdk/go/common/resource/plugin/rpc.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, TypeAlias

from google.protobuf.struct_pb2 import ListValue, NullValue, Struct, Value

#: None, a bool, a float, a text, a list or a dict of these, or `UNKNOWN`.
Plain: TypeAlias = Any
Inputs: TypeAlias = Mapping[str, Plain]
#: Properties as they travel.
Properties: TypeAlias = Mapping[str, Value]


class _Unknown(Enum):
    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return "UNKNOWN"


#: Stands, in previews, for what is known only when something else was made.
UNKNOWN: Final = _Unknown.UNKNOWN

#: As the protocol writes it: for a text, a bool, a number, a list, an asset, an archive, a map.
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
#: The key by which a map is something else, and what it is then.
SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
_SECRET: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 (a word of the protocol)
_OUTPUT: Final = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
_OTHERS: Final = {
    "c44067f5952c0a294b673a41bacd8c17": "asset",
    "0def7320c3a5731c473e5ecbe6d01bc7": "archive",
    "5cf8f73096256a8f31e491e813e4eb8e": "resource",
}


def plain(value: Value) -> Plain:
    """Return the value without secrecy and dependencies.

    Raises:
        ValueError: it is an asset, an archive or a resource, which no input of ours takes.
    """
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        text = value.string_value
        return UNKNOWN if text in _UNKNOWN_TEXTS else text
    if kind == "struct_value":
        fields = value.struct_value.fields
        if SIGNATURE not in fields:
            return {key: plain(each) for key, each in fields.items()}
        signature = fields[SIGNATURE].string_value
        if signature in (_SECRET, _OUTPUT):
            return plain(fields["value"]) if "value" in fields else UNKNOWN
        raise ValueError(
            f"a value is {_OTHERS.get(signature, 'of a newer protocol')}; allowed are texts, numbers, lists and maps"
        )
    if kind == "list_value":
        return [plain(each) for each in value.list_value.values]
    return None if kind in (None, "null_value") else getattr(value, kind)


def property_value(value: Plain, *, secret: bool = False) -> Value:
    """Return the value as Pulumi is told of it."""
    if secret:
        fields = {SIGNATURE: Value(string_value=_SECRET), "value": property_value(value)}
        return Value(struct_value=Struct(fields=fields))
    if value is UNKNOWN:
        return Value(string_value=_UNKNOWN_TEXT)
    if value is None:
        return Value(null_value=NullValue.NULL_VALUE)
    if isinstance(value, bool):
        return Value(bool_value=value)
    if isinstance(value, int | float):
        return Value(number_value=value)
    if isinstance(value, Mapping):
        return Value(struct_value=Struct(fields={key: property_value(each) for key, each in value.items()}))
    if isinstance(value, list | tuple):
        return Value(list_value=ListValue(values=[property_value(each) for each in value]))
    return Value(string_value=value)


def has_secret(value: Value) -> bool:
    """Return whether some of it is secret."""
    if value.HasField("list_value"):
        return any(map(has_secret, value.list_value.values))
    if not value.HasField("struct_value"):
        return False
    fields = value.struct_value.fields
    signature = fields[SIGNATURE].string_value if SIGNATURE in fields else ""
    if signature == _SECRET or (signature == _OUTPUT and "secret" in fields and fields["secret"].bool_value):
        return True
    return any(map(has_secret, fields.values()))


def has_unknowns(value: Plain) -> bool:
    """Return whether something of it is not known yet."""
    if isinstance(value, Mapping):
        return any(has_unknowns(each) for each in value.values())
    if isinstance(value, list):
        return any(has_unknowns(each) for each in value)
    return value is UNKNOWN


def whole_numbers(value: Any) -> Any:
    """Return a document with whole numbers as people write them: to Pulumi each has a point."""
    if isinstance(value, Mapping):
        return {key: whole_numbers(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [whole_numbers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
