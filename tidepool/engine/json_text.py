"""JSON text as Go writes it, and as we read it: with the place named where it is broken."""

from __future__ import annotations

import json
from typing import Any, Final

_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
)
#: A checkpoint's resources lie four levels deep. Written one by one they take far less memory than at once.
_PIECEWISE_DEPTH: Final = 4
_LONG: Final = 64


class JsonDamage(ValueError):
    """The text is not JSON. ``where`` is "line L, column C"; the message says what is wrong there."""

    def __init__(self, message: str, where: str) -> None:
        super().__init__(f"{where}: {message}")


def loads(content: bytes) -> Any:
    """The value that ``content`` (UTF-8) holds.

    Raises:
        JsonDamage: when it is not JSON.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - (content.rfind(b"\n", 0, error.start) + 1) + 1
        raise JsonDamage("not UTF-8 text", f"line {line}, column {column}") from error
    if not text.strip("\x00 \t\r\n"):
        what = "the file is empty" if not text else "the file holds only blanks or zero bytes"
        raise JsonDamage(what, "line 1, column 1")
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise JsonDamage(error.msg, f"line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise JsonDamage("nested too deeply", "line 1, column 1") from error


def dumps(value: Any) -> str:
    """``value`` on one line, keys in their given order, escaped like Go's encoder without HTML escapes."""
    pieces: list[str] = []
    _write(value, pieces, depth=_PIECEWISE_DEPTH)
    return _javascript_safe("".join(pieces))


def dumps_html_safe(value: Any) -> str:
    """As :func:`dumps`, with ``< > &`` escaped: the form in which Go encrypts a secret's value.

    Equal values must give equal text, or an unchanged secret would get a new ciphertext at every save.
    """
    return _html_safe(dumps(value))


def dumps_sorted(value: Any) -> str:
    """``value`` as Go's encoder writes a map: as :func:`dumps_html_safe`, with all keys in order."""
    text = json.dumps(go_numbers(value), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return _html_safe(_javascript_safe(text))


def sorted_keys(value: Any) -> Any:
    """``value`` with the keys of all objects in order, as Go writes maps."""
    match value:
        case dict():
            return {k: sorted_keys(value[k]) for k in sorted(value)}
        case list():
            return [sorted_keys(v) for v in value]
        case _:
            return value


def go_numbers(value: Any) -> Any:
    """``value`` with whole floats as integers: Go writes 1.0 as 1."""
    match value:
        case float() if value.is_integer() and abs(value) < 1e21:
            return int(value)
        case dict():
            return {k: go_numbers(v) for k, v in value.items()}
        case list() | tuple():
            return [go_numbers(v) for v in value]
        case _:
            return value


def _html_safe(text: str) -> str:
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _javascript_safe(text: str) -> str:
    # Go escapes the two line separators that JavaScript does not allow in strings; in JSON text they
    # can only stand inside strings, so a plain replacement is safe. Almost no file holds one.
    if "\u2028" in text or "\u2029" in text:
        text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return text


def _write(value: Any, pieces: list[str], depth: int) -> None:
    if depth and value.__class__ is dict:
        opening = "{"
        for key, item in value.items():
            pieces.append(f"{opening}{_ENCODER.encode(key)}:")
            _write(item, pieces, depth - 1)
            opening = ","
        pieces.append("{}" if opening == "{" else "}")
    elif depth and value.__class__ is list and len(value) > _LONG:
        opening = "["
        for item in value:
            pieces.append(opening)
            pieces.append(_ENCODER.encode(item))
            opening = ","
        pieces.append("]")
    else:
        pieces.append(_ENCODER.encode(value))


def _refuse_constant(name: str) -> Any:
    raise json.JSONDecodeError(f"{name} is not JSON", name, 0)
