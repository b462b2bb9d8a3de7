"""Figures of a replay. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: Jobs that are shorter count as so long, so that slowdown is not ruled by jobs of a second.
SHORTEST_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Ran:
    """One job that ended: how long it waited and ran, on how many CPUs."""

    wait_s: float
    run_s: float
    cpus: int


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a replay.

    ``bounded_slowdown`` is the mean of (wait + run) / run, with a run of 10 s at least. ``utilisation`` is the share
    of the machines' CPU time that jobs had, boots included. ``left_waiting`` are jobs that nothing will ever run.
    """

    jobs: int
    left_waiting: int
    requeued: int
    wait_mean_s: float
    wait_p50_s: float
    wait_p95_s: float
    wait_max_s: float
    bounded_slowdown: float
    span_s: float
    machines_started: int
    node_hours: float
    cost_usd: float
    utilisation: float
    simulated_s: float = 0
    took_s: float = 0


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value that ``share`` of the values do not exceed; 0 where there are none. ``ordered`` ascends."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def figures(
    ran: Sequence[Ran],
    *,
    left_waiting: int,
    requeued: int,
    span_s: float,
    machines_started: int,
    node_s: float,
    node_cpu_s: float,
    cost_usd: float,
    simulated_s: float = 0,
    took_s: float = 0,
) -> Figures:
    """The figures of jobs that ran, and of machines that ran for so many seconds in all."""
    waits = sorted(job.wait_s for job in ran)
    slowdowns = [max(1.0, (job.wait_s + job.run_s) / max(job.run_s, SHORTEST_S)) for job in ran]
    used_cpu_s = sum(job.run_s * job.cpus for job in ran)
    count = max(len(ran), 1)
    return Figures(
        jobs=len(ran),
        left_waiting=left_waiting,
        requeued=requeued,
        wait_mean_s=sum(waits) / count,
        wait_p50_s=quantile(waits, 0.5),
        wait_p95_s=quantile(waits, 0.95),
        wait_max_s=waits[-1] if waits else 0.0,
        bounded_slowdown=sum(slowdowns) / count,
        span_s=span_s,
        machines_started=machines_started,
        node_hours=node_s / 3600,
        cost_usd=cost_usd,
        utilisation=used_cpu_s / node_cpu_s if node_cpu_s else 0.0,
        simulated_s=simulated_s,
        took_s=took_s,
    )
