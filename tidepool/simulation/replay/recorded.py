"""The jobs that the daemon itself saw go by, from its journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidepool.scaling.ports import JobRecord
from tidepool.simulation.replay.trace import Broken, Trace, TracedJob, TraceError


def read_recorded(jobs: Sequence[JobRecord]) -> Trace:
    """The trace of ``jobs``. Those that have not ended yet are counted as not run.

    Raises:
        TraceError: there are none.
    """
    if not jobs:
        raise TraceError("the journal holds no jobs; the daemon writes down those that it sees")
    begin = min(job.submitted for job in jobs)
    traced: list[TracedJob] = []
    broken: list[Broken] = []
    not_run = 0
    for place, job in enumerate(jobs, 1):
        if job.started is None or job.ended is None:
            not_run += 1
            continue
        try:
            traced.append(_job(job, (job.submitted - begin).total_seconds()))
        except (KeyError, TypeError, ValueError) as error:
            broken.append(Broken(place, f"job {job.job_id} cannot be read: {error!r}"))
    traced.sort(key=lambda job: job.submit_s)
    return Trace(begin, tuple(traced), tuple(broken), not_run)


def _job(job: JobRecord, submit_s: float) -> TracedJob:
    assert job.started is not None
    assert job.ended is not None
    asked = job.request
    nodes, cpus = int(asked.get("nodes", 1)), int(asked.get("cpus", 1))
    memory = int(asked.get("min_memory_mib", 0))
    limit = asked.get("time_limit_s")
    whole = _mib(asked.get("tres", {}))
    per_cpu = whole is not None and memory > 0 and whole == memory * cpus and whole != memory * nodes
    return TracedJob(
        name=str(job.job_id),
        submit_s=submit_s,
        run_s=max((job.ended - job.started).total_seconds(), 0.001),
        cpus=cpus,
        nodes=nodes,
        memory_per_cpu_mib=memory if per_cpu else 0,
        memory_per_node_mib=0 if per_cpu else memory,
        time_limit_s=None if limit is None else int(limit),
        partition=",".join(asked.get("partitions", ())),
        features=str(asked.get("features", "")),
        gres=_gres(asked, nodes),
        account=str(asked.get("account", "")),
        exclusive=asked.get("oversubscribe") == "NO",
    )


def _mib(tres: Any) -> int | None:
    from tidepool.clients.slurm.quantities import memory_mib

    return memory_mib(str(tres["mem"])) if "mem" in tres else None


def _gres(asked: Any, nodes: int) -> str:
    """Return what each node has to have, as ``--gres`` says it."""
    for key, times in (("tres_per_node", 1), ("tres_per_job", nodes), ("tres_per_task", 1)):
        parts = []
        for name, count in (asked.get(key) or {}).items():
            if name.startswith("gres/"):
                parts.append(f"{name[5:]}:{-(-int(count) // max(times, 1))}")
        if parts:
            return ",".join(parts)
    return ""
