"""The jobs of a cluster that stand in the way of taking nodes away, or all of it; and their end, where a person wants that."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final, TypeVar

import click

from tidepool.cli import show
from tidepool.cli.cluster import Cluster, parse_outputs
from tidepool.cli.errors import JOBS, NOT_THERE, USAGE, Failure
from tidepool.cli.stack import Stack
from tidepool.clients.slurm import Job, JobState, NodeFlag, NotFound, SlurmClient, SlurmError
from tidepool.cluster.desired_state import node_set
from tidepool.cluster.hostlist import HostSet, expand, fold
from tidepool.cluster.spec import ClusterSpec

if TYPE_CHECKING:
    from tidepool.cli.remote_infrastructure import Named

_Left = TypeVar("_Left")


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
        job for job in jobs if job.nodelist and job.state is not JobState.PENDING and not job.state.has_ended
    ]


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
    return show.first(sorted(set(ids)), most)


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
    """Return the jobs that have not ended.

    Raises:
        SlurmError: Slurm cannot be asked.
    """
    with closing(stack.open_slurm(cluster.controller)) as slurm:
        return slurm.jobs()


#: Slurm itself gives a cancelled job 30 s (KillWait) before it is killed.
_CANCEL_S: Final = 90.0
_LOOK_S: Final = 0.1


def end_jobs(stack: Stack, outputs: dict[str, object], named: Named, cancel: bool, yes: bool) -> bool:
    """Return whether to go on: there are no jobs, or it is not known, and the person wants it all the same.

    Raises:
        Failure: jobs run or wait, and are not to be cancelled; or Slurm does not say whether there are some.
    """
    if "controller" not in outputs:
        return True
    cluster = parse_outputs(stack.name, outputs)
    try:
        jobs = ask_jobs(stack, cluster)
        if not jobs:
            return True
        if not cancel:
            raise Failure(
                f"the cluster has jobs, which would be lost; {_describe_jobs(jobs)}",
                remedy="wait until they have ended (`tidepool status`), or cancel them: `tidepool down --force`",
                code=JOBS,
            )
        # Before the engine asks whether to go on, which would be too late for the jobs.
        if not yes and not click.confirm(
            f"{_describe_jobs(jobs)}. Cancel them, and take the cluster down?", err=True
        ):
            return False
        _cancel_all(stack, cluster, jobs)
    except SlurmError as error:
        if not cancel and _may_run(stack, named):
            raise Failure(
                f"Slurm cannot be asked whether jobs run: {error.what} ({error.where})",
                remedy="`tidepool up` mends the cluster; `tidepool down --force` takes it down regardless",
                code=NOT_THERE,
            ) from error
        show.warn(f"Slurm cannot be asked whether jobs run, so it is not known which are lost: {error.what}")
    return True


def _may_run(stack: Stack, named: Named) -> bool:
    """Return whether a machine runs, so that there may be jobs; or may run, where an infrastructure cannot be asked."""
    from tidepool.cli.remote_infrastructure import observe_remote
    from tidepool.infrastructures.local.kernel import list_machines
    from tidepool.infrastructures.machines import DEAD

    if any(machine.state == "running" for machine in list_machines(stack.data, stack.name)):
        return True
    there = observe_remote(stack, named)
    return bool(there.silent) or any(machine.state not in DEAD for machine in there.machines)


def _describe_jobs(jobs: Sequence[Job]) -> str:
    """``running: 1, 2; waiting: 3``."""
    waiting = [job for job in jobs if job.state is JobState.PENDING]
    kinds = (("running", with_nodes(jobs)), ("waiting", waiting))
    told = [f"{what}: {ids_text([job.job_id for job in some])}" for what, some in kinds if some]
    return "; ".join(told) or f"jobs: {ids_text([job.job_id for job in jobs])}"


def _cancel_all(stack: Stack, cluster: Cluster, jobs: Sequence[Job]) -> None:
    """Cancel all jobs, and wait for some time until the last has left its nodes.

    Raises:
        SlurmError: Slurm cannot be asked, or refuses.
    """
    with closing(stack.open_slurm(cluster.controller)) as slurm:
        # An array is cancelled as one.
        ids = sorted({job.array_job_id or job.job_id for job in jobs})
        show.tell(f"cancelling the jobs {ids_text(ids)}")
        for job_id in ids:
            try:
                slurm.cancel(job_id)
            except NotFound:
                pass  # it ended meanwhile
        if left := wait_until_none(lambda: _not_ended(slurm), _CANCEL_S):
            show.warn(f"{left}: cancelled {_CANCEL_S:g} s ago, and not ended; they end with their machines")


def wait_until_none(look: Callable[[], _Left], timeout_s: float) -> _Left:
    """Look until nothing is left, for ``timeout_s`` at most; gives what is left then."""
    deadline = time.monotonic() + timeout_s
    while (left := look()) and time.monotonic() <= deadline:
        time.sleep(_LOOK_S)
    return left


def _not_ended(slurm: SlurmClient) -> str:
    """The jobs that are there, else the nodes that are at the end of one: those are busy a little longer."""
    if jobs := slurm.jobs():
        return f"jobs {ids_text([job.job_id for job in jobs])}"
    # ALLOCATED alone says nothing: slurmctld 22.05 counts jobs twice when it is reconfigured while they run. And one
    # that does not answer would be waited for in vain.
    busy = [
        node.name
        for node in slurm.nodes()
        if (node.cpus_alloc or NodeFlag.COMPLETING in node.state.flags)
        and NodeFlag.NOT_RESPONDING not in node.state.flags
    ]
    return f"jobs on {fold(busy)}" if busy else ""
