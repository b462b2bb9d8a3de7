"""The entries of a spec that is a plain mapping, parts of which may be wrong; and what a mistake in it is."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any


@dataclass(frozen=True, slots=True)
class Mistake:
    """Something in a spec that cannot be: where (``fleets[0].max_nodes``), what stands there, and what to do.

    ``value`` is None where something is missing.
    """

    path: str
    value: object
    message: str

    def __str__(self) -> str:
        shown = repr(self.value) if isinstance(self.value, str) else str(self.value)
        if "PRIVATE KEY" in shown:
            shown = "(not shown)"  # whoever wrote it to the wrong place has it in no log besides
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return (
            f"{self.path}: {self.message}" if self.value is None else f"{self.path} = {shown}: {self.message}"
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a list of the spec: its path, its keys, and its name if it has one."""

    path: str
    keys: Mapping[str, Any]

    @property
    def name(self) -> str | None:
        """None where there is none that is text."""
        name = self.keys.get("name")
        return name if isinstance(name, str) else None

    @property
    def subnet(self) -> IPv4Network | None:
        """Return the subnet of a fleet or a pool; None where there is none that can be read."""
        return as_network(self.keys.get("subnet"))

    def mistake(self, key: str, message: str) -> Mistake:
        return Mistake(f"{self.path}.{key}", self.keys.get(key), message)

    @property
    def slots(self) -> object:
        """Return how many slots a fleet or a pool has, by what stands there."""
        return self.keys.get("max_nodes", self.keys.get("machines"))


def listed(spec: Mapping[str, Any], *kinds: str) -> list[Entry]:
    """The entries of these lists that are mappings, one list after the other."""
    return [
        Entry(f"{kind}[{i}]", entry)
        for kind in kinds
        for i, entry in numbered(spec.get(kind))
        if isinstance(entry, Mapping)
    ]


def source_name(said: object) -> str | None:
    """Return the name of an infrastructure, which stands alone or is a key: `local` of nothing, None where it is no text."""
    name = said.get("name") if isinstance(said, Mapping) else "local" if said is None else said
    return name if isinstance(name, str) else None


def part(spec: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the mapping at a key; an empty one where there is none."""
    found = spec.get(key)
    return found if isinstance(found, Mapping) else {}


def numbered(entries: object) -> Iterator[tuple[int, Any]]:
    """Yield the entries of a list, with their positions; of what is no list, nothing."""
    return iter(enumerate(entries)) if isinstance(entries, list | tuple) else iter(())


def words(entries: object) -> Iterator[tuple[int, str]]:
    """Yield the texts of a list, with their positions."""
    return ((i, entry) for i, entry in numbered(entries) if isinstance(entry, str))


def as_network(value: object) -> IPv4Network | None:
    """None where it is none."""
    try:
        return IPv4Network(value) if isinstance(value, str | IPv4Network) and "/" in str(value) else None
    except ValueError:
        return None


def total(entries: list[Entry], key: str) -> int:
    """The sum of what is a number."""
    return sum(value for entry in entries if isinstance(value := entry.keys.get(key), int))


def nearest(word: str, known: list[str]) -> str:
    """The known word that is nearest to ``word``, and what is known, in words."""
    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.5)
    said = f"did you mean {near[0]}? " if near else ""
    return f"{said}known here: {', '.join(known) or 'none'}"
