"""Requests to Slurm for a workload's jobs: what sbatch is told, and the script of each. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil
from pathlib import PurePath
from typing import Final

from tidepool.clients.slurm import JobRequest
from tidepool.lab.programs.command import command, uses_mpi
from tidepool.lab.workload import Job, RunKernel

#: Begins the names of the laboratory's jobs in Slurm, by which those of a trial that was killed are found.
JOB_PREFIX: Final = "lab."
#: The priority of a job whose own is 0. Slurm's goes from 1, and 0 holds a job.
NO_PRIORITY: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Folders:
    """Folders as machines see them: of built programs, and of a trial's records."""

    programs: PurePath
    records: PurePath


@dataclass(frozen=True, slots=True)
class Partitions:
    """Partitions that jobs go to: one for all, and where Slurm preempts by partitions, one whose jobs push those of the first out.

    Of their nodes jobs run on those that have the ``feature``, where one is named.
    """

    usual: str
    preempting: str = ""
    feature: str = ""


def batches(jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    """Yield jobs that go into one request, in their order: neighbours of one array that differ in no more than what they run."""

    def kind(job: Job) -> object:
        return job.array and (
            job.array,
            job.tasks,
            job.cpus_per_task,
            job.memory_mib,
            job.limit_s,
            job.priority,
            job.preempts,
            job.after,
        )

    for key, group in groupby(jobs, kind):
        if key:
            yield tuple(group)
        else:
            yield from ((job,) for job in group)


def request(
    jobs: Sequence[Job], folders: Folders, partitions: Partitions, ids: Mapping[str, str]
) -> JobRequest:
    """Return the request for one job, or for several as one array.

    Args:
        jobs: one of `batches`.
        folders: where machines find programs, and write.
        partitions: the preempting one is that of jobs which preempt.
        ids: Slurm's numbers of the jobs that they wait for, by name.
    """
    first = jobs[0]
    depends_on = ":".join(ids.values())
    return JobRequest(
        script=_script(jobs, folders),
        name=JOB_PREFIX + (first.array if len(jobs) > 1 else first.name),
        partition=partitions.preempting if first.preempts and partitions.preempting else partitions.usual,
        tasks=first.tasks,
        cpus_per_task=first.cpus_per_task,
        memory_per_cpu_mib=ceil(first.memory_mib / first.cpus_per_task),
        features=partitions.feature,
        array=f"0-{len(jobs) - 1}" if len(jobs) > 1 else "",
        dependency=f"afterok:{depends_on}" if depends_on else "",
        time_limit_s=ceil(first.limit_s),
        requeue=True,
        work_dir="/",
        output=_output(jobs, folders),
        # A job that waits for one which failed would wait for ever.
        more=(f"--priority={NO_PRIORITY + first.priority}", "--kill-on-invalid-dep=yes"),
    )


def _script(jobs: Sequence[Job], folders: Folders) -> str:
    if len(jobs) == 1:
        return f"#!/bin/sh\nexec {_line(jobs[0], folders)}\n"
    cases = [f"{index}) exec {_line(job, folders)};;" for index, job in enumerate(jobs)]
    return "\n".join(["#!/bin/sh", 'case "$SLURM_ARRAY_TASK_ID" in', *cases, "esac", ""])


def _line(job: Job, folders: Folders) -> str:
    return shlex.join([*_launcher(job), *command(job, folders.programs, folders.records)])


def _launcher(job: Job) -> tuple[str, ...]:
    """The command that starts all tasks; one task alone is started by its batch script, as people do it."""
    if job.tasks == 1 and not uses_mpi(job):
        return ()
    return (
        "srun",
        f"--mpi={'pmix' if uses_mpi(job) else 'none'}",
        f"--ntasks={job.tasks}",
        # srun does not take it from the job, from 22.05 on.
        f"--cpus-per-task={job.cpus_per_task}",
        "--kill-on-bad-exit=1",
    )


def _output(jobs: Sequence[Job], folders: Folders) -> str:
    """The file of what programs print: kernels tell there what is wrong; the others' would be written for nothing."""
    if any(isinstance(job.program, RunKernel) for job in jobs):
        return str(folders.records / f"{jobs[0].name}.%j.out")
    return "/dev/null"
