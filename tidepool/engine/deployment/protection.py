"""What a destroy that spares protected resources has to leave."""

from __future__ import annotations

from tidepool.engine.deployment.entry import Entry
from tidepool.engine.deployment.graph import Graph
from tidepool.engine.resource import Snapshot


def protected_with_needs(snapshot: Snapshot) -> tuple[str, ...]:
    """The URNs of protected resources and of all that they depend on, in the order of the snapshot."""
    entries = [Entry(n, state) for n, state in enumerate(snapshot.resources)]
    graph = Graph(entries)
    kept: set[Entry] = set()
    for entry in entries:
        if entry.state.protect:
            kept.add(entry)
            kept |= graph.transitive_dependencies(entry)
    return tuple(e.urn for e in entries if e in kept)
