"""Deadlines of a conversion's phases, and what comes after each. The docs have this table."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from tidepool.cluster.frozen import FrozenDict
from tidepool.conversion.record import Conversion, Order, Phase

#: Seconds, and the phase that comes when they are over. `emptying` of a graceful conversion has its order's own.
DEADLINES: Final[Mapping[Phase, tuple[float, Phase]]] = FrozenDict(
    {
        "asked": (60.0, "stopped"),
        "holding": (60.0, "restoring"),
        "emptying": (120.0, "restoring"),
        "leaving": (120.0, "restoring"),
        "joining": (120.0, "restoring"),
        "restoring": (240.0, "failed"),
    }
)
#: A machine that a side has not heard of for so long, in seconds, since it began to join, begins once more.
SECOND_TRY_S: Final = 40.0
#: An order that nobody has begun to carry out for so long, in seconds, gives way to another one.
UNBEGUN_S: Final = 60.0


def longest_s(order: Order) -> float:
    """After how many seconds a conversion has ended, whatever happens, that one process drives from its beginning."""
    return sum(seconds for seconds, _ in DEADLINES.values()) + order.deadline_s


def deadline(conversion: Conversion) -> datetime | None:
    """When the present phase is over. None: it has ended, or nobody has begun it."""
    since = counted_from(conversion)
    if since is None:
        return None
    if conversion.phase == "emptying" and "emptying/forced" not in conversion.began:
        return patience_ends(conversion)
    seconds, _ = DEADLINES[conversion.phase]
    return since + timedelta(seconds=seconds)


def counted_from(conversion: Conversion) -> datetime | None:
    """Since when the present phase's time runs: since it began, or since somebody goes on who was not there before.

    The patience with work is since the conversion began to hold, whoever was there meanwhile.
    """
    began, phase = conversion.began, conversion.phase
    driven = began.get("driver/since")
    if phase not in DEADLINES or driven is None:
        return None
    if phase == "emptying":
        if "emptying/forced" not in began:
            return began.get("holding", conversion.order.at)
        return max(began["emptying/forced"], driven)
    return max(began.get(phase, driven), driven)


def patience_ends(conversion: Conversion) -> datetime:
    """Until when work is waited for: so long after the conversion began."""
    began = conversion.began.get("holding", conversion.order.at)
    return began + timedelta(seconds=conversion.order.deadline_s)


def uses_force(conversion: Conversion, now: datetime) -> bool:
    """Return whether what runs there is taken away: ordered so, or the deadline is over and the pool's policy says so."""
    order = conversion.order
    return (
        order.is_forced
        or "emptying/forced" in conversion.began
        or (order.at_deadline == "force" and now >= patience_ends(conversion))
    )
