"""Obstacles of the fake's jobs on nodes that are free: partitions, reservations, licences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from math import inf

from tidepool.clients.slurm.job import Job
from tidepool.clients.slurm.node import Node
from tidepool.clients.slurm.reservation import Reservation
from tidepool.cluster.hostlist import expand


def is_begun(reservation: Reservation | None, now: datetime) -> bool:
    """Return whether jobs of a reservation may run."""
    return reservation is not None and reservation.start_time <= now < reservation.end_time


def licensed(job: Job, running: Mapping[int, Job], licenses: Mapping[str, int]) -> bool:
    """Return whether there are as many licences as ``job`` asks for, beside those of ``running``."""
    used: dict[str, int] = {}
    for other in running.values():
        for name, amount in other.licenses.items():
            used[name] = used.get(name, 0) + int(amount)
    return all(
        used.get(name, 0) + int(amount) <= licenses.get(name, 0) for name, amount in job.licenses.items()
    )


def usable(
    nodes: Iterable[Node],
    job: Job,
    now: datetime,
    reservations: Mapping[str, Reservation],
    in_partition: Callable[[Node, str], bool],
) -> list[Node]:
    """Return those of ``nodes`` that are in a partition of ``job``, and that no reservation keeps from it."""
    barred: set[str] = set()
    ends = inf if job.time_limit_s is None else now.timestamp() + job.time_limit_s
    for kept in reservations.values():
        if job.reservation != kept.name and kept.end_time > now and ends > kept.start_time.timestamp():
            barred.update(expand(kept.nodes))
    own = reservations[job.reservation].nodes if job.reservation else ""
    among = set(expand(own)) if own else None
    return [
        node
        for node in nodes
        if any(in_partition(node, name) for name in job.partitions)
        and node.name not in barred
        and (among is None or node.name in among)
    ]
