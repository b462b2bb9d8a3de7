"""The request of one job, in Slurm's words made numbers. Equal asks are equal values, so that they can be counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidepool.clients.slurm import Job
from tidepool.clients.slurm.quantities import memory_mib

Gres = tuple[tuple[str, str, int], ...]
"""Name, type (or empty) and count, in order."""


class Ask(NamedTuple):
    """One task of an array, or a job without one.

    ``nodes`` is the least number; ``spreads``: Slurm may take more, and takes as few as its tasks need.
    ``threads_per_core`` is how many threads of a core it uses, and ``tasks_per_node`` the most on a node: 0 where that
    is open. Memory is for each node or for each CPU; where
    both are 0 it takes all memory of its nodes. ``sole`` is empty where it shares nodes with others, ``job`` where it
    does not, else with whom it does (``user:jane``). ``account`` is empty but for accounts with a cap.
    """

    partitions: tuple[str, ...]
    nodes: int
    spreads: bool
    tasks: int
    cpus_per_task: int
    threads_per_core: int
    tasks_per_node: int
    min_cpus_per_node: int
    memory_per_node_mib: int
    memory_per_cpu_mib: int
    gres_per_job: Gres
    gres_per_node: Gres
    gres_per_socket: Gres
    gres_per_task: Gres
    tmp_disk_mib: int
    features: str
    sole: str
    contiguous: bool
    required_nodes: str
    reservation: str
    time_limit_s: int | None
    account: str

    @property
    def has_gres(self) -> bool:
        """Return whether it asks for any gres."""
        return bool(self.gres_per_job or self.gres_per_node or self.gres_per_socket or self.gres_per_task)


def ask_of(job: Job, *, account: bool = False) -> Ask:
    """Return the request of a waiting job. ``account`` says whether whose job it is matters."""
    # Where slurmctld has thought of a number of nodes by itself, TRES have the least that was asked for.
    nodes = max(1, int(job.tres.get("node", job.nodes)))
    tasks = max(job.tasks, nodes)
    for_gpus = job.gpus if job.cpus_per_tres or job.memory_per_tres else 0
    cpus = max(job.cpus, for_gpus * int(job.cpus_per_tres.get("gres/gpu", 0)))
    cpus_per_task = max(job.cpus_per_task, -(-cpus // tasks), 1)
    per_node_mib, per_cpu_mib = _memory(job, nodes, for_gpus)
    tasks_per_node = 0
    if job.min_cpus_per_node > cpus_per_task:
        most = job.min_cpus_per_node // cpus_per_task
        # `--ntasks-per-node` shows in both; `--mincpus` alone would not make it so many nodes.
        tasks_per_node = most if -(-tasks // most) == job.nodes else 0
    return Ask(
        partitions=job.partitions,
        nodes=nodes,
        spreads=job.nodes > nodes,
        tasks=tasks,
        cpus_per_task=cpus_per_task,
        threads_per_core=job.threads_per_core or 0,
        tasks_per_node=tasks_per_node,
        min_cpus_per_node=job.min_cpus_per_node,
        memory_per_node_mib=per_node_mib,
        memory_per_cpu_mib=per_cpu_mib,
        gres_per_job=_gres(job.tres_per_job),
        gres_per_node=_gres(job.tres_per_node),
        gres_per_socket=_gres(job.tres_per_socket),
        gres_per_task=_gres(job.tres_per_task),
        tmp_disk_mib=job.tmp_disk_mib,
        features=job.features,
        sole=_sole(job),
        contiguous=job.contiguous and nodes > 1,
        required_nodes=job.required_nodes,
        reservation=job.reservation,
        time_limit_s=job.time_limit_s,
        account=job.account if account else "",
    )


def _sole(job: Job) -> str:
    match job.oversubscribe:
        case "NO":
            return "job"
        case "USER":
            return f"user:{job.user}"
        case "MCS":
            # Whose label it has is not told: it is taken for alone.
            return "job"
        case _:
            return ""


def _memory(job: Job, nodes: int, for_gpus: int) -> tuple[int, int]:
    """MiB for each node, and for each CPU: one of them, or none."""
    if "gres/gpu" in job.memory_per_tres:
        return -(-for_gpus * memory_mib(job.memory_per_tres["gres/gpu"]) // nodes), 0
    per_cpu = job.min_memory_mib * job.cpus
    if job.memory_mib == per_cpu != job.min_memory_mib * nodes:
        return 0, job.min_memory_mib
    return job.min_memory_mib, 0


def _gres(counts: Mapping[str, str]) -> Gres:
    """``{"gres/gpu:a100": "2"}`` is ``(("gpu", "a100", 2),)``."""
    found = []
    for name, count in counts.items():
        if name.startswith("gres/"):
            kind, _, type = name.removeprefix("gres/").partition(":")
            found.append((kind, type, int(count)))
    return tuple(sorted(found))
