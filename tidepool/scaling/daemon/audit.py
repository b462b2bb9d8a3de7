"""Records that the leader writes for people, beside its own: the last look, charts, jobs as they went by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from tidepool.clients.slurm import JobState
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decision import Decision
from tidepool.scaling.ports import JobRecord, LeaderJournal, Lease, Sample, Trouble

#: While something changes, and while nothing does.
_SAMPLE_S: Final = (0.5, 30.0)
_PRUNE_S: Final = 3600.0
#: Older decisions and jobs are forgotten.
_KEPT: Final = timedelta(days=14)
#: What of a job says what it asks for.
_ASKED: Final = (
    "name",
    "array_job_id",
    "partitions",
    "user",
    "account",
    "qos",
    "nodes",
    "max_nodes",
    "cpus",
    "min_cpus_per_node",
    "tasks",
    "cpus_per_task",
    "min_memory_mib",
    "tmp_disk_mib",
    "features",
    "tres",
    "tres_per_job",
    "tres_per_node",
    "tres_per_socket",
    "tres_per_task",
    "licenses",
    "oversubscribe",
    "contiguous",
    "time_limit_s",
)


class Audit:
    """Writes to ``journal`` what has changed since it wrote last."""

    def __init__(self, journal: LeaderJournal, monotonic_s: Callable[[], float]) -> None:
        self._journal = journal
        self._monotonic_s = monotonic_s
        self._sampled: tuple[Any, ...] | None = None
        self._sampled_at_s = float("-inf")
        self._pruned_at_s = monotonic_s()
        #: None: what another leader wrote last is not known yet.
        self._running: dict[int, JobRecord] | None = None
        self._trouble: Trouble | None = None
        self._is_new = True

    def looked(self, lease: Lease, state: ClusterState, decision: Decision) -> None:
        """A look, and what was made of it."""
        self._journal.looked(lease, state, decision)
        self._sample(lease, state, decision)
        self._saw(lease, state)
        now_s = self._monotonic_s()
        if now_s - self._pruned_at_s >= _PRUNE_S:
            self._pruned_at_s = now_s
            self._journal.prune(lease, state.at - _KEPT)

    def troubled(self, lease: Lease, complaints: Iterable[str], at: datetime) -> None:
        """Write down what it complains of, or that it complains of nothing."""
        told = tuple(complaints)
        if not self._is_new and told == (self._trouble.complaints if self._trouble else ()):
            return
        since = self._trouble.since if self._trouble else at
        trouble = Trouble(since, told) if told else None
        self._journal.troubled(lease, trouble)
        self._trouble, self._is_new = trouble, False

    def _sample(self, lease: Lease, state: ClusterState, decision: Decision) -> None:
        pending = sum(job.size for job in state.jobs if job.state is JobState.PENDING)
        running = sum(job.state is not JobState.PENDING for job in state.jobs)
        nodes = Counter(view.phase for view in decision.nodes.values())
        roles = Counter(f"{view.pool}/{view.role or ''}" for view in decision.machines.values())
        pods = len(decision.waiting_pods)
        now_s, counts = self._monotonic_s(), (pending, running, nodes, roles, pods)
        least_s, most_s = _SAMPLE_S
        if now_s - self._sampled_at_s < (least_s if counts != self._sampled else most_s):
            return
        self._journal.sample(
            lease,
            Sample(state.at, pending, running, dict(nodes), decision.cost.usd_per_hour, dict(roles), pods),
        )
        # Not before: one that could not be written is due at the next look.
        self._sampled, self._sampled_at_s = counts, now_s

    def _saw(self, lease: Lease, state: ClusterState) -> None:
        if self._running is None:
            # Some of them may have ended while nobody looked.
            known = self._journal.jobs(state.at - _KEPT)
            self._running = {job.job_id: job for job in known if job.ended is None}
        running, new = {}, []
        for job in state.jobs:
            if job.state is JobState.PENDING or not job.start_time:
                continue
            seen = self._running.get(job.job_id)
            if seen is None or seen.started != job.start_time:
                request = {name: getattr(job, name) for name in _ASKED}
                seen = JobRecord(job.job_id, job.submit_time or state.at, job.start_time, None, request)
                new.append(seen)
            running[job.job_id] = seen
        gone = [replace(seen, ended=state.at) for id, seen in self._running.items() if id not in running]
        if new or gone:
            self._journal.saw(lease, [*gone, *new])
        self._running = running
