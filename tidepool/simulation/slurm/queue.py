"""The fake's queue: which jobs wait, which run where, and the scheduler that starts them.

Time goes by in `advance`: what was to happen by then happens at its own moment, in order. The scheduler runs only
when something has changed that could let a job start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Final

from tidepool.clients.slurm.job import Job, JobState
from tidepool.clients.slurm.request import JobRequest
from tidepool.clients.slurm.scontrol import Node, NodeBase, NodeState
from tidepool.clients.slurm.submission import FIRST_PRIORITY
from tidepool.cluster.hostlist import expand
from tidepool.simulation.slurm.placement import (
    FreeResources,
    Need,
    Shadow,
    need,
    nodes_for,
    shadow,
)

_UP: Final = frozenset({NodeBase.IDLE, NodeBase.MIXED, NodeBase.ALLOCATED})
#: Slurm looks at no more of the waiting jobs at a time (default_queue_depth).
_DEPTH: Final = 1000


class FakeQueue:
    """Jobs, and ``nodes``, which it shares with whoever owns it: it writes what jobs take of them.

    ``in_partition`` tells whether a node is in a partition; ``seconds`` how long a job runs once it began.
    ``backfill`` lets later jobs start where they delay no earlier one; without, a job that waits holds back all
    behind it in its partition.
    """

    def __init__(
        self,
        nodes: dict[str, Node],
        seconds: Callable[[JobRequest], float],
        in_partition: Callable[[Node, str], bool],
        *,
        requeue_s: float = 1,
        remember_s: float = inf,
        backfill: bool = True,
    ) -> None:
        self.waiting: dict[int, Job] = {}
        self.running: dict[int, Job] = {}
        self.ended: dict[int, Job] = {}
        self.requests: dict[int, JobRequest] = {}
        self.next_id = 1
        #: What is free, by node; what jobs ask of each of their nodes; and whether later ones may start before earlier ones.
        self.free_resources: dict[str, FreeResources] = {}
        self.needs: dict[int, Need] = {}
        self.backfills = backfill
        #: How often something has changed.
        self.changes = 0
        #: Told of each job that begins and that ends.
        self.began: Callable[[Job], None] = lambda _: None
        self.finished: Callable[[Job], None] = lambda _: None
        #: How many nodes there are, slots too, that could hold a share of a job with such needs.
        self.most_nodes: Callable[[Job, Need], int] = lambda _, wanted: wanted.nodes
        self._nodes = nodes
        self._seconds = seconds
        self._in_partition = in_partition
        self._requeue_s = requeue_s
        self._remember_s = remember_s
        self._timers: list[tuple[datetime, int, Callable[[datetime], None]]] = []
        self._numbers = count()
        self._dead: set[str] = set()
        self._order: list[int] | None = None
        self._changed = False

    # Time

    def at(self, moment: datetime, happens: Callable[[datetime], None]) -> None:
        heappush(self._timers, (moment, next(self._numbers), happens))

    def next_moment(self) -> datetime | None:
        return self._timers[0][0] if self._timers else None

    def advance(self, now: datetime) -> None:
        """Let happen what was to happen by ``now``, and start what can start."""
        while self._timers and self._timers[0][0] <= now:
            moment, _, happens = heappop(self._timers)
            happens(moment)
            if not self._timers or self._timers[0][0] > moment:
                self._schedule(moment)
        self._schedule(now)

    def touch(self) -> None:
        """A node or a job has changed: the scheduler is to look again."""
        self._changed = True
        self.changes += 1

    # Jobs

    def add(self, job: Job, request: JobRequest, now: datetime) -> None:
        self.next_id = max(self.next_id, job.job_id + 1)
        self.requests[job.job_id] = request
        self.needs[job.job_id] = need(job)
        self.waiting[job.job_id] = job
        self._order = None
        if job.begin_time is not None and job.begin_time > now:
            self.at(job.begin_time, lambda _: self.touch())
        self.touch()

    def records(self, job_id: int) -> list[Job]:
        return [jobs[job_id] for jobs in (self.waiting, self.running, self.ended) if job_id in jobs]

    def end(self, job_id: int, state: JobState, now: datetime) -> None:
        """A job ends, whether it runs or waits."""
        job = self.waiting.pop(job_id, None) or self._stop(job_id, now)
        self.ended[job_id] = job._replace(state=state, reason="", end_time=now)
        self.touch()
        if self._remember_s < inf:
            self.at(now + timedelta(seconds=self._remember_s), lambda _: self.expire(job_id))
        self.finished(self.ended[job_id])

    def release(self, job_id: int) -> None:
        """A job that is held waits its turn."""
        job = self.waiting.get(job_id)
        if job is not None and not job.priority:
            self.waiting[job_id] = job._replace(priority=FIRST_PRIORITY - job_id, reason="None")
            self._order = None
            self.touch()

    def put_back(self, job_id: int, now: datetime, otherwise: JobState) -> None:
        """A running job is put back into the queue; it ends as ``otherwise`` where it is not to be requeued."""
        if self.requests[job_id].requeue is False:
            self.end(job_id, otherwise, now)
            return
        # Slurm lets a requeued job wait for the old one's end to be known everywhere.
        begin = now + timedelta(seconds=self._requeue_s)
        job = self._stop(job_id, now)
        self.waiting[job_id] = job._replace(
            state=JobState.PENDING,
            reason="BeginTime",
            begin_time=begin,
            start_time=None,
            end_time=None,
            nodelist="",
            restarts=job.restarts + 1,
        )
        self._order = None
        self.at(begin, lambda _: self.touch())
        self.touch()

    def expire(self, job_id: int) -> None:
        """Slurm remembers ended jobs for a while only (MinJobAge)."""
        if self.ended.pop(job_id, None) or self.waiting.pop(job_id, None):
            del self.requests[job_id], self.needs[job_id]

    # Nodes

    def on(self, name: str) -> list[int]:
        """The jobs that have a part of a node."""
        room = self.free_resources.get(name)
        return list(room.shares) if room else []

    def die(self, name: str) -> None:
        """A machine is gone without a word: its jobs seem to run on, and do not end."""
        self._dead.add(name)

    def live(self, name: str, now: datetime) -> None:
        """A machine answers (again), with the jobs that it had."""
        self._dead.discard(name)
        for job_id in self.on(name):
            self._end_in_time(self.running[job_id], now)
        self.touch()

    def is_dead(self, name: str) -> bool:
        return name in self._dead

    def new_shape(self, name: str) -> None:
        """A node was declared, or is another now."""
        self.free_resources.pop(name, None)
        self._dead.discard(name)

    # Inside

    def _stop(self, job_id: int, now: datetime) -> Job:
        job = self.running.pop(job_id)
        for name in expand(job.nodelist):
            self.free_resources[name].give_back(job_id)
            self._nodes[name] = self._nodes[name]._replace(last_busy_time=now)
            self._show(name)
        return job

    def _show(self, name: str) -> None:
        node, room = self._nodes[name], self.free_resources[name]
        cpus = node.cpus - room.cpus
        base = node.state.base
        if base in _UP:
            base = NodeBase.IDLE
            if room.shares:
                base = NodeBase.ALLOCATED if cpus >= node.cpus else NodeBase.MIXED
        self._nodes[name] = node._replace(
            state=NodeState(base, node.state.flags),
            cpus_alloc=cpus,
            memory_alloc_mib=node.memory_mib - room.memory_mib,
        )

    def _schedule(self, now: datetime) -> None:
        if not self._changed:
            return
        self._changed = False
        if not self.waiting:
            return
        if self._order is None:
            self._order = sorted(self.waiting, key=lambda job_id: (-self.waiting[job_id].priority, job_id))
        open_nodes = [
            node
            for node in self._nodes.values()
            if node.state.base in _UP and node.state.base is not NodeBase.ALLOCATED and node.state.takes_jobs
        ]
        for node in open_nodes:
            if node.name not in self.free_resources:
                self.free_resources[node.name] = FreeResources.of(node)
        a_pass = _Pass(self, now, open_nodes)
        for job_id in self._order[:_DEPTH]:
            if job_id in self.waiting:
                reason = self._held_back(self.waiting[job_id], now) or a_pass.reason_after_starting(job_id)
                job = self.waiting.get(job_id)
                if job is not None and job.reason != reason:
                    self.waiting[job_id] = job._replace(reason=reason)
        self._order = [job_id for job_id in self._order if job_id in self.waiting]

    def _held_back(self, job: Job, now: datetime) -> str:
        """Slurm's word for what keeps ``job`` from starting even on free nodes; empty for nothing."""
        if job.begin_time is not None and job.begin_time > now:
            return "BeginTime"
        wanted = self.needs[job.job_id]
        # It holds back nobody, as other jobs that wait do.
        return "PartitionNodeLimit" if self.most_nodes(job, wanted) < wanted.nodes else ""

    def begin(self, job_id: int, names: tuple[str, ...], now: datetime) -> None:
        wanted = self.needs[job_id]
        started = self.waiting.pop(job_id)._replace(
            state=JobState.RUNNING, reason="None", start_time=now, nodelist=",".join(names)
        )
        self.running[job_id] = started
        self.changes += 1
        for name in names:
            self.free_resources[name].take(job_id, wanted, self._nodes[name])
            self._show(name)
        self._end_in_time(started, now)
        self.began(started)

    def _end_in_time(self, job: Job, now: datetime) -> None:
        assert job.start_time is not None
        start = job.start_time
        runs_s = self._seconds(self.requests[job.job_id])
        limit_s = inf if job.time_limit_s is None else job.time_limit_s
        if min(runs_s, limit_s) == inf:
            return

        def over(moment: datetime) -> None:
            known = self.running.get(job.job_id)
            if known is None or known.start_time != start:
                return
            if any(map(self.is_dead, expand(known.nodelist))):
                return
            state = JobState.COMPLETED if runs_s <= limit_s else JobState.TIMEOUT
            self.end(job.job_id, state, moment)

        self.at(max(now, start + timedelta(seconds=min(runs_s, limit_s))), over)

    def limit_reached(self, job_id: int) -> str:
        """Slurm's word for why no more of a job may begin beside what runs of it; empty for nothing."""
        return ""

    def usable(self, nodes: Iterable[Node], job: Job, now: datetime) -> list[Node]:
        """Return those of ``nodes`` that are in a partition of ``job``."""
        return [node for node in nodes if any(self._in_partition(node, name) for name in job.partitions)]

    def shadow(self, job_id: int, now: datetime) -> Shadow | None:
        """When, and where, a job that waits will begin at the latest."""
        job, wanted = self.waiting[job_id], self.needs[job_id]
        up = [node for node in self._nodes.values() if node.state.takes_jobs]
        return shadow(wanted, self.usable(up, job, now), self.free_resources, self.running)


class _Pass:
    """One look of the scheduler at the queue, in the order of priority."""

    def __init__(self, queue: FakeQueue, now: datetime, open_nodes: list[Node]) -> None:
        self._queue = queue
        self._now = now
        self._open = open_nodes
        self._candidates: dict[tuple[object, ...], list[Node]] = {}
        self._hopeless: set[tuple[Need, int | None]] = set()
        self._blocked: set[str] = set()
        self._shadow: Shadow | None = None

    def reason_after_starting(self, job_id: int) -> str:
        """Start the job, or as many tasks of its array as fit; why it, or what is left of it, waits."""
        queue, job = self._queue, self._queue.waiting[job_id]
        if not queue.backfills and self._blocked.intersection(job.partitions):
            return "Priority"
        wanted = queue.needs[job_id]
        if (wanted, job.time_limit_s) in self._hopeless:
            return self._block(job_id, job)
        while job_id in queue.waiting:
            if reason := queue.limit_reached(job_id):
                return reason
            candidates = self._candidates_for(job)
            names = nodes_for(
                wanted, candidates, queue.free_resources, lambda node: self._delays_nobody(node, job)
            )
            if not names:
                self._hopeless.add((wanted, job.time_limit_s))
                return self._block(job_id, job)
            queue.begin(job_id, names, self._now)
            if not any(queue.free_resources[name].cpus for name in names):
                taken = set(names)
                candidates[:] = [node for node in candidates if node.name not in taken]
        return ""

    def _candidates_for(self, job: Job) -> list[Node]:
        key = (job.partitions, job.reservation, job.time_limit_s)
        if key not in self._candidates:
            self._candidates[key] = self._queue.usable(self._open, job, self._now)
        return self._candidates[key]

    def _block(self, job_id: int, job: Job) -> str:
        first = not self._blocked
        self._blocked.update(job.partitions)
        if first and self._queue.backfills and self._open:
            self._shadow = self._queue.shadow(job_id, self._now)
        return "Resources" if first else "Priority"

    def _delays_nobody(self, node: Node, job: Job) -> bool:
        if self._shadow is None or node.name not in self._shadow.nodes:
            return True
        limit_s = job.time_limit_s
        return limit_s is not None and self._now + timedelta(seconds=limit_s) <= self._shadow.begins
