"""The job that a request makes: as squeue shows it when it waits, before slurmctld has thought of nodes for it."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from tidepool.clients.slurm.job import Job, JobState
from tidepool.clients.slurm.quantities import tres
from tidepool.clients.slurm.request import JobRequest

#: The priority of the first job with priority/basic; each later one has one less.
FIRST_PRIORITY: Final = 4_294_901_761
_NO_TRES: Final = tres("")


def submitted(request: JobRequest, job_id: int, now: datetime, default_partition: str) -> Job:
    """The waiting job of ``request``."""
    nodes = int(request.nodes.partition("-")[0] or 1)
    tasks = request.tasks or nodes
    cpus = tasks * (request.cpus_per_task or 1)
    memory = request.memory_mib * nodes or request.memory_per_cpu_mib * cpus
    asked = [f"cpu={cpus}", f"node={nodes}", f"billing={cpus}"]
    asked += [f"mem={memory}M"] * (memory > 0)
    return Job(
        job_id=job_id,
        array_job_id=job_id,
        array_tasks=request.array,
        het_job_id=None,
        state=JobState.PENDING,
        reason="JobHeldUser" if request.hold else "None",
        partitions=tuple((request.partition or default_partition).split(",")),
        user=request.user or "root",
        qos=request.qos,
        nodes=nodes,
        max_nodes=int(request.nodes.partition("-")[2] or 0) or None,
        cpus=cpus,
        min_cpus_per_node=1,
        tasks=tasks,
        cpus_per_task=request.cpus_per_task or 1,
        min_memory_mib=request.memory_mib or request.memory_per_cpu_mib,
        tmp_disk_mib=0,
        features=request.features,
        tres=tres(",".join(asked)),
        tres_per_job=tres(f"gres:gpu:{request.gpus}") if request.gpus else _NO_TRES,
        tres_per_node=tres(",".join(f"gres:{part}" for part in request.gres.split(",") if part)),
        tres_per_socket=_NO_TRES,
        tres_per_task=_NO_TRES,
        licenses=tres(request.licenses),
        dependency=request.dependency,
        reservation=request.reservation,
        oversubscribe="NO" if request.exclusive else "OK",
        contiguous=request.contiguous,
        priority=0 if request.hold else FIRST_PRIORITY - job_id,
        time_limit_s=request.time_limit_s or None,
        submit_time=now,
        begin_time=request.begin or now,
        start_time=None,
        end_time=None,
        nodelist="",
        required_nodes="",
        batch=True,
        restarts=0,
        account=request.account,
        name=request.name or "sbatch",
    )
