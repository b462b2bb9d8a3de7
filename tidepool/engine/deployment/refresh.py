"""Comparing the state with the world, before the program runs or instead of it."""

from __future__ import annotations

import asyncio

from tidepool.engine.deployment.context import Context
from tidepool.engine.deployment.executor import Executor
from tidepool.engine.deployment.graph import Entry
from tidepool.engine.deployment.steps.refresh import RefreshStep, take_up


async def refresh(
    context: Context, executor: Executor, *, only_before_update: bool = False, only_unseen: bool = False
) -> None:
    """Read all resources that the operation may touch, and rebuild the state from what was found.

    ``only_before_update`` reads those whose provider asked for it; ``only_unseen`` those that the program
    did not register.
    """
    chosen = [
        entry
        for entry in _chosen(context)
        if not entry.state.view_of
        and (not only_before_update or entry.state.refresh_before_update)
        and (not only_unseen or entry.state.delete or not context.books.is_looked_at(entry.urn))
    ]
    steps = {entry: RefreshStep(entry) for entry in chosen}
    await asyncio.gather(*(executor.run([step], tolerant=True) for step in steps.values()))
    gone = {entry for entry, step in steps.items() if step.gone}
    await take_up(context, gone, [e for e, step in steps.items() if e.state is not step.before])


def _chosen(context: Context) -> list[Entry]:
    options = context.options
    chosen: list[Entry] = []
    reached: set[str] = set()
    for entry in context.live.entries:
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
