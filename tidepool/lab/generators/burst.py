"""Bursts: many jobs at once, then nothing for a while; how a scheduler's queue grows and drains is seen by it."""

from __future__ import annotations

from random import Random

from pydantic import Field

from tidepool.cluster.part import Whole
from tidepool.lab.generators.parameters import DurationParameters, limit_s, numbered
from tidepool.lab.workload import Job


class Burst(DurationParameters):
    """Parameters of bursts of jobs of one task each."""

    bursts: Whole = Field(default=3, ge=1, le=1000, description="How many bursts")
    size: Whole = Field(default=50, ge=1, le=10_000, description="How many jobs come at once")
    interval_s: float = Field(
        default=10.0, gt=0, le=86400, allow_inf_nan=False, description="Seconds between a burst and the next"
    )

    def jobs(self, chance: Random) -> tuple[Job, ...]:
        made: list[Job] = []
        for burst in range(self.bursts):
            for index in range(self.size):
                seconds = self.duration_s(chance)
                made.append(
                    Job(
                        name=numbered(numbered("burst", burst + 1, self.bursts), index + 1, self.size),
                        submit_at_s=round(burst * self.interval_s, 6),
                        program=self.program_of(seconds),
                        cpus_per_task=self.cpus_per_task,
                        memory_mib=self.memory_mib,
                        limit_s=limit_s(seconds),
                    )
                )
        return tuple(made)
