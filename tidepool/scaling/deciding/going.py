"""Which nodes go first, of those that may go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from tidepool.scaling.deciding.budget import fleet_prices
from tidepool.scaling.deciding.ledger import Entry
from tidepool.scaling.phase import Phase
from tidepool.scaling.world import World


def going_order(world: World, idle_since: Mapping[str, datetime]) -> Callable[[Entry], Any]:
    """A key that sorts nodes: idle before busy, of an older image, dearest, idle for longest, of the highest slot.

    Low slots stay, so that what is left lies together, for jobs of several nodes.
    """
    prices = fleet_prices(world.spec)

    def key(entry: Entry) -> tuple[bool, bool, float, datetime, int, str]:
        return (
            entry.phase is Phase.BUSY or entry.has_jobs,
            not is_of_older_image(entry, world),
            -prices.get(entry.fleet, 0),
            idle_since.get(entry.name, world.at),
            -entry.number,
            entry.fleet,
        )

    return key


def is_of_older_image(entry: Entry, world: World) -> bool:
    """Whether its fleet's machines are made from another image by now."""
    now = world.images.get(entry.fleet, "")
    return bool(entry.image and now and entry.image != now)
