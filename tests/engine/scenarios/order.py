"""Which of two things happened first, for those pairs where it matters.

What runs side by side may end in any order; what depends on each other, and the steps of one resource, may
not. So an order is kept as a set of pairs, never as a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Span:
    """Something that was done to a resource, from ``begin`` to ``end`` (positions in one log)."""

    what: str
    urn: str
    begin: int
    end: int


def edges(resources: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """``(URN, URN it depends on)`` for the direct dependencies of checkpoint or event resources."""
    found: set[tuple[str, str]] = set()
    for r in resources:
        on = {r.get("parent") or "", r.get("deletedWith") or "", *(r.get("dependencies") or ())}
        on |= set(r.get("replaceWith") or ())
        for dependencies in (r.get("propertyDependencies") or {}).values():
            on |= set(dependencies or ())
        if provider := r.get("provider"):
            on.add(provider.rsplit("::", 1)[0])
        found |= {(r["urn"], urn) for urn in on if urn}
    return found


def pairs(spans: Sequence[Span], dependencies: set[tuple[str, str]]) -> list[str]:
    """``"A < B"`` for each two related spans of which A had ended when B began, sorted."""
    related = dependencies | {(b, a) for a, b in dependencies}
    found: set[str] = set()
    for a in spans:
        for b in spans:
            if a is b or a.end >= b.begin or (a.urn != b.urn and (a.urn, b.urn) not in related):
                continue
            if a.urn == b.urn and a.what.startswith("delete") and b.what.startswith("delete"):
                continue  # two states of one resource go in any order
            found.add(f"{a.what} {a.urn} < {b.what} {b.urn}")
    return sorted(found)
