"""`Parameters`: the base of what a person says of a workload of one kind, and what several kinds have in common."""

from __future__ import annotations

import math
from abc import abstractmethod
from random import Random
from typing import Final, Literal

from pydantic import Field

from tidepool.cluster.part import Part, Whole
from tidepool.lab.workload import Compute, Death, Job, Program, Sleep

#: Slurm counts limits in minutes.
_LIMIT_STEP_S: Final = 60.0
_LONGEST_S: Final = 86400.0


class Parameters(Part):
    """Parameters of one kind of workload, and the generator of its jobs. The same chance gives the same jobs."""

    @abstractmethod
    def jobs(self, chance: Random) -> tuple[Job, ...]:
        """Return the jobs, in the order of their submission.

        Raises:
            LabError: they cannot be made.
        """

    def deaths(self, chance: Random) -> tuple[Death, ...]:
        """Return what happens to machines meanwhile."""
        del chance
        return ()


class TaskParameters(Parameters):
    """Parameters of workloads whose tasks are alike: what each does and takes."""

    program: Literal["sleep", "compute"] = Field(
        default="sleep",
        description="What each task does: sleep, which needs no processor, or compute, for seconds of CPU time",
    )
    cpus_per_task: Whole = Field(default=1, ge=1, le=4096, description="Whole processors of each task")
    memory_mib: Whole = Field(default=64, ge=8, le=4_194_304, description="Memory of each task, in MiB")

    def program_of(self, seconds: float) -> Program:
        """Return the program that lasts so long on processors of its own."""
        return Compute(seconds) if self.program == "compute" else Sleep(seconds)


class DurationParameters(TaskParameters):
    """Parameters of workloads whose jobs last about equally long."""

    seconds: float = Field(
        default=1.0, gt=0, le=_LONGEST_S, allow_inf_nan=False, description="How long a job lasts, in the mean"
    )
    variation: float = Field(
        default=0.0,
        ge=0,
        le=10,
        allow_inf_nan=False,
        description="Coefficient of variation of how long jobs last (log-normal); 0: all equally long",
    )

    def duration_s(self, chance: Random) -> float:
        """Draw how long a job lasts, to the millisecond."""
        return round(log_normal(chance, self.seconds, self.variation), 3) or 0.001


def log_normal(chance: Random, mean: float, variation: float) -> float:
    """Draw from the log-normal distribution of this mean and coefficient of variation."""
    if not variation:
        return mean
    variance = math.log1p(variation**2)
    return chance.lognormvariate(math.log(mean) - variance / 2, math.sqrt(variance))


def limit_s(seconds: float) -> float:
    """Return the time limit of a job that lasts so long: twice that and a minute, in whole minutes."""
    return _LIMIT_STEP_S * math.ceil((2 * seconds + _LIMIT_STEP_S) / _LIMIT_STEP_S)


def numbered(prefix: str, number: int, total: int) -> str:
    """Return the name of job ``number`` of ``total``, counted from 1, as names sort: ``job-007``."""
    return f"{prefix}-{number:0{len(str(total))}d}"
