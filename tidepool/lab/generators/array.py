"""Arrays: jobs that differ in their index alone, in one request where the scheduler can."""

from __future__ import annotations

from random import Random

from pydantic import Field

from tidepool.cluster.part import Whole
from tidepool.lab.generators.parameters import DurationParameters, limit_s, numbered
from tidepool.lab.workload import Job


class Array(DurationParameters):
    """Parameters of arrays of jobs."""

    arrays: Whole = Field(default=1, ge=1, le=1000, description="How many arrays")
    size: Whole = Field(default=100, ge=1, le=10_000, description="How many jobs each has")
    interval_s: float = Field(
        default=0.0, ge=0, le=86400, allow_inf_nan=False, description="Seconds between an array and the next"
    )

    def jobs(self, chance: Random) -> tuple[Job, ...]:
        made: list[Job] = []
        for place in range(self.arrays):
            array = numbered("array", place + 1, self.arrays)
            durations = [self.duration_s(chance) for _ in range(self.size)]
            made += [
                Job(
                    name=numbered(array, index + 1, self.size),
                    submit_at_s=round(place * self.interval_s, 6),
                    program=self.program_of(seconds),
                    cpus_per_task=self.cpus_per_task,
                    memory_mib=self.memory_mib,
                    # An array has one limit in one request.
                    limit_s=limit_s(max(durations)),
                    array=array,
                )
                for index, seconds in enumerate(durations)
            ]
        return tuple(made)
