"""Property values <-> the JSON values of a checkpoint.

Facts from Pulumi's ``pkg/resource/stack/deployment.go`` and ``sdk/go/common/resource/sig``: what JSON has
no word for is an object with a signature under :data:`SIGNATURE_KEY`. All functions are pure but for the
crypter they are given. Where nothing needs to change, the very object that came in is returned: values are
never changed in place, and a large stack then costs neither time nor memory twice.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Callable, Mapping
from operator import is_
from typing import Any, Final, TypeAlias

from tidepool.engine import json_text
from tidepool.engine.errors import EngineError
from tidepool.engine.values import (
    UNKNOWN,
    Archive,
    Asset,
    Output,
    Properties,
    ResourceReference,
    Secret,
    Value,
    secret,
)

#: From a secret's JSON text to its ciphertext, and back.
Encrypt: TypeAlias = Callable[[str], str]
Decrypt: TypeAlias = Callable[[str], str]

SIGNATURE_KEY: Final = "4dabf18193072939515e22adb298388d"
SECRET_SIGNATURE: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105  (a marker, not a secret)
ASSET: Final = "c44067f5952c0a294b673a41bacd8c17"
ARCHIVE: Final = "0def7320c3a5731c473e5ecbe6d01bc7"
RESOURCE_REFERENCE: Final = "5cf8f73096256a8f31e491e813e4eb8e"
BYTE_STRING: Final = "803fd3297a5875dc03ca845dda5d2a98"
FLOAT: Final = "8ad145fe-0d11-4827-bfd7-1abcbf086f5c"
#: What stands for a value that is not known yet.
UNKNOWN_STRING: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"

_ATOMS: Final = frozenset({str, bool, type(None)})
#: SHA-256 of nothing.
EMPTY_ASSET_HASH: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_EXACT: Final = 2**53  # up to here a float64 holds every integer


class MalformedValue(EngineError):
    """A checkpoint holds a value that cannot be understood."""


def decode_value(raw: Any, decrypt: Decrypt) -> Value:
    """The property value that the JSON value ``raw`` stands for."""
    kind = raw.__class__
    if kind is str:
        return UNKNOWN if raw == UNKNOWN_STRING else raw
    if kind is dict:
        return _decode_signed(raw, decrypt) if SIGNATURE_KEY in raw else decode_properties(raw, decrypt)
    if kind is list:
        return _unless_equal(raw, [decode_value(item, decrypt) for item in raw])
    if kind is int and not -_EXACT <= raw <= _EXACT:
        # All numbers are float64; an integer that is not exactly one would never equal what comes from
        # a program, and so look changed for ever.
        try:
            return float(raw)
        except OverflowError as error:
            raise MalformedValue(
                f"the state holds a number too large for a float64: {raw!r:.40}..."
            ) from error
    return raw


def decode_properties(raw: dict[str, Any], decrypt: Decrypt) -> Properties:
    """The properties that the JSON object ``raw`` stands for; ``raw`` itself where all of it is plain."""
    changed: Properties | None = None
    for key, item in raw.items():
        if item.__class__ in _ATOMS and item != UNKNOWN_STRING:
            continue
        value = decode_value(item, decrypt)
        if value is not item:
            if changed is None:
                changed = dict(raw)
            changed[key] = value
    return raw if changed is None else changed


def _unless_equal(items: list[Any], converted: list[Any]) -> list[Any]:
    """``converted``, or ``items`` itself where none of them was changed."""
    return items if all(map(is_, items, converted)) else converted


def encode_value(value: Value, encrypt: Encrypt) -> Any:
    """The JSON value that stands for ``value``."""
    kind = value.__class__
    if kind is str:
        return value if value.isascii() else _encode_text(value)
    if kind is bool or value is None:
        return value
    if kind is int:
        return value if -_EXACT <= value <= _EXACT else _encode_float(float(value))
    if kind is float:
        return _encode_float(value)
    if kind is dict:
        return encode_properties(value, encrypt)
    if kind is list:
        return _unless_equal(value, [encode_value(item, encrypt) for item in value])
    return _encode_special(value, encrypt)


def encode_properties(properties: Mapping[str, Value], encrypt: Encrypt) -> dict[str, Any]:
    """The JSON object that stands for ``properties``, its keys in order; the same object where it can be."""
    keys = sorted(properties)
    changed = (
        None
        if keys == list(properties) and properties.__class__ is dict
        else {k: properties[k] for k in keys}
    )
    for key in keys:
        item = properties[key]
        if item.__class__ is bool or item is None or (item.__class__ is str and item.isascii()):
            continue
        encoded = encode_value(item, encrypt)
        if encoded is not item:
            if changed is None:
                changed = dict(properties)
            changed[key] = encoded
    return properties if changed is None else changed  # type: ignore[return-value]  # a dict, checked above


def contains_byte_strings(value: Value) -> bool:
    """Return whether ``value`` holds text that is not UTF-8: old CLIs must then refuse the stack."""
    match value:
        case str():
            return not value.isascii() and _is_bytes(value)
        case dict():
            return any(contains_byte_strings(v) for v in value.values() if v.__class__ not in _NO_TEXT)
        case list():
            return any(contains_byte_strings(v) for v in value if v.__class__ not in _NO_TEXT)
        case Secret() | Output():
            return contains_byte_strings(value.element)
        case _:
            return False


_NO_TEXT: Final = frozenset({int, float, bool, type(None)})


def _decode_signed(raw: dict[str, Any], decrypt: Decrypt) -> Value:
    signature = raw[SIGNATURE_KEY]
    if signature == SECRET_SIGNATURE:
        return _decode_secret(raw, decrypt)
    decoder = _DECODERS.get(signature) if isinstance(signature, str) else None
    if decoder is None:
        raise MalformedValue(
            f"the state holds a value with the signature {signature!r}, which this engine does not know; "
            "a newer Pulumi wrote it: use that Pulumi CLI for this stack"
        )
    return decoder(raw)


def _decode_secret(raw: dict[str, Any], decrypt: Decrypt) -> Secret:
    ciphertext, plaintext = raw.get("ciphertext"), raw.get("plaintext")
    if isinstance(ciphertext, str) and ciphertext and not plaintext:
        text = decrypt(ciphertext)
    elif isinstance(plaintext, str) and plaintext and not ciphertext:
        text = plaintext
    else:
        raise MalformedValue(
            "malformed secret value: exactly one of `ciphertext` or `plaintext` must be supplied"
        )
    try:
        inner = json_text.loads(text.encode("utf-8"))
    except ValueError:
        # No cause and no text: both would show parts of the secret.
        raise MalformedValue("malformed secret value: what was encrypted is not JSON") from None
    return secret(decode_value(inner, _no_nested_ciphertext))


def _no_nested_ciphertext(text: str) -> str:
    # Inside a secret, inner secrets are marked but not encrypted again: "ciphertext" holds plain text.
    return text


def _decode_asset(raw: dict[str, Any]) -> Asset:
    text, path, uri = raw.get("text") or None, raw.get("path") or None, raw.get("uri") or None
    digest = raw.get("hash") or ""
    if text is None and path is None and uri is None and digest in ("", EMPTY_ASSET_HASH):
        text = ""  # an empty text is left out of the checkpoint
    return Asset(digest, text, path, uri)


def _decode_archive(raw: dict[str, Any]) -> Archive:
    digest, path, uri = raw.get("hash") or "", raw.get("path") or None, raw.get("uri") or None
    if path is not None or uri is not None:
        return Archive(digest, None, path, None if path is not None else uri)
    assets: dict[str, Any] = {}
    for name, member in (raw.get("assets") or {}).items():
        signature = member.get(SIGNATURE_KEY) if isinstance(member, dict) else None
        if signature == ASSET:
            assets[name] = _decode_asset(member)
        elif signature == ARCHIVE:
            assets[name] = _decode_archive(member)
        else:
            raise MalformedValue(
                f"the archive member {name!r} in the state is neither an asset nor an archive"
            )
    return Archive(digest, assets)


def _decode_reference(raw: dict[str, Any]) -> ResourceReference:
    urn = raw.get("urn")
    if not isinstance(urn, str):
        raise MalformedValue("malformed resource reference in the state: missing urn")
    id = raw.get("id")
    if isinstance(id, dict):
        # Some CLIs wrote the id as {"V": ...} by mistake.
        inner = id.get("V")
        id = "" if isinstance(inner, dict) else inner
    return ResourceReference(urn, id, raw.get("packageVersion") or "")


def _decode_float(raw: dict[str, Any]) -> float:
    try:
        (number,) = struct.unpack(">d", bytes.fromhex(raw["value"].rjust(16, "0")))
    except (KeyError, AttributeError, ValueError, struct.error) as error:
        raise MalformedValue(
            "malformed float value in the state: 'value' is not 16 hexadecimal digits"
        ) from error
    return float(number)


def _decode_byte_string(raw: dict[str, Any]) -> str:
    try:
        # Python keeps bytes that are not UTF-8 as lone surrogates.
        return base64.b64decode(raw["value"], validate=True).decode("utf-8", "surrogateescape")
    except (KeyError, TypeError, binascii.Error, ValueError) as error:
        raise MalformedValue("malformed byte string in the state: 'value' is not base64 text") from error


_DECODERS: Final[dict[str, Callable[[dict[str, Any]], Value]]] = {
    ASSET: _decode_asset,
    ARCHIVE: _decode_archive,
    RESOURCE_REFERENCE: _decode_reference,
    FLOAT: _decode_float,
    BYTE_STRING: _decode_byte_string,
}


def _encode_special(value: Value, encrypt: Encrypt) -> Any:
    match value:
        case Secret():
            plain = encode_value(value.element, _no_nested_ciphertext)
            return {SIGNATURE_KEY: SECRET_SIGNATURE, "ciphertext": encrypt(json_text.dumps_html_safe(plain))}
        case Output():
            element = Secret(value.element) if value.secret else value.element
            return encode_value(element, encrypt)
        case Asset():
            content = {"hash": value.hash, "path": value.path, "text": value.text, "uri": value.uri}
            return {SIGNATURE_KEY: ASSET} | _filled(content)
        case Archive():
            fields: dict[str, Any] = {SIGNATURE_KEY: ARCHIVE}
            if value.assets is not None:
                fields["assets"] = {
                    k: _encode_special(value.assets[k], encrypt) for k in sorted(value.assets)
                }
            fields |= _filled({"hash": value.hash, "path": value.path, "uri": value.uri})
            return fields
        case ResourceReference():
            reference = {SIGNATURE_KEY: RESOURCE_REFERENCE}
            if value.id is not None:
                reference["id"] = "" if value.id is UNKNOWN else value.id
            return reference | {"packageVersion": value.package_version, "urn": value.urn}
    if value is UNKNOWN:
        return UNKNOWN_STRING
    # Subclasses of the plain kinds (an IntEnum, a defaultdict) and tuples are taken for what they hold.
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return encode_value(kind(value), encrypt)
    if isinstance(value, Mapping):
        return encode_properties(dict(value), encrypt)
    if isinstance(value, tuple):
        return encode_value(list(value), encrypt)
    raise TypeError(f"not a property value: {type(value).__name__}")


def _filled(fields: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in fields.items() if v}


def _encode_text(text: str) -> Any:
    if not _is_bytes(text):
        return text
    raw = text.encode("utf-8", "surrogateescape")
    return {SIGNATURE_KEY: BYTE_STRING, "value": base64.b64encode(raw).decode("ascii")}


def _is_bytes(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _encode_float(number: float) -> Any:
    """Integral numbers as Go writes them: without a point, the shortest digits filled up with zeros."""
    if not math.isfinite(number):
        return {SIGNATURE_KEY: FLOAT, "value": struct.pack(">d", number).hex()}
    if number.is_integer() and abs(number) < 1e21:
        if abs(number) <= _EXACT:
            return int(number)
        digits, _, exponent = repr(number).partition("e")
        whole, _, fraction = digits.partition(".")
        if not exponent:
            return int(whole)
        return int(whole + fraction.ljust(int(exponent), "0"))
    return number
