"""Bags of tasks: many single jobs at once, or at a rate; how many a scheduler bears is seen by it."""

from __future__ import annotations

from random import Random

from pydantic import Field

from tidepool.cluster.part import Whole
from tidepool.lab.generators.parameters import DurationParameters, limit_s, numbered
from tidepool.lab.workload import Job


class Bag(DurationParameters):
    """Parameters of independent jobs of one task each."""

    number: Whole = Field(default=100, ge=1, le=100_000, description="How many jobs")
    rate_per_second: float | None = Field(
        default=None,
        gt=0,
        le=10_000,
        allow_inf_nan=False,
        description="Jobs that arrive in a second, in the mean, by a Poisson process; without it all come at once",
    )

    def jobs(self, chance: Random) -> tuple[Job, ...]:
        made: list[Job] = []
        at_s = 0.0
        for number in range(1, self.number + 1):
            seconds = self.duration_s(chance)
            made.append(
                Job(
                    name=numbered("job", number, self.number),
                    submit_at_s=round(at_s, 6),
                    program=self.program_of(seconds),
                    cpus_per_task=self.cpus_per_task,
                    memory_mib=self.memory_mib,
                    limit_s=limit_s(seconds),
                )
            )
            at_s += chance.expovariate(self.rate_per_second) if self.rate_per_second else 0.0
        return tuple(made)
