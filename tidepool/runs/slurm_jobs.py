"""The jobs of a run in its cluster's Slurm: known there by their names and their user, for the cluster is the run's alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from tidepool.clients.slurm import Job, JobState, SlurmClient
from tidepool.clients.slurm.contract import NotFound, PermissionDenied, SlurmError
from tidepool.clients.slurm.contract import Refused as SlurmRefused
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import expand, fold
from tidepool.runs.ports import Refused, RunError
from tidepool.runs.record import JOB_ENDED, JobStanding, RunJob
from tidepool.runs.workload import Workload, WorkloadJob

_HELD: Final = "JobHeld"
_NEVER: Final = "DependencyNeverSatisfied"


class SlurmJobs:
    """The jobs of ``workload``, submitted by root for ``user``, in the run's folder ``work_dir``.

    Slurm has to remember all of them as long as the cluster lives, by a long ``MinJobAge``. Its ``KillWait`` is the run's grace.
    """

    def __init__(self, slurm: SlurmClient, workload: Workload, user: str, work_dir: str) -> None:
        self._slurm, self._workload, self._user, self._work_dir = slurm, workload, user, work_dir

    def see(self) -> tuple[RunJob, ...]:
        with _explained():
            found = self._of_run()
        return tuple(_run_job(name, min(ids), ids[min(ids)]) for name, ids in found.items())

    def submit(self, name: str, ids: Mapping[str, int]) -> int:
        job = self._workload.job(name)
        request = job.request(
            user=self._user,
            work_dir=self._work_dir,
            output=f"{name}-%A_%a.out" if job.array else f"{name}-%j.out",
            dependency=_dependency(job, ids),
            grace_s=self._workload.grace_s,
            hold=True,
        )
        with _explained():
            return self._slurm.submit(request).job_id

    def release(self, ids: Collection[int]) -> None:
        with _explained():
            # One whose answer was lost may have come twice: nobody waits for the later.
            for jobs in self._of_run().values():
                for later in sorted(jobs)[1:]:
                    self._slurm.cancel(later)
            for id in ids:
                self._slurm.release(id)

    def stop(self, ids: Collection[int]) -> None:
        with _explained():
            for id in ids:
                try:
                    self._slurm.cancel(id)
                except NotFound:
                    continue

    def _of_run(self) -> Mapping[str, Mapping[int, Sequence[Job]]]:
        """By name and by id, the records of each job of the run that Slurm knows, ended or not."""
        names = {job.name for job in self._workload.jobs}
        found: dict[str, dict[int, list[Job]]] = {}
        for job in self._slurm.jobs(tuple(JobState)):
            if job.name in names and job.user == self._user:
                found.setdefault(job.name, {}).setdefault(job.array_job_id, []).append(job)
        return found


def _dependency(job: WorkloadJob, ids: Mapping[str, int]) -> str:
    return ",".join(f"after{after.ends}:{ids[after.job]}" for after in job.after)


def _run_job(name: str, id: int, records: Sequence[Job]) -> RunJob:
    standing = _standing(records)
    found = RunJob(name, id, standing, _text(standing, records))
    return replace(found, accounting=_accounting(records)) if standing in JOB_ENDED else found


def _text(standing: JobStanding, records: Sequence[Job]) -> str:
    """Say what a job waits for, or in which states its tasks are."""
    if standing in ("waiting", "never"):
        return next(job.reason for job in records if job.state is JobState.PENDING)
    if standing in ("held", "succeeded"):
        return ""
    counts = Counter[JobState]()
    for job in records:
        counts[job.state] += job.size if job.state is JobState.PENDING else 1
    if counts.total() == 1:
        return str(records[0].state)
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))


def _accounting(records: Sequence[Job]) -> Mapping[str, str]:
    """Return what a job had, all of its tasks together, by sacct's names; nothing where it never ran.

    Times are in UTC. It is slurmctld's, which needs no database.
    """
    ran = [
        (job, job.start_time, job.end_time)
        for job in records
        if job.start_time is not None and job.end_time is not None and job.nodelist
    ]
    if not ran:
        return FrozenDict()
    elapsed = [((end - begin).total_seconds(), job.cpus) for job, begin, end in ran]
    return FrozenDict(
        {
            "Start": min(begin for _, begin, _ in ran).isoformat(),
            "End": max(end for _, _, end in ran).isoformat(),
            "NodeList": fold({name for job, _, _ in ran for name in expand(job.nodelist)}),
            "ElapsedRaw": f"{sum(seconds for seconds, _ in elapsed):.0f}",
            "CPUTimeRAW": f"{sum(seconds * cpus for seconds, cpus in elapsed):.0f}",
        }
    )


def _standing(records: Sequence[Job]) -> JobStanding:
    """Return the standing of a job, or of all records of an array together."""
    if all(job.state.has_ended for job in records):
        bad = {job.state for job in records} - {JobState.COMPLETED}
        if not bad:
            return "succeeded"
        return "cancelled" if bad == {JobState.CANCELLED} else "failed"
    waiting = [job for job in records if job.state is JobState.PENDING]
    if not waiting or len(waiting) < len(records):
        # Of an array whose first tasks have run, the rest may be past help: those are seen when no other runs.
        others = [job for job in records if job.state is not JobState.PENDING and not job.state.has_ended]
        if others or not waiting:
            return "running"
    if any(job.reason == _NEVER for job in waiting):
        return "never"
    return "held" if all(job.reason.startswith(_HELD) for job in waiting) else "waiting"


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except (NotFound, PermissionDenied) as error:
        raise RunError(str(error)) from error
    except SlurmRefused as error:
        # What Slurm says no to is not asked again: a job that it does not take.
        raise Refused(str(error)) from error
    except SlurmError as error:
        raise RunError(str(error)) from error
