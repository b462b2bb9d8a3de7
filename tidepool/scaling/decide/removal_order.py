"""Which nodes go first, of those that may go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from tidepool.scaling.cluster_state import World
from tidepool.scaling.decide.budget import price_of
from tidepool.scaling.decide.capacity import node_prices
from tidepool.scaling.decide.reconcile import Entry
from tidepool.scaling.memory import at_place
from tidepool.scaling.phase import Phase


def going_order(world: World, idle_since: Mapping[str, datetime]) -> Callable[[Entry], Any]:
    """A key that sorts nodes: idle before busy, of an older image, dearest, idle for longest, of the highest slot.

    Of a fleet's infrastructures the last goes first. Low slots stay, so that what is left lies together, for jobs of several
    nodes.
    """
    prices = node_prices(world.spec)
    turns = {
        (fleet.name, each.key): turn
        for fleet in world.spec.fleets
        for turn, each in enumerate(fleet.infrastructures)
    }

    def key(entry: Entry) -> tuple[bool, bool, float, int, datetime, int, str]:
        return (
            entry.phase is Phase.BUSY or entry.has_jobs,
            not is_of_older_image(entry, world),
            -price_of(entry, prices),
            -turns.get((entry.fleet, entry.place), 0),
            idle_since.get(entry.name, world.at),
            -entry.number,
            entry.fleet,
        )

    return key


def is_of_older_image(entry: Entry, world: World) -> bool:
    """Whether its fleet's machines are made from another image by now."""
    now = world.images.get(at_place(entry.fleet, entry.place), "")
    return bool(entry.image and now and entry.image != now)
