"""Letting resources refer to nothing that is not there."""

from __future__ import annotations

from collections.abc import Iterable
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
        mended = _without_dangling(state, there)
        if state.parent and state.parent not in there:
            mended = replace(mended, parent=parents.get(state.parent, ""))
        parents[state.urn] = mended.parent
        there.update((state.urn, *state.aliases))
        result.append(mended)
    return result


def _without_dangling(state: ResourceState, there: set[str]) -> ResourceState:
    dependencies = tuple(u for u in state.dependencies if u in there)
    left = {key: [u for u in urns if u in there] for key, urns in state.property_dependencies.items()}
    by_property = {key: tuple(urns) for key, urns in left.items() if urns}
    replace_with = tuple(u for u in state.replace_with if u in there)
    deleted_with = state.deleted_with if state.deleted_with in there else ""
    if (dependencies, by_property, replace_with, deleted_with) == (
        state.dependencies,
        state.property_dependencies,
        state.replace_with,
        state.deleted_with,
    ):
        return state
    return replace(
        state,
        dependencies=dependencies,
        property_dependencies=by_property,
        replace_with=replace_with,
        deleted_with=deleted_with,
    )
