"""Seconds that a driver waits before it looks again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

#: Of the time that was waited already: waiting costs little, and is over soon.
_PART: Final = 0.05


@dataclass
class PollInterval:
    """The time to wait before the next look, in seconds: more the longer nothing happens, up to ``longest_s``.

    ``sleep`` sleeps for so many seconds.
    """

    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    shortest_s: float
    longest_s: float
    _since: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.progress()

    def progress(self) -> None:
        """Something has happened: the next look may tell something new soon."""
        self._since = self.now()

    def wait(self, longest_s: float | None = None) -> None:
        """Wait; ``longest_s`` is for this time alone."""
        waited_s = (self.now() - self._since).total_seconds()
        self.sleep(min(longest_s or self.longest_s, max(self.shortest_s, waited_s * _PART)))
