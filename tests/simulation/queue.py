"""A queue of what departments submit beside plain jobs: arrays, held jobs, dependencies, reservations, licences."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from math import inf
from typing import Any

from tidepool.clients.slurm.job import Job, JobState
from tidepool.clients.slurm.request import JobRequest
from tidepool.clients.slurm.scontrol import Node, NodeFlag, NodeState, Reservation
from tidepool.cluster.hostlist import expand
from tidepool.simulation.slurm.queue import FakeQueue


class FullQueue(FakeQueue):
    """`FakeQueue` with all that jobs may ask for. ``licenses`` are not counted where they are not said."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.licenses: Mapping[str, int] | None = None
        self.completing_s: float = 0
        self.reservations: dict[str, Reservation] = {}
        self._tasks: dict[int, ArrayTasks] = {}
        self._of_array: dict[int, dict[int, None]] = {}
        self._is_waited_for = False

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let what is submitted within come at one moment: the scheduler looks when all of it is there."""
        self._is_waited_for = True
        try:
            yield
        finally:
            self._is_waited_for = False

    def add(self, job: Job, request: JobRequest, now: datetime) -> None:
        if job.array_tasks:
            self._tasks[job.job_id] = ArrayTasks(job.array_tasks)
        self._of_array.setdefault(job.array_job_id, {})[job.job_id] = None
        super().add(job, request, now)

    def records(self, job_id: int) -> list[Job]:
        """Return those of a job, or of an array."""
        records = super().records
        return [job for each in self._of_array.get(job_id, {job_id: None}) for job in records(each)]

    def change(self, job_id: int, **fields: object) -> None:
        """Change what a waiting job says: its priority, its reason."""
        self.waiting[job_id] = self.waiting[job_id]._replace(**fields)  # type: ignore[arg-type]
        self._order = None
        self.touch()

    def expire(self, job_id: int) -> None:
        job = self.ended.get(job_id) or self.waiting.get(job_id)
        super().expire(job_id)
        if job is None:
            return
        self._tasks.pop(job_id, None)
        of_array = self._of_array[job.array_job_id]
        of_array.pop(job_id, None)
        if not of_array:
            del self._of_array[job.array_job_id]

    def begin(self, job_id: int, names: tuple[str, ...], now: datetime) -> None:
        """Start a job, or the next task of its array, on these nodes."""
        tasks = self._tasks.get(job_id)
        if tasks is not None:
            job, task = self.waiting[job_id], str(tasks.pop())
            if len(tasks):
                self.waiting[job_id] = job._replace(array_tasks=str(tasks))
                request, wanted, job_id = self.requests[job_id], self.needs[job_id], self.next_id
                self.next_id += 1
                self.requests[job_id], self.needs[job_id] = request, wanted
                self._of_array[job.array_job_id][job_id] = None
            else:
                del self._tasks[job_id]
            self.waiting[job_id] = job._replace(job_id=job_id, array_tasks=task)
        super().begin(job_id, names, now)

    def limit_reached(self, job_id: int) -> str:
        tasks = self._tasks.get(job_id)
        if not tasks or tasks.most_at_once is None:
            return ""
        running = sum(each in self.running for each in self._of_array[self.waiting[job_id].array_job_id])
        return "JobArrayTaskLimit" if running >= tasks.most_at_once else ""

    def usable(self, nodes: Iterable[Node], job: Job, now: datetime) -> list[Node]:
        """Return those of ``nodes`` that are in a partition of ``job``, and that no reservation keeps from it."""
        barred: set[str] = set()
        ends = inf if job.time_limit_s is None else now.timestamp() + job.time_limit_s
        for kept in self.reservations.values():
            if job.reservation != kept.name and kept.end_time > now and ends > kept.start_time.timestamp():
                barred.update(expand(kept.nodes))
        own = self.reservations[job.reservation].nodes if job.reservation else ""
        among = set(expand(own)) if own else None
        return [
            node
            for node in super().usable(nodes, job, now)
            if node.name not in barred and (among is None or node.name in among)
        ]

    def _stop(self, job_id: int, now: datetime) -> Job:
        job = super()._stop(job_id, now)
        for name in expand(job.nodelist) if self.completing_s else ():
            self._complete(name, now)
        return job

    def _complete(self, name: str, now: datetime) -> None:
        def completed(_: datetime) -> None:
            if name in self._nodes:
                self._flags(name, self._nodes[name].state.flags - {NodeFlag.COMPLETING})
                self.touch()

        self._flags(name, self._nodes[name].state.flags | {NodeFlag.COMPLETING})
        self.at(now + timedelta(seconds=self.completing_s), completed)

    def _flags(self, name: str, flags: Iterable[str]) -> None:
        node = self._nodes[name]
        self._nodes[name] = node._replace(state=NodeState(node.state.base, frozenset(flags)))

    def _schedule(self, now: datetime) -> None:
        if not self._is_waited_for:
            super()._schedule(now)

    def _held_back(self, job: Job, now: datetime) -> str:
        if job.priority == 0:
            return job.reason if job.reason.startswith("JobHeld") else "JobHeldUser"
        reason = super()._held_back(job, now)
        if reason == "BeginTime":
            return reason
        for part in job.dependency.split(",") if job.dependency else ():
            others = [int(word) for word in part.split(":")[1:] if word.isdigit()]
            for other in others:
                records = self.records(other)
                if any(not record.state.has_ended for record in records):
                    return "Dependency"
                if part.startswith("afterok") and any(r.state is not JobState.COMPLETED for r in records):
                    return "DependencyNeverSatisfied"
        if job.reservation and not is_begun(self.reservations.get(job.reservation), now):
            return "Reservation"
        if not reason and job.licenses and self.licenses is not None:
            return "" if licensed(job, self.running, self.licenses) else "Licenses"
        return reason


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


class ArrayTasks:
    """Indices in their order, kept as ranges, for an array may have 100,000 of them."""

    def __init__(self, written: str) -> None:
        tasks, _, most = written.partition("%")
        self.most_at_once = int(most) if most else None
        self._ranges: deque[range] = deque(_ranges(tasks.split(",")))

    def __len__(self) -> int:
        return sum(map(len, self._ranges))

    def __str__(self) -> str:
        written = ",".join(map(_text, self._ranges))
        return written if self.most_at_once is None or not written else f"{written}%{self.most_at_once}"

    def pop(self) -> int:
        """The next index; it is none of them any more."""
        first = self._ranges.popleft()
        if len(first) > 1:
            self._ranges.appendleft(first[1:])
        return first[0]


def _ranges(parts: Iterable[str]) -> Iterable[range]:
    for part in parts:
        numbers, _, step = part.partition(":")
        first, _, last = numbers.partition("-")
        yield range(int(first), int(last or first) + 1, int(step or 1))


def _text(indices: range) -> str:
    if len(indices) == 1:
        return str(indices[0])
    step = "" if indices.step == 1 else f":{indices.step}"
    return f"{indices[0]}-{indices[-1]}{step}"
