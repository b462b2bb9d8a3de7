"""The resources of the running operation, and which of them depend on which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tidepool.engine.resource import ResourceState


class Entry:
    """One resource, as it is known at the moment.

    States are values; an entry is the thing that they are states of. Two entries with one URN are two
    resources (one of them waits for its deletion). ``number`` is the resource's number in the journal.
    """

    __slots__ = ("number", "state")

    def __init__(self, number: int, state: ResourceState) -> None:
        self.number = number
        self.state = state

    def change(self, **fields: Any) -> ResourceState:
        """Set fields of the state, and return it."""
        self.state = replace(self.state, **fields)
        return self.state

    @property
    def urn(self) -> str:
        """The resource's URN."""
        return self.state.urn

    def __repr__(self) -> str:
        return f"Entry({self.number}, {self.state.urn})"


def provider_urn(reference: str) -> str:
    """The URN within a provider reference (``URN::ID``); empty for an empty reference."""
    return reference.rsplit("::", 1)[0] if reference else ""


def _needs(state: ResourceState, *, parent: bool) -> Iterator[str]:
    yield from state.dependencies
    for urns in state.property_dependencies.values():
        yield from urns
    if state.deleted_with:
        yield state.deleted_with
    yield from state.replace_with
    if state.provider:
        yield provider_urn(state.provider)
    if parent and state.parent:
        yield state.parent


class Graph:
    """Dependencies among ``entries``, which stand in an order in which each follows what it depends on.

    A URN may stand more than once: older copies wait for their deletion. A dependency on a URN is on
    every copy that stands before the dependent.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries: Sequence[Entry] = tuple(entries)
        self._positions: dict[Entry, int] = {e: i for i, e in enumerate(self._entries)}
        self._by_urn: dict[str, list[int]] = defaultdict(list)
        self._children: dict[str, list[int]] = defaultdict(list)
        for i, entry in enumerate(self._entries):
            for urn in (entry.urn, *entry.state.aliases):
                self._by_urn[urn].append(i)
            if entry.state.parent:
                self._children[entry.state.parent].append(i)

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._positions

    def position(self, entry: Entry) -> int:
        """Return the number of the resource in the order; what it depends on comes before it."""
        return self._positions[entry]

    def dependents(self, root: Entry, *, ignore: Collection[str] = (), children: bool = False) -> list[Entry]:
        """All that depend on ``root``, directly or not, each after those that it depends on.

        ``ignore`` names URNs that are known not to depend on it; ``children`` counts a child as dependent.
        """
        affected = {root.urn, *root.state.aliases}
        found: list[Entry] = []
        for candidate in self._entries[self._positions[root] + 1 :]:
            if candidate.urn in ignore:
                continue
            if any(urn in affected for urn in _needs(candidate.state, parent=children)):
                found.append(candidate)
                affected.update((candidate.urn, *candidate.state.aliases))
        return found

    def dependencies(self, entry: Entry) -> list[Entry]:
        """Return the direct dependencies of ``entry``; one on a component means on all that is below it, too."""
        position = self._positions[entry]
        found: dict[int, None] = {}
        for urn in _needs(entry.state, parent=False):
            for i in self._by_urn.get(urn, ()):
                if i < position:
                    found[i] = None
                    if not self._entries[i].state.custom:
                        found.update((c, None) for c in self._below(i) if c < position)
        if entry.state.parent:
            found.update((i, None) for i in self._by_urn.get(entry.state.parent, ()) if i < position)
        return [self._entries[i] for i in found]

    def transitive_dependencies(self, entry: Entry) -> set[Entry]:
        """All that ``entry`` depends on, directly or not."""
        found: set[Entry] = set()
        frontier = [entry]
        while frontier:
            for dependency in self.dependencies(frontier.pop()):
                if dependency not in found:
                    found.add(dependency)
                    frontier.append(dependency)
        return found

    def _below(self, i: int) -> Iterator[int]:
        for urn in (self._entries[i].urn, *self._entries[i].state.aliases):
            for child in self._children.get(urn, ()):
                yield child
                yield from self._below(child)
