"""Time that jumps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count


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
        """Let something happen in ``seconds``."""
        self.at(self._now + timedelta(seconds=seconds), happens)

    def next_moment(self) -> datetime | None:
        """When something happens next."""
        return self._coming[0][0] if self._coming else None

    def advance(self, moment: datetime) -> None:
        """Go on to ``moment``, which is no later than the next thing that happens."""
        self._now = max(self._now, moment)

    def happen(self) -> None:
        """Let happen the next thing that is to happen by now, and no more."""
        if self._coming and self._coming[0][0] <= self._now:
            heappop(self._coming)[2]()
