"""`Job` and `Workload`: what is run under each scheduler, the same for all of them. Frozen, and nothing of any scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

Kernel = Literal["ping_pong", "all_reduce", "matrix", "stream"]
"""A program of MPI's or of one machine's memory and processors, by what it does."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """A process that waits, and needs no processor."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Compute:
    """A process that computes until it has had so many seconds of CPU time, so that sharing a processor shows."""

    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class RunKernel:
    """A kernel, with its arguments: sizes and rounds. Those of MPI are one program over all tasks of the job."""

    kernel: Kernel
    arguments: tuple[int, ...] = ()


Program = Sleep | Compute | RunKernel


@dataclass(frozen=True, slots=True)
class Job:
    """Something that is submitted at once: one process, or several that start together or not at all.

    Attributes:
        name: no other job of the workload has it.
        submit_at_s: seconds from the trial's beginning.
        program: what each of its tasks does.
        tasks: how many processes; more than one is a gang.
        cpus_per_task: whole processors that each has.
        memory_mib: of each task.
        limit_s: the time limit that the scheduler is told.
        priority: jobs of a higher one go first, and may push lower ones out where ``preempts``.
        preempts: whether it may end jobs of a lower priority; those are requeued.
        after: names of jobs that must have succeeded.
        array: jobs of one array, whose name this is, are submitted in one request where the scheduler can.
        exit_code: what its processes are to end with; other than 0, it is a job that fails.
    """

    name: str
    submit_at_s: float
    program: Program
    tasks: int = 1
    cpus_per_task: int = 1
    memory_mib: int = 64
    limit_s: float = 300.0
    priority: int = 0
    preempts: bool = False
    after: tuple[str, ...] = ()
    array: str = ""
    exit_code: int = 0

    @property
    def cpus(self) -> int:
        """All processors of all tasks."""
        return self.tasks * self.cpus_per_task


@dataclass(frozen=True, slots=True)
class Death:
    """A machine that is killed in the middle, and comes back.

    Attributes:
        at_s: seconds from the trial's beginning.
        machine: which one, counted from 0 among the laboratory's.
        back_after_s: how long it is away.
    """

    at_s: float
    machine: int
    back_after_s: float


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs in the order of their submission, and what happens to machines meanwhile.

    Attributes:
        name: as the laboratory's file says it.
        kind: the word of the generator that made it: ``bag``, ``lublin``, ``swf``, ...
        seed: the same seed gives the same jobs, whatever the scheduler.
        parameters: what the generator was told, for reports.
    """

    name: str
    kind: str
    seed: int
    jobs: tuple[Job, ...]
    deaths: tuple[Death, ...] = ()
    parameters: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
