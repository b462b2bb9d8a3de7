"""What is asked before a cluster changes: would jobs be lost?"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from tidepool.cli.cluster import Cluster
from tidepool.cli.errors import JOBS, NOT_THERE, Failure
from tidepool.cli.jobs import ids_text, in_the_way
from tidepool.cli.stack import Stack
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.slots import fleet_and_number
from tidepool.cluster.spec import ClusterSpec
from tidepool.slurm import Job, SlurmError


def leaving(cluster: Cluster, spec: ClusterSpec) -> dict[str, frozenset[str]]:
    """The nodes that ``spec`` has no place for any more, by the reason in words."""
    most = {fleet.name: fleet.max_nodes for fleet in spec.fleets}
    found: dict[str, frozenset[str]] = {}
    for name in sorted({*(cluster.fleets or {}), *(cluster.slots or {})}):
        nodes = HostSet((cluster.slots or {}).get(name) or "") | HostSet(
            (cluster.fleets or {}).get(name) or ""
        )
        if name not in most:
            found[f"fleet {name} is not in the spec any more"] = frozenset(nodes)
        elif beyond := frozenset(node for node in nodes if fleet_and_number(node)[1] > most[name]):
            found[f"max_nodes of fleet {name} is {most[name]} now"] = beyond
    return found


def refuse_lost_jobs(stack: Stack, cluster: Cluster, spec: ClusterSpec) -> None:
    """Refuse a spec without the nodes on which jobs run. Slurm is asked only where some would go.

    Raises:
        Failure: with the jobs' ids; or Slurm cannot be asked, and what is not known is not taken away.
    """
    going = leaving(cluster, spec)
    if not any(going.values()):
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
    with closing(stack.world.open_slurm(cluster.controller, stack.data)) as slurm:
        return slurm.jobs()
