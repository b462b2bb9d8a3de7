"""Going on without resources that are gone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from tidepool.engine.deployment.entry import Entry
from tidepool.engine.resource import ResourceState

if TYPE_CHECKING:
    from tidepool.engine.deployment.deployment import Deployment


async def take_up(deployment: Deployment, gone: Collection[Entry], changed: Collection[Entry] = ()) -> None:
    """Go on without what is ``gone``, and with what a refresh found ``changed``; both are recorded as one.

    What the program already made something of is recorded as that.
    """
    kept = [entry for entry in deployment.live.entries if entry not in gone]
    changed = {*changed, *mend(kept)}
    amends = [e for e in kept if e in changed and not deployment.generator.books.is_decided(e)]
    deployment.live.rebase(kept)
    deployment.rebuild()
    if amends or gone:
        await deployment.live.end(None, amends=amends, drops=gone)


def mend(entries: list[Entry]) -> list[Entry]:
    """Let no resource refer to one that is gone; gives those that did.

    Dependencies on it are dropped, and its children become those of its parent. ``entries`` stand in
    order, so what a resource may refer to stands before it.
    """
    changed: list[Entry] = []
    there: set[str] = set()
    parents: dict[str, str] = {}
    for entry in entries:
        state = entry.state
        mended = _without_dangling(state, there)
        if state.parent and state.parent not in there:
            mended = replace(mended, parent=parents.get(state.parent, ""))
        parents[state.urn] = mended.parent
        if mended != state:
            entry.state = mended
            changed.append(entry)
        there.add(state.urn)
    return changed


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
