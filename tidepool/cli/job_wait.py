"""Jobs before a `down`: nobody loses one who did not say so."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final

import click

from tidepool.cli import show
from tidepool.cli.errors import JOBS, NOT_THERE, Failure
from tidepool.cli.stack import Stack

if TYPE_CHECKING:
    from tidepool.cli.cluster import Cluster
    from tidepool.cli.remote_infrastructure import Named
    from tidepool.clients.slurm import Job, SlurmClient

#: Slurm itself gives a cancelled job 30 s (KillWait) before it is killed.
_CANCEL_S: Final = 90.0
_LOOK_S: Final = 0.1


def settle_jobs(stack: Stack, outputs: dict[str, object], named: Named, cancel: bool, yes: bool) -> bool:
    """Whether to go on: then there are no jobs, or it is not known, and the person wants it regardless.

    Raises:
        Failure: jobs run or wait, and are not to be cancelled; or Slurm does not say whether there are some.
    """
    from tidepool.cli.cluster import parse_outputs
    from tidepool.cli.job_guard import ask_jobs
    from tidepool.clients.slurm import SlurmError

    if "controller" not in outputs:
        return True
    cluster = parse_outputs(stack.name, outputs)
    try:
        jobs = ask_jobs(stack, cluster)
        if not jobs:
            return True
        if not cancel:
            raise _in_the_way(jobs)
        # Before the engine asks whether to go on, which would be too late for the jobs.
        if not yes and not click.confirm(f"{_told(jobs)}. Cancel them, and take the cluster down?", err=True):
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
    """Whether a machine runs, so that there may be jobs; or may run, where one cannot be asked."""
    from tidepool.cli.remote_infrastructure import look_elsewhere
    from tidepool.infrastructures.local.kernel import list_machines

    if any(machine.state == "running" for machine in list_machines(stack.data, stack.name)):
        return True
    there = look_elsewhere(stack, named) if named else None
    return there is not None and (
        bool(there.silent) or any(machine.state == "running" for machine in there.machines)
    )


def _in_the_way(jobs: Sequence[Job]) -> Failure:
    return Failure(
        f"the cluster has jobs, which would be lost; {_told(jobs)}",
        remedy="wait until they have ended (`tidepool status`), or cancel them: `tidepool down --force`",
        code=JOBS,
    )


def _told(jobs: Sequence[Job]) -> str:
    """``running: 1, 2; waiting: 3``."""
    from tidepool.cli.jobs import ids_text, waiting, with_nodes

    kinds = (("running", with_nodes(jobs)), ("waiting", waiting(jobs)))
    told = [f"{what}: {ids_text([job.job_id for job in some])}" for what, some in kinds if some]
    return "; ".join(told) or f"jobs: {ids_text([job.job_id for job in jobs])}"


def _cancel_all(stack: Stack, cluster: Cluster, jobs: Sequence[Job]) -> None:
    """Cancel all jobs, and wait for some time until the last has left its nodes.

    Raises:
        SlurmError: Slurm cannot be asked, or refuses.
    """
    from tidepool.cli.jobs import ids_text
    from tidepool.clients.slurm import NotFound

    pause, deadline = threading.Event(), time.monotonic() + _CANCEL_S
    with closing(stack.world.open_slurm(cluster.controller, stack.data)) as slurm:
        # An array is cancelled as one.
        ids = sorted({job.array_job_id or job.job_id for job in jobs})
        show.tell(f"cancelling the jobs {ids_text(ids)}")
        for job_id in ids:
            try:
                slurm.cancel(job_id)
            except NotFound:
                pass  # it ended meanwhile
        while left := _not_ended(slurm):
            if time.monotonic() > deadline:
                show.warn(
                    f"{left}: cancelled {_CANCEL_S:g} s ago, and not ended; they end with their machines"
                )
                return
            pause.wait(_LOOK_S)


def _not_ended(slurm: SlurmClient) -> str:
    """The jobs that are there, else the nodes that are at the end of one: those are busy a little longer."""
    from tidepool.cli.jobs import ids_text
    from tidepool.clients.slurm import NodeFlag
    from tidepool.cluster.hostlist import fold

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
