"""The jobs that nodes run. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Final

from tidepool.cluster.hostlist import expand
from tidepool.slurm import Job, JobState

#: Slurm tells when a job began by the whole second before.
_SECOND: Final = timedelta(seconds=1)


def job_ids(jobs: Iterable[Job], nodes: Collection[str]) -> tuple[int, ...]:
    """The ids of the jobs that have one of ``nodes``, in order."""
    found = {
        job.job_id
        for job in jobs
        if job.state is not JobState.PENDING and any(name in nodes for name in expand(job.nodelist))
    }
    return tuple(sorted(found))


def began_before(jobs: Iterable[Job], node: str, moment: datetime) -> tuple[int, ...]:
    """The ids of the jobs that have ``node`` and surely began before ``moment``."""
    before = (job for job in jobs if job.start_time is not None and job.start_time + _SECOND <= moment)
    return job_ids(before, {node})
