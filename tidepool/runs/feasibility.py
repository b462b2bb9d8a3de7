"""Why a workload cannot run on a cluster, by the scaler's own reasons: each job is put to it alone, on a cluster without a node.

So what is told here is what `tidepool why` would tell of the job when all of it had been made for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final

from tidepool.clients.slurm import Job, Partition, PartitionState
from tidepool.clients.slurm.quantities import array_indices
from tidepool.clients.slurm.submission import submitted
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec import Partition as SpecPartition
from tidepool.cluster.spec_entries import Mistake, nearest
from tidepool.cluster.users import RESEARCHER
from tidepool.runs.times import limit_s
from tidepool.runs.workload import Workload, WorkloadJob
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.budget import books
from tidepool.scaling.decide.grow import grow
from tidepool.scaling.decide.limits import limits
from tidepool.scaling.decide.packing.launch_limits import Spare
from tidepool.scaling.decide.reconcile import reconcile
from tidepool.scaling.memory import Memory

#: Slurm's MaxArraySize, where slurm.conf does not say another: indices are below it.
_ARRAY_SIZE: Final = 1001
#: Of the scaler's words: no node would help, limits forbid it, Slurm would not start it.
_NEVER: Final = frozenset({"never", "limit", "held"})


def obstacles(workload: Workload, spec: ClusterSpec, at: datetime) -> tuple[Mistake, ...]:
    """Return all by which the workload could never end well on a new cluster of ``spec``; ``at`` is now."""
    return (*_user(workload, spec), *_budget(workload, spec), *_jobs(workload, spec, at))


def user_of(workload: Workload, spec: ClusterSpec) -> str:
    """Return the user whose jobs they are."""
    if workload.user is not None:
        return workload.user
    return spec.users[0].name if spec.users else RESEARCHER.name


def _user(workload: Workload, spec: ClusterSpec) -> Iterator[Mistake]:
    if spec.directory is not None:
        if workload.user is None and not spec.users:
            yield Mistake(
                "user",
                None,
                "missing, and the cluster's users are in a directory; name the one whose jobs they are",
            )
        return
    known = [user.name for user in spec.users] or [RESEARCHER.name]
    if workload.user is not None and workload.user not in known:
        yield Mistake("user", workload.user, f"the cluster has no such user; {nearest(workload.user, known)}")


def _budget(workload: Workload, spec: ClusterSpec) -> Iterator[Mistake]:
    prices = [entry.price_usd_per_hour for fleet in spec.fleets for entry in fleet.infrastructures]
    if workload.budget_usd is not None and not any(
        [*prices, spec.controller.infrastructure.price_usd_per_hour]
    ):
        yield Mistake(
            "budget_usd",
            workload.budget_usd,
            "no machine of the spec has a price, so it would never be reached; give infrastructures a price_usd_per_hour, or a deadline",
        )


def _jobs(workload: Workload, spec: ClusterSpec, at: datetime) -> Iterator[Mistake]:
    default = next((each.name for each in spec.partitions if each.default), "")
    if len(spec.partitions) == 1:
        default = spec.partitions[0].name
    partitions = [each.name for each in spec.partitions]
    accounts = [each.name for each in spec.accounts]
    qualities = ["normal", *(each.name for each in spec.qos)]
    most = next(
        (int(value) for key, value in spec.slurm_conf.items() if key.lower() == "maxarraysize"), _ARRAY_SIZE
    )
    for i, job in enumerate(workload.jobs):
        path = f"jobs[{i}]"
        named = job.partition or default
        if not named:
            yield Mistake(
                f"{path}.partition",
                None,
                f"missing, and the cluster has no default; known here: {', '.join(partitions)}",
            )
        elif named not in partitions:
            yield Mistake(
                f"{path}.partition", named, f"the cluster has none of that name; {nearest(named, partitions)}"
            )
        if job.account and accounts and job.account not in accounts:
            yield Mistake(
                f"{path}.account",
                job.account,
                f"the cluster has none of that name; {nearest(job.account, accounts)}",
            )
        if job.qos and job.qos not in qualities:
            yield Mistake(
                f"{path}.qos", job.qos, f"the cluster has none of that name; {nearest(job.qos, qualities)}"
            )
        if job.array and (last := max(array_indices(job.array))) >= most:
            yield Mistake(
                f"{path}.array", job.array, f"task {last} is beyond Slurm's {most - 1} (MaxArraySize)"
            )
        if named in partitions and (reason := _reason(job, named, spec, at)):
            yield Mistake(path, job.name, f"can never run on this cluster: {reason}")


def _reason(job: WorkloadJob, partition: str, spec: ClusterSpec, at: datetime) -> str:
    """Return why no cluster of ``spec`` ever runs the job; empty where one does."""
    record = _waiting(job, partition, at)
    state = ClusterState(at, spec, (), (record,), tuple(_partition(each) for each in spec.partitions))
    memory = Memory()
    # A slurmctld that is there would list the slots of all fleets.
    reconciled = replace(reconcile(state, memory), blind=frozenset())
    allowance = limits(spec, at, memory, reconciled, books(state, memory, reconciled), {})
    spare = {
        pool.name: Spare(
            tuple(slot.node_name for slot in pool.slots())[: pool.most("slurm")], "all of its machines have"
        )
        for pool in spec.pools
    }
    found = grow(state, memory, {}, allowance, spare=spare).waiting[record.job_id]
    return found.reason if found.standing in _NEVER else ""


def _waiting(job: WorkloadJob, partition: str, at: datetime) -> Job:
    """Return the first of its tasks as squeue would show it, with nothing before it."""
    request = replace(job.request(user="", work_dir="", output=""), array="", partition=partition)
    found = submitted(request, 1, at, partition)
    # slurmctld thinks of a number of nodes where none is said; more than one says that it may.
    return found if job.nodes or found.tasks == 1 else found._replace(nodes=found.tasks)


def _partition(partition: SpecPartition) -> Partition:
    """Return a partition as Slurm will show it when it is there."""
    said = {key.lower(): str(value) for key, value in partition.options.items()}
    most = said.get("maxnodes", "")
    return Partition(
        name=partition.name,
        state=PartitionState.UP,
        is_default=partition.default,
        nodes="",
        total_nodes=0,
        total_cpus=0,
        max_time_s=limit_s(partition.max_time),
        default_time_s=None,
        max_nodes=int(most) if most.isdecimal() else None,
        priority_tier=int(said.get("prioritytier", "1")),
        oversubscribe=said.get("oversubscribe", "NO"),
        allow_accounts=(),
        tres=FrozenDict(),
    )
