"""`Scheduler`: all that a laboratory asks of one. Measuring is outside of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from tidepool.lab.workload import Job

Pause = Callable[[float], object]
"""Waits for so many seconds, or less."""


@dataclass(frozen=True, slots=True)
class JobState:
    """A job as its scheduler tells of it now.

    Attributes:
        name: the job's name in its workload.
        state: in the scheduler's own terms.
        running: whether its processes may be running.
        ended: whether it will not run again.
        succeeded: whether it ended well.
        told: the scheduler's own times, by its own names; seconds since the epoch.
    """

    name: str
    state: str
    running: bool
    ended: bool
    succeeded: bool
    told: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


class Scheduler(Protocol):
    """One scheduler on the laboratory's machines, which are its own while a trial is under way.

    It is opened once for each trial that is tried, and `end` comes first of all: whoever began another may have been killed.

    All may raise `tidepool.lab.errors.SchedulerFailed`. Names of jobs are unique in a trial.
    """

    @property
    def can(self) -> frozenset[str]:
        """Features beside single jobs that it has: ``gang``, ``array``, ``dependencies``, ``priority``, ``preemption``."""
        ...

    def begin(self, trial: str, records: Path) -> None:
        """Make what a trial needs: a queue, a namespace, classes of priority. Processes write below ``records`` on the machines."""
        ...

    def submit(self, jobs: Sequence[Job]) -> None:
        """Hand over jobs that are due, in this order; returns when the scheduler has accepted them."""
        ...

    def cancel(self, names: Sequence[str]) -> None:
        """End jobs, wherever they are."""
        ...

    def watch(self, pause: Pause = time.sleep) -> Iterator[Sequence[JobState]]:
        """Yield what has changed, at least once a second, empty where nothing has; the first is all that there is.

        Between two looks of a scheduler that has to be asked is a ``pause``, which may be cut short when nobody listens any more.
        """
        ...

    def parts(self) -> Mapping[str, Sequence[int]]:
        """Return the process ids, on this host, of its programs by part: what they use is its price."""
        ...

    def requests(self) -> Mapping[str, int]:
        """Return how many requests its API has had since it began, by what they were; empty where that is not counted."""
        ...

    def settings(self) -> Mapping[str, str]:
        """Return versions and settings that figures may depend on."""
        ...

    def end(self) -> None:
        """Take away all that a trial made: jobs, queues, namespaces, programs; nothing is left when it returns.

        Also what a trial made that another process began; it may be called where nothing is.
        """
        ...
