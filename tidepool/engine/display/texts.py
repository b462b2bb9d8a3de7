"""Texts and numbers as the Pulumi CLI draws them, which are Go's forms; and how two texts differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final, Literal

from tidepool.engine.values import Value

_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    '"': '\\"',
    "\\": "\\\\",
}

_SHOWN_LINES: Final = 3
_SHOWN_LENGTH: Final = 150


def escaped(text: str) -> str:
    """``text`` with escapes for quotes and for what cannot be seen, without quotes around it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return "".join(_ESCAPES.get(c) or (c if c.isprintable() else _code(ord(c))) for c in text)


def quoted(text: str) -> str:
    """``text`` in quotes."""
    return f'"{escaped(text)}"'


def number(value: float) -> str:
    """A number: whole ones in full, others in the shortest form."""
    if isinstance(value, int):
        return str(value)
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}[str(value)]
    if value.is_integer():
        return f"{value:.0f}"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)  # the number is finite
    magnitude = len(digits) - 1 + exponent
    if -4 <= magnitude < 6:
        return f"{Decimal(repr(value)):f}"
    text = "".join(map(str, digits)).rstrip("0")
    mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
    return f"{'-' if sign else ''}{mantissa}e{'-' if magnitude < 0 else '+'}{abs(magnitude):02d}"


def truncated(text: str) -> str:
    """The first lines of ``text``, each cut to a length."""
    lines = text.split("\n")
    shown = [
        line if len(line) <= _SHOWN_LENGTH else line[:_SHOWN_LENGTH] + "..." for line in lines[:_SHOWN_LINES]
    ]
    if len(lines) > _SHOWN_LINES:
        shown.append("...")
    return "\n".join(shown)


def structured(text: str) -> tuple[Value, str] | None:
    """The object or list that ``text`` holds, and its notation ("json" or "yaml"); None where it holds none."""
    text = text.strip()
    if text.startswith(("{", "[")):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            return value, "json"
    # A single line would take "foo: bar" for an object.
    if "\n" not in text and "\r" not in text:
        return None
    value = _yaml(text)
    return (value, "yaml") if isinstance(value, dict | list) else None


def _yaml(text: str) -> Value:
    """Read one YAML document; None where ``text`` is not YAML or has keys that are no texts."""
    if ":" not in text and "- " not in text:
        return None  # neither an object nor a list: spares most texts the parser
    from ruamel.yaml import YAML  # late: a parser that few operations need
    from ruamel.yaml.error import YAMLError

    try:
        return _plain(YAML(typ="safe", pure=True).load(text))
    except (YAMLError, ValueError, TypeError, RecursionError):
        return None


def _plain(value: Any) -> Value:
    if isinstance(value, dict):
        return {_key(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, int | float) and not isinstance(key, bool):
        return number(key)
    raise TypeError("a key of YAML that is neither text nor number")


def _code(point: int) -> str:
    if point < 0x80:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


#: A run of text that both texts have, only the old one, or only the new one.
Run = tuple[Literal["same", "delete", "add"], str]

# Beyond this, comparing characters costs more than its colours tell.
_COMPARED_CHARACTERS = 2000


def by_character(old: str, new: str) -> list[Run]:
    """The runs of two texts of one line."""
    if len(old) > _COMPARED_CHARACTERS or len(new) > _COMPARED_CHARACTERS:
        return [("delete", old), ("add", new)]
    return list(_runs(old, new))


def by_line(old: str, new: str) -> list[Run]:
    """The runs of whole lines of two texts."""
    return list(_runs(old.splitlines(keepends=True), new.splitlines(keepends=True)))


def _runs(old: Sequence[str], new: Sequence[str]) -> Iterator[Run]:
    from difflib import SequenceMatcher  # late: only texts that changed are compared

    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag == "equal":
            yield "same", "".join(old[i:j])
            continue
        if i < j:
            yield "delete", "".join(old[i:j])
        if k < m:
            yield "add", "".join(new[k:m])
