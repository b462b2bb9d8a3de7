"""Letting resources refer to nothing that is not there."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace

from tidepool.engine.resource import ResourceState


def mended(resources: Iterable[ResourceState]) -> list[ResourceState]:
    """``resources`` without references to others that are gone.

    Dependencies on them are dropped, and their children become those of their parents. ``resources`` stand
    in order, so what a resource may refer to stands before it.
    """
    result: list[ResourceState] = []
    there: set[str] = set()
    parents: dict[str, str] = {}
    for state in resources:
        mended = letting_go(state, state.all_dependencies() - there)
        if mended.parent != state.parent:
            mended = replace(mended, parent=parents.get(state.parent, ""))
        parents[state.urn] = mended.parent
        there.update((state.urn, *state.aliases))
        result.append(mended)
    return result


def without_empty(state: ResourceState) -> ResourceState:
    """Return ``state`` without properties that are said to come from nothing, as the CLI has it after a refresh."""
    named = {key: urns for key, urns in state.property_dependencies.items() if urns}
    return (
        state
        if len(named) == len(state.property_dependencies)
        else replace(state, property_dependencies=named)
    )


def letting_go(state: ResourceState, urns: Set[str]) -> ResourceState:
    """``state`` without references to ``urns``, but for that to its provider."""
    if urns.isdisjoint(state.all_dependencies()):
        return state
    left = {key: [u for u in named if u not in urns] for key, named in state.property_dependencies.items()}
    return replace(
        state,
        parent="" if state.parent in urns else state.parent,
        dependencies=tuple(u for u in state.dependencies if u not in urns),
        property_dependencies={key: tuple(named) for key, named in left.items() if named},
        replace_with=tuple(u for u in state.replace_with if u not in urns),
        deleted_with="" if state.deleted_with in urns else state.deleted_with,
    )
