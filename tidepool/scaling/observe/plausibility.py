"""Answers that are too good or too bad to be believed at once: they are asked for again. Pure.

A controller that was just started, or a query that failed half-way, may tell of nothing where there was much. Nothing is
decided on such an answer until it was given several times in a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tidepool.clients.slurm import Job, JobState, Node, NodeFlag

#: How often the same has to be said until it is believed.
TIMES: Final = 4


@dataclass(frozen=True, slots=True)
class Plausibility:
    """An answer that is doubted, and how often it was said in a row."""

    answer: object = None
    times: int = 0

    def again(self, answer: object) -> Plausibility:
        """The doubt after it was said (once more)."""
        return Plausibility(answer, self.times + 1 if answer == self.answer else 1)

    @property
    def is_over(self) -> bool:
        """Return whether it was said often enough."""
        return self.times >= TIMES


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
