"""Jobs as Flux takes them: jobspecs of version 1 (Flux RFC 25), and urgencies. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

from tidepool.lab.programs.command import command
from tidepool.lab.workload import Job, RunKernel

#: Of a job that asks for none; 0 holds a job, and 31 is more than the order of a queue: it overrules plugins.
_DEFAULT_URGENCY: Final = 16
_URGENCIES: Final = (1, 30)
_ENVIRONMENT: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}


def jobspec(job: Job, programs: PurePath, records: PurePath) -> Mapping[str, Any]:
    """Return the jobspec of a job without what it waits for: a slot of cores for each task, on whatever machines.

    Memory is not in it: flux-core's own scheduler allots cores and no memory, and refuses jobs that ask for it.
    """
    output = {"type": "file", "path": _output(job, records)}
    return {
        "version": 1,
        "resources": [
            {
                "type": "slot",
                "count": job.tasks,
                "label": "task",
                "with": [{"type": "core", "count": job.cpus_per_task}],
            }
        ],
        "tasks": [
            {"command": list(command(job, programs, records)), "slot": "task", "count": {"per_slot": 1}}
        ],
        "attributes": {
            "system": {
                "duration": job.limit_s,
                "cwd": "/",
                "environment": dict(_ENVIRONMENT),
                "job": {"name": job.name},
                "shell": {
                    "options": {
                        # Each task on its own cores, as under Slurm.
                        "cpu-affinity": "per-task",
                        "output": {"stdout": output, "stderr": output},
                    }
                },
            }
        },
    }


def urgency(job: Job) -> int:
    """Return the urgency that puts a job's priority in Flux's order: 16 and the priority, from 1 to 30.

    Priorities beyond 14 are alike to Flux, which has no more steps.
    """
    lowest, highest = _URGENCIES
    return min(highest, max(lowest, _DEFAULT_URGENCY + job.priority))


def _output(job: Job, records: PurePath) -> str:
    """The file of what programs print, without which Flux would keep it: kernels tell there what is wrong, others print nothing."""
    return (
        str(records / f"{job.name}.{{{{id.dec}}}}.out") if isinstance(job.program, RunKernel) else "/dev/null"
    )
