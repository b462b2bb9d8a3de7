"""Property paths: ``root.nested["key.with.dots"][0].*``, as options and detailed diffs name properties.

Source: Pulumi's ``sdk/go/common/resource/properties_path.go``. An element is a key, an index, or ``*``
for any key or index.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from tidepool.engine.values import Properties, Secret, Value, secret

Path: TypeAlias = tuple[str | int, ...]

_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_]+")
_MISSING: Final = object()


def parse(text: str) -> Path:
    """Take a path apart.

    Raises:
        ValueError: when it is not a path; says why.
    """
    if text.startswith("."):
        raise ValueError(f"property path {text!r}: expected it to start with a name or an index")
    elements: list[str | int] = []
    rest = text
    while rest:
        if rest[0] == ".":
            rest = rest[1:]
            if not rest:
                raise ValueError(f"property path {text!r}: expected it to end with a name or an index")
        elif rest.startswith('["'):
            key, rest = _quoted(text, rest)
            elements.append(key)
        elif rest[0] == "[":
            index, bracket, rest = rest[1:].partition("]")
            if not bracket:
                raise ValueError(f"property path {text!r}: missing closing bracket in an index")
            elements.append(index if index == "*" else _index(text, index))
        else:
            match = re.match(r"[^.\[]+", rest)
            assert match is not None  # the character is neither a dot nor a bracket
            elements.append(match[0])
            rest = rest[match.end() :]
    return tuple(elements)


def format(path: Path) -> str:
    """The text of a path."""
    parts: list[str] = []
    for i, element in enumerate(path):
        if isinstance(element, int):
            parts.append(f"[{element}]")
        elif _PLAIN_KEY.fullmatch(element):
            parts.append(element if i == 0 else f".{element}")
        else:
            escaped = element.replace('"', '\\"')
            parts.append(f'["{escaped}"]')
    return "".join(parts)


def contains(path: Path, other: Path) -> bool:
    """Return whether ``other`` is ``path`` or lies below it; ``*`` in ``path`` stands for any one element."""
    return len(path) <= len(other) and all(p in ("*", o) for p, o in zip(path, other, strict=False))


def reset(path: Path, old: Properties, new: Properties) -> tuple[Properties, bool]:
    """``new`` with what is at ``path`` as it is in ``old``, and whether that could be done.

    A property that is in ``old`` only is added, one that is in ``new`` only is removed. It cannot be done
    where the path leads through elements that only one of the two has.
    """
    result, done = _reset(path, old, new, False, False)
    return (result if done else new), done


def _reset(path: Path, old: Value, new: Value, old_secret: bool, new_secret: bool) -> tuple[Value, bool]:
    if isinstance(new, Secret):
        inner, done = _reset(path, old, new.element, old_secret, True)
        return secret(inner), done
    if isinstance(old, Secret):
        return _reset(path, old.element, new, True, new_secret)

    def taken(value: Value) -> Value:
        return secret(value) if old_secret and not new_secret else value

    first, rest = path[0], path[1:]
    if first == "*":
        return _reset_all(rest, old, new, old_secret, new_secret)
    if isinstance(first, int):
        if not isinstance(old, list) or not isinstance(new, list):
            return new, not isinstance(old, list) and not isinstance(new, list)
        if first >= len(old) or first >= len(new) or first < 0:
            return new, not rest and first >= len(old) and first >= len(new)
        value, done = (
            _reset(rest, old[first], new[first], old_secret, new_secret)
            if rest
            else (taken(old[first]), True)
        )
        return [*new[:first], value, *new[first + 1 :]], done
    had = old.get(first, _MISSING) if isinstance(old, dict) else _MISSING
    has = new.get(first, _MISSING) if isinstance(new, dict) else _MISSING
    if not rest:
        if had is _MISSING:
            return ({k: v for k, v in new.items() if k != first} if has is not _MISSING else new), True
        if not isinstance(new, dict):
            return new, False
        return {**new, first: taken(had)}, True
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new, not isinstance(old, dict) and not isinstance(new, dict)
    if has is _MISSING:
        return new, had is _MISSING
    value, done = _reset(rest, None if had is _MISSING else had, has, old_secret, new_secret)
    return {**new, first: value}, done


def _reset_all(rest: Path, old: Value, new: Value, old_secret: bool, new_secret: bool) -> tuple[Value, bool]:
    def one(o: Value, n: Value) -> tuple[Value, bool]:
        if rest:
            return _reset(rest, o, n, old_secret, new_secret)
        return (secret(o) if old_secret and not new_secret else o), True

    if isinstance(new, dict):
        if not isinstance(old, dict):
            return new, not rest
        if not rest:
            return {k: one(v, None)[0] for k, v in old.items()}, True
        result = dict(new)
        for key, value in old.items():
            if key not in new:
                return new, False
            result[key], done = one(value, new[key])
            if not done:
                return new, False
        return result, True
    if isinstance(new, list):
        if not isinstance(old, list):
            return new, not rest
        items = list(new)
        for i, (o, n) in enumerate(zip(old, new, strict=False)):
            items[i], done = one(o, n)
            if not done:
                return new, False
        return items, len(old) == len(new)
    return new, False


def _quoted(text: str, rest: str) -> tuple[str, str]:
    match = re.match(r'\["((?:\\"|[^"])*)"', rest)
    if match is None:
        raise ValueError(f"property path {text!r}: missing closing quote in a property name")
    if not rest[match.end() :].startswith("]"):
        raise ValueError(f"property path {text!r}: missing closing bracket after a property name")
    return match[1].replace('\\"', '"'), rest[match.end() + 1 :]


def _index(text: str, index: str) -> int:
    try:
        return int(index)
    except ValueError:
        raise ValueError(f"property path {text!r}: {index!r} is not an index") from None
