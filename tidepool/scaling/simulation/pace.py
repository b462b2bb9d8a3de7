"""When a daemon in simulated time has to look next, though nothing happens: a real one looks every second."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from tidepool.cluster.slots import fleet_and_number
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.ports import Kept

#: What has a deadline that only `decide` knows is looked at as often.
_SOON_S: Final = 10.0
_LATE_S: Final = 3600.0
#: Policies with a clock change their minds at whole minutes.
_MINUTES: Final = 15


def next_look(spec: ClusterSpec, kept: Kept, now: datetime, least_s: float) -> datetime:
    """The next moment at which time alone may change what is decided."""
    moments = [moment for moment in _moments(spec, kept, now) if moment > now]
    latest = now + timedelta(seconds=_LATE_S)
    return max(min([*moments, latest]), now + timedelta(seconds=least_s))


def _moments(spec: ClusterSpec, kept: Kept, now: datetime) -> Iterator[datetime]:
    memory = kept.memory
    timeouts = {fleet.name: fleet.idle_timeout_s for fleet in spec.fleets}
    for node, since in memory.idle_since.items():
        try:
            timeout_s = timeouts.get(fleet_and_number(node)[0], 0)
        except ValueError:
            timeout_s = 0
        yield since + timedelta(seconds=timeout_s)
    yield from (launch.deadline for launch in memory.launches.values())
    yield from (setback.until for setback in memory.fleet_setbacks.values())
    yield from (setback.until for setback in memory.node_setbacks.values())
    if memory.drains or memory.strays or memory.ill_since or memory.has_room_since:
        yield now + timedelta(seconds=_SOON_S)
    if any(policy.name == "schedule" for policy in spec.scaling.policies):
        quarter = now.replace(minute=now.minute // _MINUTES * _MINUTES, second=0, microsecond=0)
        yield quarter + timedelta(minutes=_MINUTES)
