"""Replay of a trace in the simulated cluster, and the figures of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from tidepool.clients.slurm import Job, Refused
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decide.remember import remember
from tidepool.scaling.ports import Sample
from tidepool.simulation.cluster import SimulatedCluster, Speeds, simulated_scaler
from tidepool.simulation.replay.trace import Trace, fitted

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


def figures_of(ran: Sequence[Ran], *, node_s: float, node_cpu_s: float, **others: Any) -> Figures:
    """Return the figures of jobs that ran, and of machines that ran for so many seconds in all; ``others`` as they are."""
    waits = sorted(job.wait_s for job in ran)
    slowdowns = [max(1.0, (job.wait_s + job.run_s) / max(job.run_s, SHORTEST_S)) for job in ran]
    used_cpu_s = sum(job.run_s * job.cpus for job in ran)
    count = max(len(ran), 1)
    return Figures(
        jobs=len(ran),
        wait_mean_s=sum(waits) / count,
        wait_p50_s=quantile(waits, 0.5),
        wait_p95_s=quantile(waits, 0.95),
        wait_max_s=waits[-1] if waits else 0.0,
        bounded_slowdown=sum(slowdowns) / count,
        node_hours=node_s / 3600,
        utilisation=used_cpu_s / node_cpu_s if node_cpu_s else 0.0,
        **others,
    )


#: What is left after the last job came is given up after so long without any job that begins or ends.
_STANDSTILL: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Replayed:
    """The outcome of a trace under a spec. ``refused`` are jobs that Slurm would not take, with its words."""

    figures: Figures
    samples: tuple[Sample, ...]
    refused: dict[str, str]


def replay(
    trace: Trace,
    spec: ClusterSpec,
    *,
    backfill: bool = True,
    progress: Callable[[float], None] = lambda _: None,
) -> Replayed:
    """Submit the jobs of ``trace`` when they were submitted, and let the scaler work.

    Things take as long as on this machine, and the scaler looks every 15 s of simulated time. ``progress`` is told what
    share of the jobs has come.
    """
    return _Run(trace, spec, backfill).outcome(progress)


class _Run:
    def __init__(self, trace: Trace, spec: ClusterSpec, backfill: bool) -> None:
        self._trace = trace
        self._spec = spec
        speeds = Speeds(look=15, echoes=False)
        self._cluster = SimulatedCluster(spec, start=trace.begin, speeds=speeds, backfill=backfill)
        self._cluster.slurm.queue.began = self._began
        self._cluster.slurm.queue.finished = self._finished
        self._cluster.run_scaler(lambda: simulated_scaler(self._cluster, decide=decide, remember=remember))
        self._ran: list[Ran] = []
        self._requeued = 0
        self._came = 0
        self._refused: dict[str, str] = {}
        self._last = trace.begin

    def outcome(self, progress: Callable[[float], None]) -> Replayed:
        began_s = time.perf_counter()
        cluster, jobs = self._cluster, self._trace.jobs
        self._submit(0, progress)
        last = self._trace.begin + timedelta(seconds=jobs[-1].submit_s)
        floors = sum(fleet.min_nodes for fleet in self._spec.fleets)

        def is_over() -> bool:
            now, queue = cluster.clock.true, cluster.slurm.queue
            if self._came < len(jobs) or queue.running:
                return False
            if now - max(self._last, last) >= _STANDSTILL:
                return True
            # Floors are there for ever.
            return not queue.waiting and len(cluster.machines.running()) <= floors

        cluster.run(until=is_over)
        cluster.machines.settle()
        bills = cluster.machines.bills
        cpus = {fleet.name: fleet.shape.cpus for fleet in self._spec.fleets}
        found = figures_of(
            self._ran,
            left_waiting=sum(job.size for job in cluster.slurm.queue.waiting.values()),
            requeued=self._requeued,
            span_s=(self._last - self._trace.begin).total_seconds(),
            machines_started=sum(bill.made for bill in bills.values()),
            node_s=sum(bill.node_s for bill in bills.values()),
            node_cpu_s=sum(bill.node_s * cpus.get(fleet, 0) for fleet, bill in bills.items()),
            cost_usd=sum(bill.usd for bill in bills.values()),
            simulated_s=(cluster.clock.true - self._trace.begin).total_seconds(),
            took_s=time.perf_counter() - began_s,
        )
        return Replayed(found, cluster.journal.samples(), self._refused)

    def _submit(self, place: int, progress: Callable[[float], None]) -> None:
        """The job at ``place`` comes at its time, and then the one after it."""
        jobs = self._trace.jobs
        if place == len(jobs):
            return
        job = jobs[place]

        def comes() -> None:
            self._came += 1
            try:
                self._cluster.submit(fitted(job, self._spec))
            except Refused as error:
                self._refused[job.name] = error.words
            if place % 256 == 0:
                progress(place / len(jobs))
            self._submit(place + 1, progress)

        self._cluster.clock.at(self._trace.begin + timedelta(seconds=job.submit_s), comes)

    def _began(self, job: Job) -> None:
        self._last = self._cluster.clock.true
        self._requeued += job.restarts > 0

    def _finished(self, job: Job) -> None:
        self._last = self._cluster.clock.true
        if job.start_time is None or job.submit_time is None or job.end_time is None:
            return
        wait_s = (job.start_time - job.submit_time).total_seconds()
        self._ran.append(Ran(wait_s, (job.end_time - job.start_time).total_seconds(), job.cpus))
