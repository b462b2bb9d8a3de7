"""The interval between looks: as short as it is worth, and never more than a share of the time. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PollInterval:
    """At most ``share`` of the time goes into it; not more often than every ``least_s``, nor less than ``most_s``."""

    share: float
    least_s: float
    most_s: float

    def interval_s(self, cost_s: float) -> float:
        """Return how long to wait between two looks that take ``cost_s`` each."""
        return min(max(cost_s / self.share, self.least_s), self.most_s)


def backoff_s(failures: int, least_s: float, most_s: float) -> float:
    """Return how long to wait after so many failures in a row: twice as long each time."""
    return min(least_s * 2.0 ** min(max(failures - 1, 0), 20), most_s)
