"""Which jobs stand in the way of taking nodes away."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tidepool.clients.slurm import Job, JobState
from tidepool.cluster.hostlist import expand

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
    """Those that have nodes: they run, are suspended, or are completing."""
    return [
        job for job in jobs if job.nodelist and job.state not in _WITHOUT_NODES and not job.state.has_ended
    ]


def waiting(jobs: Iterable[Job]) -> list[Job]:
    """Those that wait."""
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
