"""When a job that waits will begin at the latest, so that others may go before it without delaying it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from tidepool.clients.slurm.job import Job
from tidepool.clients.slurm.node import Node
from tidepool.simulation.slurm.placement import FreeResources, Need, has_features

_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Shadow:
    """A job will begin on ``nodes`` when what runs there has reached its time limit."""

    begins: datetime
    nodes: frozenset[str]


def shadow(
    wanted: Need,
    nodes: Iterable[Node],
    free_resources: Mapping[str, FreeResources],
    running: Mapping[int, Job],
) -> Shadow | None:
    """Return when and where a job with such needs will begin, given what runs; None where it fits on no nodes."""
    fit = [node for node in nodes if has_features(node, wanted.features) and _whole(node).fits(wanted, 0)]
    if len(fit) < wanted.nodes:
        return None
    free_at = sorted(
        (_free(free_resources.get(node.name), running), nodes_for) for nodes_for, node in enumerate(fit)
    )
    chosen = free_at[: wanted.nodes]
    if chosen[-1][0] == _NEVER:
        return None
    return Shadow(chosen[-1][0], frozenset(fit[nodes_for].name for _, nodes_for in chosen))


def _whole(node: Node) -> FreeResources:
    return FreeResources.of(node)


def _free(room: FreeResources | None, running: Mapping[int, Job]) -> datetime:
    ends = [_ends(running[job_id]) for job_id in room.shares] if room else []
    return max(ends, default=datetime.min.replace(tzinfo=UTC))


def _ends(job: Job) -> datetime:
    if job.start_time is None or job.time_limit_s is None:
        return _NEVER
    return job.start_time + timedelta(seconds=job.time_limit_s)
