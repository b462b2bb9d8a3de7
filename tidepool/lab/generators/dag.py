"""Workflows: jobs in layers, each of which waits for some of the layer before it (a DAG)."""

from __future__ import annotations

from random import Random

from pydantic import Field

from tidepool.cluster.part import Whole
from tidepool.lab.generators.parameters import DurationParameters, limit_s, numbered
from tidepool.lab.workload import Job


class Dag(DurationParameters):
    """Parameters of jobs in layers."""

    depth: Whole = Field(default=4, ge=1, le=1000, description="How many layers")
    width: Whole = Field(default=8, ge=1, le=10_000, description="How many jobs a layer has")
    fan_in: Whole = Field(
        default=2,
        ge=1,
        le=100,
        description="How many jobs of the layer before, by chance, each waits for; at most all of them",
    )

    def jobs(self, chance: Random) -> tuple[Job, ...]:
        made: list[Job] = []
        before: list[str] = []
        for depth in range(self.depth):
            layer = numbered("layer", depth + 1, self.depth)
            names = [numbered(layer, index + 1, self.width) for index in range(self.width)]
            made += [self._job(name, before, chance) for name in names]
            before = names
        return tuple(made)

    def _job(self, name: str, before: list[str], chance: Random) -> Job:
        seconds = self.duration_s(chance)
        return Job(
            name=name,
            submit_at_s=0.0,
            program=self.program_of(seconds),
            cpus_per_task=self.cpus_per_task,
            memory_mib=self.memory_mib,
            limit_s=limit_s(seconds),
            after=tuple(sorted(chance.sample(before, min(self.fan_in, len(before))))),
        )
