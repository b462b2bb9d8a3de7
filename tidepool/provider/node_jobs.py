"""The jobs that nodes run. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tidepool.clients.slurm import Job, JobState
from tidepool.cluster.hostlist import expand


def job_ids(jobs: Iterable[Job], nodes: Collection[str]) -> tuple[int, ...]:
    """The ids of the jobs that have one of ``nodes``, in order."""
    found = {
        job.job_id
        for job in jobs
        if job.state is not JobState.PENDING and any(name in nodes for name in expand(job.nodelist))
    }
    return tuple(sorted(found))
