"""Property values and the protobuf messages they travel in.

Pulumi sends properties as a ``google.protobuf.Struct``. What JSON has no word for is an object with a
signature under :data:`SIGNATURE_KEY`, or, for unknown values, a string that is one of
:data:`UNKNOWN_STRINGS`. Source: ``sdk/go/common/resource/plugin/rpc.go``.

Numbers are doubles on the wire: those that are whole become ``int`` here. A string that is not valid
UTF-8 travels as base64; here it is a ``str`` with surrogate escapes (:pep:`383`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf import struct_pb2

from tidepool.engine import urn as urns
from tidepool.engine import value_json
from tidepool.engine.errors import EngineError
from tidepool.engine.value_json import EMPTY_ASSET_HASH, SIGNATURE_KEY, UNKNOWN_STRING
from tidepool.engine.values import (
    UNKNOWN,
    Archive,
    Asset,
    Output,
    Properties,
    ResourceReference,
    Secret,
    Unknown,
    Value,
    secret,
)

OUTPUT_SIGNATURE: Final = "d0e6a833031e9bbcd3f4e8bde6ca49a4"

UNKNOWN_STRINGS: Final = frozenset(
    {
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # bool
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # number
        UNKNOWN_STRING,
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # array
        "030794c1-ac77-496b-92df-f27374a8bd58",  # asset
        "e48ece36-62e2-4504-bad9-02848725956a",  # archive
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # object
    }
)
#: SHA-256 of an archive without members: what tells an empty one from one left out.
EMPTY_ARCHIVE_HASH: Final = "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"

#: Up to here a whole double is written without an exponent, in Go's JSON as in Python's integers.
_LARGEST_INT: Final = 1e21


class WireError(EngineError):
    """A message does not follow the protocol, or a value cannot be sent to its receiver."""


@dataclass(frozen=True, slots=True)
class Encoder:
    """The forms that a receiver understands. Without a flag, values are sent in the next plainer form.

    Attributes:
        secrets: keep secrets as such; else send what they hold.
        resources: keep references; else send the resource's id, or its URN where it has none.
        outputs: keep outputs with their dependencies; else send what they hold.
        unknowns: send unknown values; else leave them out.
        byte_strings: send strings that are not valid UTF-8; else refuse them.
        elide_assets: send only the hash of assets and archives.
    """

    secrets: bool = True
    resources: bool = True
    outputs: bool = False
    unknowns: bool = True
    byte_strings: bool = False
    elide_assets: bool = False

    def struct(self, properties: Mapping[str, Value]) -> struct_pb2.Struct:
        """``properties`` as a message.

        Raises:
            WireError: for a value that is not a property value, or that the receiver cannot take.
        """
        message = struct_pb2.Struct()
        try:
            self._fill_fields(message.fields, properties)
        except OverflowError as e:
            raise WireError(f"a number is too large to be sent: {e}") from e
        return message

    def _fill_fields(self, fields: Any, properties: Mapping[str, Value]) -> None:
        for key, value in properties.items():
            # The common kinds are told apart here, to spare a call for each.
            kind = value.__class__
            try:
                if kind is str:
                    fields[key].string_value = value
                    continue
                if kind is bool:
                    fields[key].bool_value = value
                    continue
                if kind is int or kind is float:
                    fields[key].number_value = value
                    continue
                if kind is dict:
                    self._fill_fields(_object(fields[key]), value)
                    continue
                if kind is list:
                    self._fill_list(fields[key], value)
                    continue
                sent = self._plainer(value)
                if sent is not _LEFT_OUT:
                    self._fill(fields[key], sent)
            except UnicodeEncodeError as e:
                if kind is not str:
                    raise WireError(f"property name {key!r} contains bytes that are not valid UTF-8") from e
                self._fill_bytes(fields[key], key, value)
            except TypeError as e:
                raise WireError(f"property names must be strings, not {type(key).__name__} ({key!r})") from e

    def _fill(self, message: struct_pb2.Value, value: Value) -> None:
        """Write ``value``, which :meth:`_plainer` has seen, into ``message``."""
        match value:
            case str():
                try:
                    message.string_value = value
                except UnicodeEncodeError:
                    self._fill_bytes(message, "", value)
            case None:
                message.null_value = struct_pb2.NULL_VALUE
            case bool():
                message.bool_value = value
            case int() | float():
                message.number_value = value
            case dict():
                self._fill_fields(_object(message), value)
            case list() | tuple():
                self._fill_list(message, value)
            case _:
                raise WireError(f"a value of type {type(value).__name__} is not a property value")

    def _fill_list(self, message: struct_pb2.Value, items: Sequence[Value]) -> None:
        message.list_value.SetInParent()
        values = message.list_value.values
        for item in items:
            sent = item if item.__class__ is str else self._plainer(item)
            if sent is not _LEFT_OUT:
                self._fill(values.add(), sent)

    def _fill_bytes(self, message: struct_pb2.Value, key: str, value: str) -> None:
        if not self.byte_strings:
            raise WireError(
                f"the value of property {key!r} is a string that contains non-UTF8 bytes, "
                "which the receiver does not support"
            )
        try:
            raw = value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as e:
            raise WireError(f"the value of property {key!r} contains lone surrogates") from e
        fields = message.struct_value.fields
        fields[SIGNATURE_KEY].string_value = value_json.BYTE_STRING
        fields["value"].string_value = base64.b64encode(raw).decode("ascii")

    def _plainer(self, value: Value) -> Value:
        """``value`` in the form in which it is sent: a plain one, or an object with a signature."""
        match value:
            case Unknown():
                return UNKNOWN_STRING if self.unknowns else _LEFT_OUT
            case Secret():
                if not self.secrets:
                    return self._plainer(value.element)
                return {SIGNATURE_KEY: value_json.SECRET_SIGNATURE, "value": value.element}
            case Output():
                return self._plainer_output(value)
            case Asset():
                return self._signed_asset(value)
            case Archive():
                return self._signed_archive(value)
            case ResourceReference():
                return self._plainer_reference(value)
            case _:
                return value

    def _plainer_output(self, output: Output) -> Value:
        if not self.outputs:
            return self._plainer(Secret(output.element) if output.secret else output.element)
        signed: dict[str, Value] = {SIGNATURE_KEY: OUTPUT_SIGNATURE}
        if output.element is not UNKNOWN:
            signed["value"] = output.element
        if output.secret:
            signed["secret"] = True
        if output.dependencies:
            signed["dependencies"] = list(output.dependencies)
        return signed

    def _plainer_reference(self, reference: ResourceReference) -> Value:
        if not self.resources:
            return reference.urn if reference.id is None else self._plainer(reference.id)
        signed: dict[str, Value] = {SIGNATURE_KEY: value_json.RESOURCE_REFERENCE, "urn": reference.urn}
        try:
            parts = urns.parse(reference.urn)
        except ValueError:
            pass  # Name and type are only for the receiver's convenience.
        else:
            signed["name"], signed["type"] = parts.name, parts.type
        if reference.id is not None:
            signed["id"] = "" if reference.id is UNKNOWN else reference.id
        if reference.package_version:
            signed["packageVersion"] = reference.package_version
        return signed

    def _signed_asset(self, asset: Asset) -> dict[str, Value]:
        signed = {"hash": asset.hash}
        if not self.elide_assets:
            signed |= {"text": asset.text or "", "path": asset.path or "", "uri": asset.uri or ""}
        return {SIGNATURE_KEY: value_json.ASSET} | {k: v for k, v in signed.items() if v}

    def _signed_archive(self, archive: Archive) -> dict[str, Value]:
        signed: dict[str, Value] = {SIGNATURE_KEY: value_json.ARCHIVE}
        if archive.hash:
            signed["hash"] = archive.hash
        if self.elide_assets:
            return signed
        if archive.assets is not None:
            signed["assets"] = dict(archive.assets)
        if archive.path:
            signed["path"] = archive.path
        if archive.uri:
            signed["uri"] = archive.uri
        return signed


@dataclass(frozen=True, slots=True)
class Decoder:
    """In which form the parts of a message are wanted; without a flag, in the next plainer one.

    Attributes:
        outputs: keep outputs with their dependencies; else take what they hold.
        unknowns: keep unknown values; else leave them out (in a list: None).
        reject_unknowns: refuse messages with unknown values.
    """

    outputs: bool = True
    unknowns: bool = True
    reject_unknowns: bool = False

    def properties(self, message: struct_pb2.Struct) -> Properties:
        """The properties within ``message``.

        Raises:
            WireError: for a message that does not follow the protocol.
        """
        fields = message.fields
        properties: Properties = {}
        for key in fields:
            value = self._decode(fields[key])
            if value is not _LEFT_OUT:
                properties[key] = value
        return properties

    def value(self, message: struct_pb2.Value) -> Value:
        """The value within ``message``; None where it is unknown and unknowns are left out."""
        value = self._decode(message)
        return None if value is _LEFT_OUT else value

    def _decode(self, message: struct_pb2.Value) -> Value:
        kind = message.WhichOneof("kind")
        if kind == "string_value":
            text = message.string_value
            # Sentinels are GUIDs: their length tells nearly all other strings apart without hashing.
            if len(text) == 36 and text in UNKNOWN_STRINGS:
                return self._unknown()
            return text
        if kind == "number_value":
            number = message.number_value
            return int(number) if number.is_integer() and abs(number) < _LARGEST_INT else number
        if kind == "bool_value":
            return message.bool_value
        if kind == "struct_value":
            properties = self.properties(message.struct_value)
            return self._recover(properties) if SIGNATURE_KEY in properties else properties
        if kind == "list_value":
            return [self.value(item) for item in message.list_value.values]
        return None

    def _recover(self, signed: Properties) -> Value:
        """Return the value that an object with a signature stands for; its parts are decoded already."""
        match signed[SIGNATURE_KEY]:
            case value_json.SECRET_SIGNATURE:
                return secret(_member(signed, "value", "secret"))
            case value_json.RESOURCE_REFERENCE:
                return self._reference(signed)
            case value_json.ASSET:
                return asset_from_signed(signed)
            case value_json.ARCHIVE:
                return archive_from_signed(signed)
            case value_json.BYTE_STRING:
                return _byte_string(_text(signed, "value", "byte string"))
            case signature if signature == OUTPUT_SIGNATURE:
                return self._output(signed)
            case signature:
                raise WireError(f"unrecognized signature {signature!r} in an object of properties")

    def _unknown(self) -> Value:
        if self.reject_unknowns:
            raise WireError("a value is unknown, where all must be known")
        return UNKNOWN if self.unknowns else _LEFT_OUT

    def _output(self, signed: Properties) -> Value:
        known = "value" in signed
        is_secret = signed.get("secret", False)
        if not isinstance(is_secret, bool):
            raise WireError("malformed output value: 'secret' is not a bool")
        if not self.outputs:
            if not known:
                unknown = self._unknown()
                return secret(unknown) if is_secret and unknown is UNKNOWN else unknown
            return secret(signed["value"]) if is_secret else signed["value"]
        dependencies = signed.get("dependencies", [])
        if not isinstance(dependencies, list) or not all(isinstance(d, str) for d in dependencies):
            raise WireError("malformed output value: 'dependencies' is not a list of URNs")
        return Output(signed["value"] if known else UNKNOWN, is_secret, tuple(dependencies))

    def _reference(self, signed: Properties) -> Value:
        urn = _text(signed, "urn", "resource reference")
        id = signed.get("id")
        if isinstance(id, Output):
            id = id.element
        if id == "":
            id = UNKNOWN
        if id is not None and id is not UNKNOWN and not isinstance(id, str):
            raise WireError(f"malformed resource reference to {urn}: 'id' is not a string")
        return ResourceReference(urn, id, _text(signed, "packageVersion", "resource reference", ""))


def to_struct(
    properties: Mapping[str, Value],
    *,
    secrets: bool = True,
    resources: bool = True,
    outputs: bool = False,
    unknowns: bool = True,
) -> struct_pb2.Struct:
    """``properties`` as a message; for the flags see :class:`Encoder`, to be held where it is used often."""
    return Encoder(secrets, resources, outputs, unknowns).struct(properties)


_ALL: Final = Decoder()


def from_struct(message: struct_pb2.Struct) -> Properties:
    """The properties within ``message``, in their fullest form."""
    return _ALL.properties(message)


def from_value(message: struct_pb2.Value) -> Value:
    """The value within ``message``, in its fullest form."""
    return _ALL.value(message)


def asset_from_signed(signed: Mapping[str, Value]) -> Asset:
    """The asset that an object with :data:`ASSET_SIGNATURE` stands for, as in state and on the wire."""
    hash = _text(signed, "hash", "asset", "")
    if path := _text(signed, "path", "asset", ""):
        return Asset(hash, path=path)
    if uri := _text(signed, "uri", "asset", ""):
        return Asset(hash, uri=uri)
    text = _text(signed, "text", "asset", "")
    if not text and hash not in {"", EMPTY_ASSET_HASH}:
        return Asset(hash)  # Its contents were left out.
    return Asset(hash, text=text)


def archive_from_signed(signed: Mapping[str, Value]) -> Archive:
    """The archive that an object with :data:`ARCHIVE_SIGNATURE` stands for; its members are decoded already."""
    hash = _text(signed, "hash", "archive", "")
    if path := _text(signed, "path", "archive", ""):
        return Archive(hash, path=path)
    if uri := _text(signed, "uri", "archive", ""):
        return Archive(hash, uri=uri)
    members = signed.get("assets")
    if members is None:
        return Archive(hash) if hash not in {"", EMPTY_ARCHIVE_HASH} else Archive(hash, assets={})
    if not isinstance(members, dict):
        raise WireError("malformed archive: 'assets' is not an object")
    for name, member in members.items():
        if not isinstance(member, Asset | Archive):
            raise WireError(f"archive member {name!r} is not an asset or archive")
    return Archive(hash, assets=members)


def _object(message: struct_pb2.Value) -> Any:
    """The fields of a message that is an object from now on, also of an empty one."""
    struct = message.struct_value
    struct.SetInParent()
    return struct.fields


class _LeftOut:
    """Stands for a value that is not sent."""


_LEFT_OUT: Final = _LeftOut()


def _member(signed: Mapping[str, Value], key: str, what: str) -> Value:
    try:
        return signed[key]
    except KeyError:
        raise WireError(f"malformed {what}: {key!r} is missing") from None


def _text(signed: Mapping[str, Value], key: str, what: str, default: str | None = None) -> str:
    value = signed.get(key, default) if default is not None else _member(signed, key, what)
    if not isinstance(value, str):
        raise WireError(f"malformed {what}: {key!r} is not a string")
    return value


def _byte_string(encoded: str) -> str:
    try:
        raw = base64.b64decode(encoded, validate=True)
    except binascii.Error as e:
        raise WireError("malformed byte string: 'value' is not valid base64") from e
    return raw.decode("utf-8", "surrogateescape")
