"""The command of one task of a job, as a machine runs it: which program, and its arguments. Pure."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

from tidepool.lab.workload import Compute, Job, RunKernel, Sleep

#: Programs whose ranks talk by MPI, so that whoever starts them has to let them meet.
MPI_PROGRAMS: Final = frozenset({"ping_pong", "all_reduce"})


def program_of(job: Job) -> str:
    """The name of the program that runs a job's tasks, which is that of its file."""
    return job.program.kernel if isinstance(job.program, RunKernel) else "probe"


def uses_mpi(job: Job) -> bool:
    """Return whether the tasks of a job are one program of MPI."""
    return program_of(job) in MPI_PROGRAMS


def command(job: Job, programs: PurePath, records: PurePath) -> tuple[str, ...]:
    """The command of one task; all tasks of a job have the same, and take their rank from the scheduler's environment.

    Args:
        job: what it is a task of.
        programs: the folder of built programs, as the machine sees it.
        records: the trial's folder of records, likewise; it is there, and whoever runs the job may write into it.
    """
    return (
        str(programs / program_of(job)),
        str(records),
        job.name,
        f"{job.exit_code:d}",
        *_arguments(job),
    )


def _arguments(job: Job) -> tuple[str, ...]:
    match job.program:
        case Sleep(seconds):
            return ("sleep", f"{seconds:.6f}")
        case Compute(cpu_seconds):
            return ("compute", f"{cpu_seconds:.6f}")
        case RunKernel(_, arguments):
            return tuple(map(str, arguments))
