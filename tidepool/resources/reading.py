"""Inputs read as what they are to be, with all mistakes at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tidepool.resources.values import UNKNOWN, Inputs, Plain, has_unknowns

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Mistake:
    """Something wrong with the input ``property``: what it is, and what is allowed."""

    property: str
    reason: str


class Reader:
    """Reads the inputs of one resource, or a map among them, by their keys.

    What is wrong is kept in ``mistakes``, and read as if it were empty; so is what is not known yet. What was read
    is therefore worth nothing unless there are no mistakes, and nothing was unknown.
    """

    def __init__(self, inputs: Inputs, path: str = "", mistakes: list[Mistake] | None = None) -> None:
        self._inputs = {key: value for key, value in inputs.items() if value is not None}
        self._path = path
        self._read: set[str] = set()
        self.mistakes: list[Mistake] = [] if mistakes is None else mistakes
        self.has_unknowns = any(map(has_unknowns, self._inputs.values()))

    def text(self, key: str, default: str | None = None) -> str:
        """A text; one without ``default`` must be there, and not be empty."""
        value = self._value(key, str, "a text", default)
        if value == "" and default is None and self._is_known(key):
            self.refuse(key, "it is empty")
        return value or ""

    def number(self, key: str, default: float | None = None, *, least: float) -> float:
        """A number, ``least`` or more."""
        value = self._value(key, float | int, "a number", default)
        if value is not None and value < least:
            self.refuse(key, f"it is {value:g}; at least {least:g} is wanted")
        return float(value or 0)

    def integer(self, key: str, default: int | None = None, *, least: int = 0) -> int:
        """A whole number, ``least`` or more."""
        value = self._value(key, float | int, "a whole number", default)
        if value is None:
            return 0
        if value != int(value):
            self.refuse(key, f"it is {value:g}; a whole number is wanted")
        elif value < least:
            self.refuse(key, f"it is {value:g}; at least {least} is wanted")
        return int(value)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        return bool(self._value(key, bool, "true or false", default))

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; none where it is left out."""
        found: list[str] = []
        for at, each in enumerate(self._value(key, list, "a list of texts", []) or []):
            if isinstance(each, str):
                found.append(each)
            elif each is not UNKNOWN:
                self.refuse(f"{key}[{at}]", f"it is {_said(each)}; a text is wanted")
        return tuple(found)

    def texts_by_name(self, key: str, default: Mapping[str, str] | None = None) -> dict[str, str]:
        """A map of texts."""
        found: dict[str, str] = {}
        for name, each in self.mapping(key, default).items():
            if isinstance(each, str):
                found[name] = each
            elif each is not UNKNOWN:
                self.refuse(f"{key}.{name}", f"it is {_said(each)}; a text is wanted")
        return found

    def mapping(self, key: str, default: Mapping[str, Plain] | None = None) -> Mapping[str, Plain]:
        """A map."""
        return self._value(key, dict, "a map", default) or {}

    def mapping_items(self, key: str) -> Iterator[Mapping[str, Plain]]:
        """The maps of a list that must be there, whatever is in them."""
        for at, each in enumerate(self._value(key, list, "a list of maps", None) or []):
            if isinstance(each, dict):
                yield each
            elif each is not UNKNOWN:
                self.refuse(f"{key}[{at}]", f"it is {_said(each)}; a map is wanted")

    def maps(self, key: str) -> Iterator[Reader]:
        """The maps of a list; none where it is left out."""
        for at, each in enumerate(self._value(key, list, "a list of maps", []) or []):
            if isinstance(each, dict):
                yield self._below(each, f"{key}[{at}]")
            elif each is not UNKNOWN:
                self.refuse(f"{key}[{at}]", f"it is {_said(each)}; a map is wanted")

    def maps_by_name(self, key: str) -> Iterator[tuple[str, Reader]]:
        """The maps of a map; none where it is left out."""
        for name, each in self.mapping(key, {}).items():
            if isinstance(each, dict):
                yield name, self._below(each, f"{key}.{name}")
            elif each is not UNKNOWN:
                self.refuse(f"{key}.{name}", f"it is {_said(each)}; a map is wanted")

    def refuse(self, key: str, reason: str) -> None:
        """Keep a mistake."""
        self.mistakes.append(Mistake(self._named(key), reason))

    def refuse_others(self) -> None:
        """Keep a mistake for each key that nobody read."""
        for key in self._inputs:
            # Those with underscores are the engine's own.
            if key not in self._read and not key.startswith("__"):
                known = ", ".join(sorted(self._read))
                self.refuse(key, f"there is no such input; known are {known}")

    def _below(self, inputs: Inputs, path: str) -> Reader:
        return Reader(inputs, self._named(path), self.mistakes)

    def _named(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def _is_known(self, key: str) -> bool:
        return key in self._inputs and self._inputs[key] is not UNKNOWN

    def _value(self, key: str, kind: Any, wanted: str, default: _T | None) -> Any:
        self._read.add(key)
        if key not in self._inputs:
            if default is None:
                self.refuse(key, f"it is missing; {wanted} is wanted")
            return default
        value = self._inputs[key]
        if value is UNKNOWN:
            return None
        # A bool is an int to Python, but no number to a person.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.refuse(key, f"it is {_said(value)}; {wanted} is wanted")
            return default
        return value


def _said(value: Plain) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case float() | int():
            return f"{value:g}"
        case str():
            return repr(value)
        case list():
            return "a list"
        case _:
            return "a map"
