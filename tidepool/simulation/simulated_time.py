"""Simulated time: a clock that jumps, and when a daemon looks next.

A real daemon looks several times a second; most looks see nothing new. Here, after something has changed it looks soon,
and then at growing distances, for not all is looked at each time. When nothing changes it looks when time alone may change
what is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from typing import Final

from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.daemon.loop import Turn
from tidepool.scaling.decide.reconcile import CONFIRMED_AFTER, STRAY_GRACE
from tidepool.scaling.decide.remember import fleet_of
from tidepool.scaling.decision import Decision


class Clock:
    """Calling it gives the time, in UTC. What happens at the same moment happens in the order it was asked for.

    ``ahead_s`` is how far a clock that is read is wrong: what is to happen still happens at its true time.
    """

    def __init__(self, start: datetime) -> None:
        self.ahead_s = 0.0
        self._start = self._now = start
        self._numbers = count()
        self._coming: list[tuple[datetime, int, Callable[[], None]]] = []

    def __call__(self) -> datetime:
        return self._now + timedelta(seconds=self.ahead_s) if self.ahead_s else self._now

    @property
    def true(self) -> datetime:
        """The time, however wrong the clock that is read may be."""
        return self._now

    def monotonic_s(self) -> float:
        """Seconds since the start, which never jump."""
        return (self._now - self._start).total_seconds()

    def at(self, moment: datetime, happens: Callable[[], None]) -> None:
        """Let something happen at ``moment``; now, where that is past."""
        heappush(self._coming, (max(moment, self._now), next(self._numbers), happens))

    def after(self, seconds: float, happens: Callable[[], None]) -> None:
        self.at(self._now + timedelta(seconds=seconds), happens)

    def next_moment(self) -> datetime | None:
        return self._coming[0][0] if self._coming else None

    def advance(self, moment: datetime) -> None:
        """Go on to ``moment``, which is no later than the next thing that happens."""
        self._now = max(self._now, moment)

    def happen(self) -> None:
        """Let happen the next thing that is to happen by now, and no more."""
        if self._coming and self._coming[0][0] <= self._now:
            heappop(self._coming)[2]()


_GROWTH: Final = 8.0
#: By then all that has changed was looked at.
_ECHOES_END_S: Final = 40.0
#: While something is going on.
_ACTIVE_S: Final = 60.0
#: A daemon to which nothing is going on asks to be called again after so long at least.
_AT_REST_S: Final = 0.5
#: Policies with a clock change their minds at whole minutes.
_QUARTER: Final = 15


class Pacing:
    """Poll intervals of one daemon. ``least_s`` and ``most_s`` are the shortest and the longest distance of two looks.

    Without ``echoes`` one look sees all.
    """

    def __init__(self, least_s: float, most_s: float, *, echoes: bool = True) -> None:
        self._least_s = least_s
        self._most_s = most_s
        self._first_gap_s = least_s if echoes else _ECHOES_END_S
        self._gap_s = self._first_gap_s

    def changed(self) -> None:
        self._gap_s = self._first_gap_s

    def next_look(self, turn: Turn, spec: ClusterSpec, now: datetime) -> datetime:
        """When to look again after ``turn``."""
        if turn.role != "leads":
            return now + timedelta(seconds=max(turn.again_in_s, self._least_s))
        acted = turn.again_in_s == 0 or turn.decision is None or bool(turn.decision.actions)
        if acted:
            self.changed()
        is_active = turn.again_in_s < _AT_REST_S
        most_s = min(_ACTIVE_S, self._most_s) if is_active else self._most_s
        if self._gap_s < _ECHOES_END_S:
            most_s = min(self._gap_s, most_s)
            self._gap_s *= _GROWTH
        latest = now + timedelta(seconds=most_s)
        moments: Iterable[datetime] = self.moments(spec, turn.decision, now) if turn.decision else ()
        soonest = min((moment for moment in moments if moment > now), default=latest)
        return max(min(soonest, latest), now + timedelta(seconds=self._least_s))

    def moments(self, spec: ClusterSpec, decision: Decision, now: datetime) -> Iterator[datetime]:
        """When time alone may change what was decided."""
        memory = decision.memory
        timeouts = {fleet.name: fleet.idle_timeout_s for fleet in spec.fleets}
        for node, since in memory.idle_since.items():
            yield since + timedelta(seconds=timeouts.get(fleet_of(node), 0))
        yield from (launch.deadline for launch in memory.launches.values())
        yield from memory.awaited.values()
        yield from (since + STRAY_GRACE for since in memory.strays.values())
        yield from (backoff.until for backoff in memory.fleet_backoffs.values())
        yield from (backoff.until for backoff in memory.node_backoffs.values())
        yield from (since + CONFIRMED_AFTER for since in memory.ill_since.values())
        if any(policy.name == "schedule" for policy in spec.scaling.policies):
            quarter = now.replace(minute=now.minute // _QUARTER * _QUARTER, second=0, microsecond=0)
            yield quarter + timedelta(minutes=_QUARTER)
