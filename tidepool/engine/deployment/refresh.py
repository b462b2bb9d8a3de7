"""Comparing the state with the world, before the program runs or instead of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tidepool.engine.deployment.entry import Entry
from tidepool.engine.deployment.mending import take_up
from tidepool.engine.deployment.steps.refresh import RefreshStep

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
        and (not only_unseen or entry.state.delete or not deployment.generator.books.is_looked_at(entry.urn))
    ]
    steps = {entry: RefreshStep(entry) for entry in chosen}
    await asyncio.gather(*(deployment.executor.run([step], tolerant=True) for step in steps.values()))
    gone = {entry for entry, step in steps.items() if step.gone}
    await take_up(deployment, gone, [e for e, step in steps.items() if e.state is not step.before])


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
