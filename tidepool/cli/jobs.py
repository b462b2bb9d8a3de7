"""The jobs of a cluster that stand in the way of taking nodes away."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing

from tidepool.cli.cluster import Cluster
from tidepool.cli.errors import JOBS, NOT_THERE, USAGE, Failure
from tidepool.cli.stack import Stack
from tidepool.clients.slurm import Job, JobState, SlurmError
from tidepool.cluster.desired_state import node_set
from tidepool.cluster.hostlist import HostSet, expand
from tidepool.cluster.spec import ClusterSpec

#: A job in one of these has nodes.
_WITHOUT_NODES = frozenset({JobState.PENDING})


def jobs_by_node(jobs: Iterable[Job]) -> dict[str, list[int]]:
    """The ids of the jobs that have nodes, by node."""
    found: dict[str, list[int]] = {}
    for job in with_nodes(jobs):
        for node in expand(job.nodelist):
            found.setdefault(node, []).append(job.job_id)
    return found


def with_nodes(jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs that have nodes: they run, are suspended, or are completing."""
    return [
        job for job in jobs if job.nodelist and job.state not in _WITHOUT_NODES and not job.state.has_ended
    ]


def waiting(jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs that wait."""
    return [job for job in jobs if job.state is JobState.PENDING]


def in_the_way(jobs: Iterable[Job], leaving: Mapping[str, Collection[str]]) -> dict[str, list[int]]:
    """The ids of jobs that have one of the nodes which leave, by the reason why those leave."""
    running = jobs_by_node(jobs)
    found = {
        why: sorted({job for node in nodes for job in running.get(node, ())})
        for why, nodes in leaving.items()
    }
    return {why: ids for why, ids in found.items() if ids}


def ids_text(ids: Collection[int], most: int = 20) -> str:
    """``4711, 4712 and 30 more``."""
    ordered = sorted(set(ids))
    shown = ", ".join(map(str, ordered[:most]))
    return f"{shown} and {len(ordered) - most} more" if len(ordered) > most else shown


def leaving(cluster: Cluster, spec: ClusterSpec) -> dict[str, HostSet]:
    """The nodes that go with ``spec``, by the reason in words; the program makes the same sets (`node_set`).

    Raises:
        Failure: a node would have no slot any more.
    """
    fleets = {fleet.name: fleet for fleet in spec.fleets}
    found: dict[str, HostSet] = {}
    for name, nodes in sorted(cluster.fleets.items()):
        if name not in fleets:
            found[f"fleet {name} is not in the spec any more"] = HostSet(nodes)
            continue
        try:
            stay = node_set(fleets[name], last=nodes)
        except ValueError as error:
            raise Failure(
                f"fleet {name} has nodes, and the spec no place for them: {error}", code=USAGE
            ) from None
        if gone := HostSet(nodes) - stay:
            found[f"fleet {name} has fewer nodes in the spec"] = gone
    pools = {pool.name: pool for pool in spec.pools}
    for name, roles in sorted(cluster.pools.items()):
        there = HostSet(",".join(text for text in roles.values() if text))
        if name not in pools:
            found[f"pool {name} is not in the spec any more"] = there
        else:
            kept = HostSet.from_names(slot.node_name for slot in pools[name].slots())
            found[f"pool {name} has fewer machines in the spec"] = there - kept
    return {why: nodes for why, nodes in found.items() if nodes}


def refuse_lost_jobs(stack: Stack, cluster: Cluster, spec: ClusterSpec) -> None:
    """Refuse a spec without the nodes on which jobs run. Slurm is asked only where some would go.

    Raises:
        Failure: with the jobs' ids; or Slurm cannot be asked, and what is not known is not taken away.
    """
    going = leaving(cluster, spec)
    if not going:
        return
    try:
        jobs = ask_jobs(stack, cluster)
    except SlurmError as error:
        raise Failure(
            f"{'; '.join(going)}, and Slurm cannot be asked which jobs run there: {error.what} ({error.where})",
            remedy="`tidepool up` with the spec as it was mends the cluster; then take the fleet out",
            code=NOT_THERE,
        ) from error
    if lost := in_the_way(jobs, going):
        lines = [f"  {why}, and has the jobs {ids_text(ids)}" for why, ids in lost.items()]
        raise Failure(
            "\n".join(["jobs run on nodes that would go:", *lines]),
            remedy="`tidepool drain` the nodes and wait until the jobs have ended, or `scancel` them",
            code=JOBS,
        )


def ask_jobs(stack: Stack, cluster: Cluster) -> Sequence[Job]:
    """All jobs that have not ended.

    Raises:
        SlurmError: Slurm cannot be asked.
    """
    with closing(stack.context.open_slurm(cluster.controller, stack.data)) as slurm:
        return slurm.jobs()
