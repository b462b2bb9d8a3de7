"""Priorities: the machines are filled with jobs that may be pushed out, and then jobs come that may push."""

from __future__ import annotations

from random import Random

from pydantic import Field

from tidepool.cluster.part import Whole
from tidepool.lab.generators.parameters import TaskParameters, limit_s, numbered
from tidepool.lab.workload import Job


class Priorities(TaskParameters):
    """Parameters of jobs of two priorities: those that are pushed out are requeued, and run again from their beginning."""

    low: Whole = Field(
        default=16,
        ge=1,
        le=10_000,
        description="Jobs of priority 0, all at the beginning; enough to fill the machines",
    )
    low_seconds: float = Field(
        default=10.0, gt=0, le=86400, allow_inf_nan=False, description="How long each of these lasts"
    )
    high: Whole = Field(default=4, ge=1, le=10_000, description="Jobs of priority 100")
    high_seconds: float = Field(
        default=2.0, gt=0, le=86400, allow_inf_nan=False, description="How long each of these lasts"
    )
    high_after_s: float = Field(
        default=3.0,
        ge=0,
        le=86400,
        allow_inf_nan=False,
        description="When the first of these comes: when the others are running",
    )
    interval_s: float = Field(
        default=1.0,
        ge=0,
        le=86400,
        allow_inf_nan=False,
        description="Seconds between one of these and the next",
    )
    preempts: bool = Field(
        default=True, description="Whether these may end running jobs of priority 0, which are requeued"
    )

    def jobs(self, chance: Random) -> tuple[Job, ...]:
        del chance  # all of it is said
        low = [self._job(numbered("low", n + 1, self.low), 0.0, self.low_seconds, 0) for n in range(self.low)]
        high = [
            self._job(
                numbered("high", n + 1, self.high),
                self.high_after_s + n * self.interval_s,
                self.high_seconds,
                100,
            )
            for n in range(self.high)
        ]
        return tuple(low + high)

    def _job(self, name: str, at_s: float, seconds: float, priority: int) -> Job:
        return Job(
            name=name,
            submit_at_s=round(at_s, 6),
            program=self.program_of(seconds),
            cpus_per_task=self.cpus_per_task,
            memory_mib=self.memory_mib,
            # Whoever is pushed out begins again, and has its limit again.
            limit_s=limit_s(seconds),
            priority=priority,
            preempts=bool(priority) and self.preempts,
        )
