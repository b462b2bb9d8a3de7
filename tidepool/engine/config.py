"""A stack's configuration: its keys, and its values.

A value is a ``str``, a :class:`Ciphertext`, or an object: a list or dict whose parts are ``None | bool |
int | float | str | Ciphertext | list | dict``. On the top level numbers and booleans are kept as their
text, as Pulumi keeps them. Source: Pulumi's ``sdk/go/common/resource/config`` and ``pkg/workspace/config.go``.

Values are never changed in place: every function returns a new mapping.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from tidepool.engine import json_text, property_path
from tidepool.engine.errors import EngineError
from tidepool.engine.values import specials, transform

MASK: Final = "[secret]"


@dataclass(frozen=True, slots=True)
class Ciphertext:
    """An encrypted text."""

    text: str

    def __repr__(self) -> str:
        return "Ciphertext(...)"


class Key(NamedTuple):
    """``namespace:name``; keys sort as the CLI lists them."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}:{self.name}"

    def pretty(self, project: str | None) -> str:
        """The key as a person writes it: without the namespace where that is the project."""
        return self.name if self.namespace == project else str(self)


Value: TypeAlias = Any
Values: TypeAlias = Mapping[Key, Value]
#: From a ciphertext to its plaintext.
Decrypt: TypeAlias = Callable[[str], str]


class ConfigError(EngineError):
    """A key or value of the configuration is not right."""


def full_key(text: str) -> Key:
    """The key that ``namespace:name`` (or ``namespace:config:name``) stands for.

    Raises:
        ConfigError: when it is none.
    """
    match text.split(":"):
        case [namespace, name]:
            return Key(namespace, name)
        case [namespace, "config", name]:
            return Key(namespace, name)
        case _:
            raise ConfigError(
                f"could not parse {text} as a configuration key (configuration keys should be of the form "
                "`<namespace>:<name>`)"
            )


def parse_key(text: str, project: str, *, path: bool = False) -> Key:
    """The key that a person means by ``text``; without a namespace it is one of ``project``.

    With ``path``, only the part before the first ``.`` or ``[`` is looked at for a namespace.

    Raises:
        ConfigError: when it is no key.
    """
    if path:
        match = re.search(r"[\[.]", text)
        if match is not None and match.start() > 0:
            top = parse_key(text[: match.start()], project)
            return Key(top.namespace, top.name + text[match.start() :])
    return full_key(text if ":" in text else f"{project}:{text}")


def from_document(raw: Any) -> Value:
    """The value that a part of a YAML or JSON document stands for; a top-level one."""
    value = _part(raw)
    return "" if value is None else _top_level(value)


def _top_level(value: Value) -> Value:
    """``value``, or its text where it is a number or boolean."""
    return value if isinstance(value, str | Ciphertext | list | dict) else json_text.dumps_sorted(value)


def to_document(value: Value) -> Any:
    """``value`` as it is written to YAML or JSON."""
    return _with_ciphertexts(value, lambda text: {"secure": text})


def is_secure(value: Value) -> bool:
    """Return whether any part of ``value`` is encrypted."""
    return any(isinstance(part, Ciphertext) for part in specials(value))


def is_object(value: Value) -> bool:
    """Return whether ``value`` is a list or a dict (or one of its parts is null)."""
    return value is None or isinstance(value, list | dict)


def decrypted(value: Value, decrypt: Decrypt) -> Value:
    """``value`` with every ciphertext replaced by its plaintext."""
    return _with_ciphertexts(value, decrypt)


def reencrypted(value: Value, decrypt: Decrypt, encrypt: Callable[[str], str]) -> Value:
    """``value`` with every ciphertext decrypted by one crypter and encrypted by another."""
    return _with_ciphertexts(value, lambda text: Ciphertext(encrypt(decrypt(text))))


def _with_ciphertexts(value: Value, become: Callable[[str], Value]) -> Value:
    """``value`` with every ciphertext replaced by what its text is to ``become``."""
    return transform(value, lambda part: become(part.text) if isinstance(part, Ciphertext) else part)


def text_of(value: Value, decrypt: Decrypt) -> str:
    """``value`` as the program gets it: strings as they are, everything else as JSON."""
    plain = decrypted(value, decrypt)
    return plain if isinstance(plain, str) else json_text.dumps_sorted(plain)


def get(values: Values, key: Key, *, path: bool = False) -> tuple[Value, bool]:
    """The value of ``key`` and whether there is one."""
    if not path:
        return values.get(key), key in values
    elements, top = _elements(key)
    if top not in values:
        return None, False
    value: Value = values[top]
    for element in elements[1:]:
        match value, element:
            case dict(), str() if element in value:
                value = value[element]
            case list(), int(index) if 0 <= index < len(value):
                value = value[index]
            case _:
                return None, False
    return value, True


def put(values: Values, key: Key, value: Value, *, path: bool = False) -> Values:
    """``values`` with ``key`` set. Below the top level, text of a number or boolean becomes one.

    Raises:
        ConfigError: when the path does not fit what is there.
    """
    if not path:
        return {**values, key: _top_level(value)}
    elements, top = _elements(key)
    if len(elements) == 1:
        return put(values, top, value)
    if isinstance(value, str):
        value = _coerced(value)
    old = values.get(top)
    if not isinstance(old, list | dict):
        # The CLI replaces a plain top-level value silently, so that `a` can become `a.b`.
        old = _container(elements[1])
    return {**values, top: _put(old, elements[:1], elements[1:], value)}


def remove(values: Values, key: Key, *, path: bool = False) -> Values:
    """``values`` without ``key``; unchanged where it is not there.

    Raises:
        ConfigError: when what is left could be mistaken for a ciphertext.
    """
    if not path:
        return {k: v for k, v in values.items() if k != key}
    elements, top = _elements(key)
    if len(elements) == 1:
        return remove(values, top)
    if top not in values:
        return values
    return {**values, top: _remove(values[top], elements, 1)}


def typed_text(text: str, type_name: str) -> Any:
    """``text`` as a value of the type that ``config set --type`` names.

    Raises:
        ConfigError: when it is none.
    """
    match type_name:
        case "string":
            return _Literal(text)
        case "int":
            if re.fullmatch(r"[+-]?[0-9]+", text) is None:
                raise ConfigError(f"parsing {json.dumps(text)}: invalid syntax for an int")
            return int(text)
        case "float":
            try:
                return float(text)
            except ValueError:
                raise ConfigError(f"parsing {json.dumps(text)}: invalid syntax for a float") from None
        case "bool":
            # What is no boolean is false, as the CLI has it.
            return text in ("1", "t", "T", "TRUE", "true", "True")
        case _:
            raise ConfigError(
                f"invalid type {json.dumps(type_name)}; must be one of string, int, bool, or float"
            )


class _Literal(str):
    """Text that stays text, whatever it looks like."""

    __slots__ = ()


def _part(raw: Any) -> Any:
    match raw:
        case {"secure": str(text)} if len(raw) == 1:
            return Ciphertext(text)
        case dict():
            return {k: _part(v) for k, v in raw.items()}
        case list():
            return [_part(v) for v in raw]
        case None | bool() | int() | float() | str():
            return raw
        case _:
            from tidepool.engine.yaml_reading import timestamp_text  # dates in configurations are rare

            return timestamp_text(raw)


def _elements(key: Key) -> tuple[property_path.Path, Key]:
    try:
        elements = property_path.parse(key.name)
    except ValueError as error:
        raise ConfigError(f"invalid config key path: {error}") from error
    if not elements:
        raise ConfigError("empty config key path")
    if not isinstance(elements[0], str):
        raise ConfigError("first path segment of config key must be a string")
    if not elements[0]:
        raise ConfigError("config key is empty")
    return elements, Key(key.namespace, elements[0])


def _coerced(text: str) -> Any:
    if isinstance(text, _Literal):
        return str(text)
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"[+-]?[0-9]+", text) is None or (len(text) > 1 and text[0] == "0"):
        return text
    number = int(text)
    return number if -(2**63) <= number < 2**63 or (text[0] != "+" and 0 < number < 2**64) else text


def _container(element: str | int) -> Any:
    return {} if isinstance(element, str) else [None] * (element + 1)


def _put(old: Any, done: property_path.Path, rest: property_path.Path, value: Any) -> Any:
    if not rest:
        return value
    element, below = rest[0], (*done, rest[0])
    if old is None:
        old = _container(element)
    if isinstance(old, list):
        if not isinstance(element, int):
            raise ConfigError(f"{property_path.format(below)}: key for an array must be an int")
        if not 0 <= element <= len(old):
            raise ConfigError(f"{property_path.format(below)}: array index out of range")
        inner = old[element] if element < len(old) else None
        return [*old[:element], _put(inner, below, rest[1:], value), *old[element + 1 :]]
    if isinstance(old, dict):
        if not isinstance(element, str):
            raise ConfigError(f"{property_path.format(below)}: key for a map must be a string")
        if len(rest) == 1 and not old and element == "secure" and isinstance(value, str):
            raise ConfigError('maps with the single key "secure" are reserved')
        return {**old, element: _put(old.get(element), below, rest[1:], value)}
    expected = "an array" if isinstance(element, int) else "a map"
    raise ConfigError(f"{property_path.format(done)}: expected {expected}")


def _remove(value: Any, path: property_path.Path, depth: int) -> Any:
    element, last = path[depth], depth == len(path) - 1
    if isinstance(value, list) and isinstance(element, int) and 0 <= element < len(value):
        inner = [] if last else [_remove(value[element], path, depth + 1)]
        return [*value[:element], *inner, *value[element + 1 :]]
    if isinstance(value, dict) and isinstance(element, str) and element in value:
        if not last:
            return {**value, element: _remove(value[element], path, depth + 1)}
        left = {k: v for k, v in value.items() if k != element}
        if list(left) == ["secure"] and isinstance(left["secure"], str):
            raise ConfigError(
                f'{property_path.format(path[1:])}: maps with the single key "secure" are reserved'
            )
        return left
    return value
