"""Comparing the state with the world, before the program runs or instead of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from tidepool.engine.deployment.entry import Entry
from tidepool.engine.deployment.steps.refresh import RefreshStep
from tidepool.engine.resource import ResourceState

if TYPE_CHECKING:
    from tidepool.engine.deployment.deployment import Deployment


async def refresh(
    deployment: Deployment, *, only_before_update: bool = False, only_unseen: bool = False
) -> None:
    """Read all resources that the operation may touch, and rebuild the state from what was found.

    ``only_before_update`` reads those whose provider asked for it; ``only_unseen`` those that the program
    did not register.
    """
    chosen = [
        entry
        for entry in _chosen(deployment)
        if not entry.state.view_of
        and (not only_before_update or entry.state.refresh_before_update)
        and (not only_unseen or not deployment.generator.books.is_operated_on(entry.urn))
    ]
    steps = {entry: RefreshStep(entry) for entry in chosen}
    await asyncio.gather(*(deployment.executor.run([step], tolerant=True) for step in steps.values()))
    gone = {entry for entry, step in steps.items() if step.gone}
    kept = [entry for entry in deployment.live.entries if entry not in gone]
    before = {entry: steps[entry].before if entry in steps else entry.state for entry in kept}
    mend(kept)
    # What the program already made something of is recorded as that.
    changed = [e for e in kept if e.state is not before[e] and not deployment.generator.books.is_decided(e)]
    if changed or gone:
        await deployment.live.end(None, amends=changed, drops=gone)
    deployment.live.rebase(kept)
    deployment.rebuild()


def _chosen(deployment: Deployment) -> list[Entry]:
    options = deployment.options
    chosen: list[Entry] = []
    reached: set[str] = set()
    for entry in deployment.live.entries:
        needs = entry.state.all_dependencies()
        if options.excludes:
            if entry.urn in options.excludes or (
                options.exclude_dependents and not reached.isdisjoint(needs)
            ):
                reached.add(entry.urn)
            else:
                chosen.append(entry)
        elif (
            not options.targets
            or entry.urn in options.targets
            or (options.target_dependents and not reached.isdisjoint(needs))
        ):
            reached.add(entry.urn)
            chosen.append(entry)
    return chosen


def mend(entries: list[Entry]) -> None:
    """Let no resource refer to one that is gone.

    Dependencies on it are dropped, and its children become those of its parent. ``entries`` stand in
    order, so what a resource may refer to stands before it.
    """
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
        there.add(state.urn)


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
