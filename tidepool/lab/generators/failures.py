"""Failures: a bag of tasks, some of which end with an exit code that is not 0."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from pydantic import Field

from tidepool.cluster.part import Whole
from tidepool.lab.generators.bag import Bag
from tidepool.lab.workload import Job


class Failures(Bag):
    """Parameters of a bag of tasks, some of which fail."""

    failing_share: float = Field(
        default=0.2,
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="Which part of the jobs fails, from 0 to 1; which ones is chance",
    )
    exit_code: Whole = Field(default=3, ge=1, le=125, description="Exit code of those that fail")

    def jobs(self, chance: Random) -> tuple[Job, ...]:
        made = super().jobs(chance)
        failing = frozenset(chance.sample(range(len(made)), round(self.failing_share * len(made))))
        return tuple(
            replace(job, exit_code=self.exit_code) if i in failing else job for i, job in enumerate(made)
        )
