"""Going on without resources that are gone."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tidepool.engine.deployment.entry import Entry
from tidepool.engine.state.mending import mended, without_empty

if TYPE_CHECKING:
    from tidepool.engine.deployment.deployment import Deployment


async def take_up(deployment: Deployment, gone: Collection[Entry], changed: Collection[Entry] = ()) -> None:
    """Go on without what is ``gone``, and with what a refresh found ``changed``; both are recorded as one.

    What the program already made something of is recorded as that.
    """
    kept = [entry for entry in deployment.live.entries if entry not in gone]
    before = [entry.state for entry in kept]
    amends: list[Entry] = []
    for entry, old, state in zip(kept, before, map(without_empty, mended(before)), strict=True):
        entry.state = state
        if (state is not old or entry in changed) and not deployment.generator.books.is_decided(entry):
            amends.append(entry)
    deployment.live.rebase(kept)
    deployment.rebuild()
    if amends or gone:
        await deployment.live.end(None, amends=amends, drops=gone, mends=bool(gone))
