"""Gangs: jobs of several tasks that start together or not at all, of the sizes that a person names."""

from __future__ import annotations

from random import Random
from typing import Annotated

from pydantic import Field

from tidepool.cluster.part import Whole
from tidepool.lab.generators.parameters import DurationParameters, limit_s, numbered
from tidepool.lab.workload import Job

Size = Annotated[Whole, Field(ge=1, le=100_000)]


class Gang(DurationParameters):
    """Parameters of jobs of several tasks."""

    number: Whole = Field(default=12, ge=1, le=10_000, description="How many jobs")
    sizes: tuple[Size, ...] = Field(
        default=(2, 4),
        min_length=1,
        description="Tasks of a job: all of these sizes equally often, in an order by chance",
    )
    interval_s: float = Field(
        default=1.0, ge=0, le=86400, allow_inf_nan=False, description="Seconds between a job and the next"
    )

    def jobs(self, chance: Random) -> tuple[Job, ...]:
        sizes = [self.sizes[number % len(self.sizes)] for number in range(self.number)]
        chance.shuffle(sizes)
        return tuple(self._job(number, size, chance) for number, size in enumerate(sizes))

    def _job(self, number: int, size: int, chance: Random) -> Job:
        seconds = self.duration_s(chance)
        return Job(
            name=numbered("gang", number + 1, self.number),
            submit_at_s=round(number * self.interval_s, 6),
            program=self.program_of(seconds),
            tasks=size,
            cpus_per_task=self.cpus_per_task,
            memory_mib=self.memory_mib,
            limit_s=limit_s(seconds),
        )
