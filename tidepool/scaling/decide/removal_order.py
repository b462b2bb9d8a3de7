"""The order in which nodes are removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.budget import price_of
from tidepool.scaling.decide.capacity import node_prices
from tidepool.scaling.decide.reconcile import Entry
from tidepool.scaling.memory import at_location
from tidepool.scaling.phase import Phase


def removal_order(state: ClusterState, idle_since: Mapping[str, datetime]) -> Callable[[Entry], Any]:
    """A key that sorts nodes: idle before busy, of an older image, dearest, idle for longest, of the highest slot.

    Of a fleet's infrastructures the last goes first. Low slots stay, so that what is left lies together, for jobs of several
    nodes.
    """
    prices = node_prices(state.spec)
    turns = {
        (fleet.name, each.key): turn
        for fleet in state.spec.fleets
        for turn, each in enumerate(fleet.infrastructures)
    }

    def key(entry: Entry) -> tuple[bool, bool, float, int, datetime, int, str]:
        return (
            entry.phase is Phase.BUSY or entry.has_jobs,
            not is_of_older_image(entry, state),
            -price_of(entry, prices),
            -turns.get((entry.fleet, entry.location), 0),
            idle_since.get(entry.name, state.at),
            -entry.number,
            entry.fleet,
        )

    return key


def is_of_older_image(entry: Entry, state: ClusterState) -> bool:
    """Return whether its fleet's machines are made from another image by now."""
    now = state.images.get(at_location(entry.fleet, entry.location), "")
    return bool(entry.image and now and entry.image != now)
