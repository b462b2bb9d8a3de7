"""Sources of a look: how often each is asked, and which of their answers are not believed at once. Pure.

A controller that was just started, or a query that failed half-way, may tell of nothing where there was much. Nothing is
decided on such an answer until it was given several times in a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from tidepool.clients.slurm import Job, JobState, Node, NodeFlag

_T = TypeVar("_T")

#: How often the same has to be said until it is believed.
TIMES: Final = 4


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


@dataclass(slots=True)
class Source(Generic[_T]):
    """The newest answer of a source, when it came, and how long it took."""

    value: _T | None = None
    at_s: float = float("-inf")
    cost_s: float = 0.0

    def is_due(self, now_s: float, poll: PollInterval) -> bool:
        return now_s - self.at_s >= poll.interval_s(self.cost_s)

    def expire(self) -> None:
        """Have it asked again at the next look."""
        self.at_s = float("-inf")


def lost_nodes(before: frozenset[str], nodes: Iterable[Node]) -> frozenset[str]:
    """The nodes that were told of before and are not any more: Slurm keeps slots for ever."""
    return before - {node.name for node in nodes}


def unexplained(nodes: Iterable[Node], jobs: Iterable[Job]) -> tuple[str, ...]:
    """The nodes with processors that are allocated, where no job is told of that could have them."""
    busy = tuple(
        node.name
        for node in nodes
        if node.cpus_alloc and not node.state.flags & {NodeFlag.COMPLETING, NodeFlag.NOT_RESPONDING}
    )
    return busy if busy and all(job.state is JobState.PENDING for job in jobs) else ()
