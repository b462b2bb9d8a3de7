"""`Workload`: what a run does on its cluster, as a person says it in a file. Frozen, in all its parts.

`tidepool.runs.workload_reading` reads it, and tells of all mistakes at once. Words are those of sbatch's options.
"""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from tidepool.clients.slurm import JobRequest
from tidepool.clients.slurm.quantities import array_size
from tidepool.cluster.names import partition_name
from tidepool.cluster.part import Part, SlurmTime, Whole
from tidepool.cluster.shape import mebibytes
from tidepool.runs import workload_checks
from tidepool.runs.times import limit_s
from tidepool.runs.urls import PlainUrl

#: Slurm's option --dependency has them with ``after`` in front (sbatch(1)).
Ending = Literal["ok", "any", "notok", "corr"]

#: With a time behind it, it is a ClusterName, which has 40 characters.
_NAME: Final = re.compile(r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?")
_JOB: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_ARRAY: Final = re.compile(
    r"[0-9]+(-[0-9]+(:[1-9][0-9]*)?)?(,[0-9]+(-[0-9]+(:[1-9][0-9]*)?)?)*(%[1-9][0-9]*)?"
)
_GPUS: Final = re.compile(r"([A-Za-z][A-Za-z0-9_.-]*:)?[1-9][0-9]*")
_GRES: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*(:[A-Za-z][A-Za-z0-9_.-]*)?(:[1-9][0-9]*)?")


def run_name(name: str) -> str:
    """Return a name that begins those of runs: of stacks, clusters, and folders of results.

    Raises:
        ValueError: it cannot be one.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            "a workload's name is a small letter, then small letters, digits or '-', not '-' at the end, at most 20 characters"
        )
    return name


def _job_name(name: str) -> str:
    if not _JOB.fullmatch(name):
        raise ValueError(
            "a job's name is a letter or digit, then letters, digits, '.', '_' or '-', at most 63 characters"
        )
    return name


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or re.search(r"[\x00-\x1f\x7f\\]", path):
        raise ValueError(
            "write a path below the run's folder: no '/' in front, no '..', no control characters, no '\\'"
        )
    return str(PurePosixPath(path))


def _array(tasks: Any) -> Any:
    text = str(tasks)
    if isinstance(tasks, bool) or not _ARRAY.fullmatch(text):
        raise ValueError(
            "write tasks as sbatch does: 0-9, 1,3,5, 0-20:2, and how many at once: 0-99%8; in quotes"
        )
    if array_size(text) < 1:
        raise ValueError("there is no task in it; the first number of a range is not above the second")
    return text


def _matching(form: re.Pattern[str], forms: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        if isinstance(value, bool) or not form.fullmatch(str(value)):
            raise ValueError(forms)
        return str(value)

    return BeforeValidator(check)


def _limited(time: str) -> str:
    if limit_s(time) is None:
        raise ValueError("it has to end; write minutes, hours:minutes:seconds or days-hours")
    if not limit_s(time):
        raise ValueError("it is no time at all; write at least one minute: 1")
    return time


PathInside = Annotated[str, AfterValidator(_inside)]
"""A path below the run's folder."""
Memory = Annotated[Whole, BeforeValidator(mebibytes), Field(ge=1, le=2**40)]
Deadline = Annotated[SlurmTime, AfterValidator(_limited)]


class Input(Part):
    """A file that is there before the first job begins."""

    url: PlainUrl = Field(description="Where it comes from: `s3://BUCKET/KEY`, `file:///PATH`.")
    path: PathInside = Field(description="Where it goes, below the run's folder.")


class After(Part):
    """Another job that comes before, and how it has to end for this one to begin."""

    job: str = Field(description="The other job's name.")
    ends: Ending = Field(
        default="ok",
        description="`ok`: all of it succeeded; `notok`: it failed; `any`; `corr`: of two arrays, task by task.",
    )


def _read_after(value: Any) -> Any:
    return {"job": value} if isinstance(value, str) else value


class WorkloadJob(Part):
    """A batch job, or an array of them. What is not said is Slurm's default."""

    name: Annotated[str, AfterValidator(_job_name)] = Field(
        description="Its name, in the workload and in Slurm."
    )
    script: str | None = Field(
        default=None,
        min_length=1,
        description="The batch script: a file beside the workload's, or, where it begins with `#!`, the script itself.",
    )
    command: tuple[str, ...] = Field(
        default=(), description="In place of a script, one command and its arguments; no shell reads them."
    )
    array: Annotated[str, BeforeValidator(_array)] | None = Field(
        default=None, description="The tasks of an array: `0-9`, `0-99%8`."
    )
    after: tuple[Annotated[After, BeforeValidator(_read_after)], ...] = Field(
        default=(), description="Jobs that come before: names, or names with how they have to end."
    )
    nodes: Whole = Field(
        default=0, ge=0, le=65_536, description="Nodes. By default as many as its tasks need."
    )
    tasks: Whole = Field(default=0, ge=0, le=2**20, description="Tasks (ranks). By default one on each node.")
    cpus_per_task: Whole = Field(default=0, ge=0, le=65_533, description="CPUs of each task; one by default.")
    memory_mib: Memory | None = Field(
        default=None,
        validation_alias="memory",
        description="Memory on each node, in MiB or with a unit; all of it by default.",
    )
    memory_per_cpu_mib: Memory | None = Field(
        default=None, validation_alias="memory_per_cpu", description="Memory for each CPU, in its place."
    )
    gpus: Annotated[str, _matching(_GPUS, "write COUNT or TYPE:COUNT, such as 2 or a100:2")] | None = Field(
        default=None, description="GPUs of the whole job: `2`, `a100:2`."
    )
    gres: tuple[
        Annotated[str, _matching(_GRES, "write NAME, NAME:COUNT or NAME:TYPE:COUNT, such as gpu:a100:2")], ...
    ] = Field(default=(), description="Generic resources on each node: `[gpu:a100:2]`.")
    features: str = Field(default="", description="Features of its nodes, as --constraint has them.")
    partition: Annotated[str, AfterValidator(partition_name)] | None = Field(
        default=None, description="The partition; the cluster's default where none is said."
    )
    account: str = Field(default="", description="The account that it counts for.")
    qos: str = Field(default="", description="The quality of service.")
    time: Deadline | None = Field(
        default=None, description="The longest that it may run: `30`, `1:30:00`, `2-12`."
    )
    exclusive: bool = Field(default=False, description="Whether it has its nodes to itself.")

    @model_validator(mode="after")
    def _says_what_runs(self) -> Self:
        if (self.script is None) == (not self.command):
            raise ValueError(
                f"job {self.name}: write a `script`, or a `command` with its arguments, and not both"
            )
        if self.memory_mib is not None and self.memory_per_cpu_mib is not None:
            raise ValueError(f"job {self.name}: write `memory` for a node or `memory_per_cpu`, and not both")
        if any(after.ends == "corr" for after in self.after) and self.array is None:
            raise ValueError(
                f"job {self.name}: `corr` is of two arrays, and this job is none; write `ok`, or an `array`"
            )
        return self

    @property
    def script_file(self) -> str | None:
        """The file that its script is in; None where the script is here, or there is a command."""
        return None if self.script is None or self.script.startswith("#!") else self.script

    @property
    def text(self) -> str:
        """The batch script, where it is no file any more."""
        assert self.script_file is None, f"the script of job {self.name} was not read"
        return self.script if self.script is not None else f"#!/bin/sh\nexec {shlex.join(self.command)}\n"

    @property
    def size(self) -> int:
        """Count its tasks as an array; 1 where it is none."""
        return array_size(self.array or "")

    def request(
        self,
        *,
        user: str,
        work_dir: str,
        output: str,
        dependency: str = "",
        grace_s: int = 0,
        hold: bool = False,
    ) -> JobRequest:
        """Return it as sbatch takes it. ``grace_s``: where its time ends, it hears SIGTERM so many seconds before."""
        return JobRequest(
            script=self.text,
            name=self.name,
            partition=self.partition or "",
            account=self.account,
            qos=self.qos,
            user=user,
            nodes=str(self.nodes or ""),
            tasks=self.tasks,
            cpus_per_task=self.cpus_per_task,
            memory_mib=self.memory_mib or 0,
            memory_per_cpu_mib=self.memory_per_cpu_mib or 0,
            features=self.features,
            gres=",".join(self.gres),
            gpus=self.gpus or "",
            array=self.array or "",
            dependency=dependency,
            time_limit_s=(limit_s(self.time) or 0) if self.time else 0,
            exclusive=self.exclusive,
            hold=hold,
            # A machine that goes takes no job with it.
            requeue=True,
            work_dir=work_dir,
            output=output,
            more=(f"--signal=B:TERM@{grace_s}",) if grace_s and self.time else (),
        )


class Workload(Part):
    """Work of a run: files to it, jobs, files from it, and when it ends whatever happens."""

    name: Annotated[str, AfterValidator(run_name)] = Field(
        description="What its runs are called, with a number behind it."
    )
    user: str | None = Field(
        default=None, description="The cluster's user whose jobs they are; the first of the spec by default."
    )
    first_boot: str | None = Field(
        default=None,
        description="A script that root runs on each node when it boots for the first time, before jobs: the name of a file "
        "beside this one, or the script itself, `#!` first. The spec's own is replaced.",
    )
    inputs: tuple[Input, ...] = Field(
        default=(), description="Files that are there before the first job begins."
    )
    jobs: tuple[WorkloadJob, ...] = Field(min_length=1, description="The jobs. Their order does not matter.")
    outputs: tuple[PathInside, ...] = Field(
        default=(),
        description="Results, by globs below the run's folder: `out/*.h5`, `**/*.log`. Each matches something.",
    )
    deadline: Deadline | None = Field(
        default=None,
        description="How long the run takes at most, from its beginning; then jobs end, and what is there is kept.",
    )
    budget_usd: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="What its machines may cost, in US dollars, by the prices of the spec; then as at the deadline.",
    )
    grace_s: Whole = Field(
        default=60, ge=0, le=3600, description="How long jobs have, in seconds, from SIGTERM to their end."
    )

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        if found := workload_checks.disagreements(self.model_dump()):
            raise ValueError("\n".join(map(str, found)))
        return self

    def job(self, name: str) -> WorkloadJob:
        return {job.name: job for job in self.jobs}[name]

    @property
    def in_order(self) -> tuple[WorkloadJob, ...]:
        """The jobs, each behind those that come before it; else as a person wrote them."""
        found: dict[str, WorkloadJob] = {}
        left = list(self.jobs)
        while left:
            ready = next(job for job in left if all(after.job in found for after in job.after))
            found[ready.name] = ready
            left.remove(ready)
        return tuple(found.values())
