"""Changes of a spec that is a plain mapping: values at paths (``fleets.cpu.max_nodes``).

What is given is never changed, a new mapping is returned. What a changed spec lacks is told by reading it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidepool.cluster.spec_entries import Mistake, nearest


@dataclass(frozen=True, slots=True)
class Change:
    """A value at a path of a spec. Words of the path are keys, and in lists names or numbers; None leaves the key out."""

    path: str
    value: Any

    def __str__(self) -> str:
        return f"{self.path}={self.value}"


def with_changes(
    spec: Mapping[str, Any], changes: Iterable[Change]
) -> tuple[dict[str, Any], tuple[Mistake, ...]]:
    """Return the spec with the changes made, one after the other, and those that cannot be, which are left out."""
    made, mistakes = dict(spec), []
    for change in changes:
        try:
            made = _with(made, change.path.split("."), change.value)
        except ValueError as error:
            mistakes.append(Mistake(change.path, change.value, str(error)))
    return made, tuple(mistakes)


def _with(there: Any, words: list[str], value: Any) -> Any:
    """Return ``there`` with the value where the words lead to. Raises ValueError."""
    if not words:
        return value
    word, *rest = words
    if isinstance(there, list | tuple):
        at = _position(there, word)
        made = [*there]
        if not rest and value is None:
            del made[at]
        else:
            made[at] = _with(there[at], rest, value)
        return made
    if not isinstance(there, Mapping | None):
        raise ValueError(f"there is {there!r}, which has no {word}; write what is to stand there instead")
    if not word:
        raise ValueError("write keys with dots between them: fleets.cpu.max_nodes")
    keys = dict(there or {})
    if not rest and value is None:
        keys.pop(word, None)
        return keys
    return {**keys, word: _with(keys.get(word), rest, value)}


def _position(entries: list[Any] | tuple[Any, ...], word: str) -> int:
    names = [_name(entry) for entry in entries]
    if word in names:
        return names.index(word)
    if word.isdecimal() and int(word) < len(entries):
        return int(word)
    raise ValueError(f"there is no {word}; {nearest(word, [name for name in names if name])}")


def _name(entry: Any) -> str:
    """Return the name of an entry: that of a mapping, or a text itself."""
    name = entry.get("name") if isinstance(entry, Mapping) else entry
    return name if isinstance(name, str) else ""
