"""Properties as plain Python values. What has a signature stays as the object that was sent."""

from __future__ import annotations

from typing import Any

from google.protobuf import struct_pb2

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"
OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def from_struct(message: struct_pb2.Struct) -> dict[str, Any]:
    fields = message.fields
    return {key: _from(fields[key]) for key in fields}


def to_struct(properties: dict[str, Any]) -> struct_pb2.Struct:
    message = struct_pb2.Struct()
    fields = message.fields
    for key, value in properties.items():
        _fill(fields[key], value)
    return message


def secret(value: Any) -> dict[str, Any]:
    return {SIGNATURE: SECRET, "value": value}


def plain(value: Any) -> Any:
    """``value`` without secrets and outputs: what the real world is told."""
    if isinstance(value, dict):
        signature = value.get(SIGNATURE)
        if signature == SECRET:
            return plain(value["value"])
        if signature == OUTPUT:
            return plain(value.get("value", UNKNOWN))
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value


def _from(message: struct_pb2.Value) -> Any:
    kind = message.WhichOneof("kind")
    if kind == "string_value":
        return message.string_value
    if kind == "number_value":
        number = message.number_value
        return int(number) if number.is_integer() else number
    if kind == "bool_value":
        return message.bool_value
    if kind == "struct_value":
        return from_struct(message.struct_value)
    if kind == "list_value":
        return [_from(v) for v in message.list_value.values]
    return None


def _fill(message: struct_pb2.Value, value: Any) -> None:
    if isinstance(value, str):
        message.string_value = value
    elif value is None:
        message.null_value = struct_pb2.NULL_VALUE
    elif isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, int | float):
        message.number_value = value
    elif isinstance(value, dict):
        message.struct_value.CopyFrom(to_struct(value))
    else:
        message.list_value.SetInParent()
        for item in value:
            _fill(message.list_value.values.add(), item)
