"""Kernels: programs of MPI, and of one machine's memory and processors, whose own figures show placement and pinning."""

from __future__ import annotations

from random import Random
from typing import Annotated, Final, Self, get_args

from pydantic import Field, model_validator

from tidepool.cluster.part import Whole
from tidepool.lab.generators.parameters import Parameters, numbered
from tidepool.lab.workload import Job, Kernel, RunKernel

#: Two tasks send to each other, and no third.
_PAIR: Final[Kernel] = "ping_pong"


class Kernels(Parameters):
    """Parameters of kernels that run one after another, so that none disturbs another."""

    kernels: tuple[Kernel, ...] = Field(
        default=get_args(Kernel),
        min_length=1,
        description="Which kernels run, in this order: ping_pong, all_reduce, matrix, stream",
    )
    number: Whole = Field(default=1, ge=1, le=1000, description="How often each runs")
    tasks: Whole = Field(default=4, ge=1, le=100_000, description="Tasks of each; ping_pong always has 2")
    cpus_per_task: Whole = Field(default=1, ge=1, le=4096, description="Whole processors of each task")
    memory_mib: Whole = Field(default=256, ge=8, le=4_194_304, description="Memory of each task, in MiB")
    arguments: dict[Kernel, tuple[Annotated[Whole, Field(ge=0)], ...]] = Field(
        default_factory=dict, description="Sizes and rounds of kernels; those of the programs without them"
    )
    interval_s: float = Field(
        default=10.0,
        ge=0,
        le=86400,
        allow_inf_nan=False,
        description="Seconds between a kernel and the next; longer than one lasts",
    )
    limit_s: float = Field(
        default=300.0, gt=0, le=86400, allow_inf_nan=False, description="Time limit of each, in seconds"
    )

    @model_validator(mode="after")
    def _arguments_of_those_that_run(self) -> Self:
        if unused := sorted(set(self.arguments) - set(self.kernels)):
            raise ValueError(
                f"there are arguments of {', '.join(unused)}, which does not run: add it to `kernels`"
            )
        return self

    def jobs(self, chance: Random) -> tuple[Job, ...]:
        del chance  # all of it is said
        runs = self.kernels * self.number
        return tuple(
            Job(
                name=numbered(kernel.replace("_", "-"), place + 1, len(runs)),
                submit_at_s=round(place * self.interval_s, 6),
                program=RunKernel(kernel, self.arguments.get(kernel, ())),
                tasks=2 if kernel == _PAIR else self.tasks,
                cpus_per_task=self.cpus_per_task,
                memory_mib=self.memory_mib,
                limit_s=self.limit_s,
            )
            for place, kernel in enumerate(runs)
        )
