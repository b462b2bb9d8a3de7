"""`FakeScheduler`: keeps the contract in memory, by a clock that tests hurry up; its processes leave the records that real ones write."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidepool.lab.errors import SchedulerFailed
from tidepool.lab.schedulers.contract import JobState, Pause
from tidepool.lab.trial import Clock
from tidepool.lab.workload import Compute, Job, Sleep

FEATURES = frozenset({"gang", "array", "dependencies", "priority"})


def hurried(pace: float = 0.02) -> Clock:
    """A clock that begins now, and whose second is a fiftieth of ours."""
    began, since = time.time(), time.monotonic()
    return Clock(lambda: began + (time.monotonic() - since) / pace, pace)


@dataclass
class _Run:
    job: Job
    slots: list[tuple[int, int]]
    started: float
    ends: float
    attempt: int


@dataclass
class FakeScheduler:
    """First come, first served within a priority, on machines with processors.

    ``records`` maps the folder that `begin` is told to where it is here; ``delay_s`` passes before a job that fits is started;
    `fail_next` makes the next call of that name fail.
    """

    clock: Clock
    machines: int = 2
    cpus: int = 2
    can: frozenset[str] = FEATURES
    delay_s: float = 0.05
    records: Callable[[Path], Path] = lambda path: path
    fail_next: set[str] = field(default_factory=set)
    dead: set[int] = field(default_factory=set)
    begun: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._clear()

    def _clear(self) -> None:
        self._pending: list[tuple[Job, float, int]] = []
        self._running: dict[str, _Run] = {}
        self._states: dict[str, JobState] = {}
        self._changed: list[JobState] = []
        self._folder: Path | None = None

    # The contract

    def begin(self, trial: str, records: Path) -> None:
        self._fail("begin")
        with self._lock:
            assert self._folder is None, "end comes before"
            self._folder = self.records(records)
            self.begun.append(trial)

    def submit(self, jobs: Sequence[Job]) -> None:
        self._fail("submit")
        with self._lock:
            for job in jobs:
                assert job.name not in self._states, job.name
                self._pending.append((job, self.clock.now(), 1))
                self._say(JobState(job.name, "PENDING", False, False, False))

    def cancel(self, names: Sequence[str]) -> None:
        with self._lock:
            self._advance()
            for name in names:
                if not self._states[name].ended:
                    self._pending = [each for each in self._pending if each[0].name != name]
                    self._running.pop(name, None)
                    self._say(JobState(name, "CANCELLED", False, True, False))

    def watch(self, pause: Pause = time.sleep) -> Iterator[Sequence[JobState]]:
        with self._lock:
            self._changed = []
            yield tuple(self._states.values())
        while True:
            self._fail("watch")
            with self._lock:
                self._advance()
                changed, self._changed = self._changed, []
            yield tuple(changed)
            pause(0.05 * self.clock.pace)

    def parts(self) -> Mapping[str, Sequence[int]]:
        return {"fake": (os.getpid(),)}

    def requests(self) -> Mapping[str, int]:
        return {"submit": len(self._states)}

    def settings(self) -> Mapping[str, str]:
        return {"fake": "1.0"}

    def end(self) -> None:
        with self._lock:
            self._clear()

    # What tests do to it

    def kill(self, machine: int) -> None:
        """A machine dies: its jobs are queued again."""
        with self._lock:
            self._advance()
            self.dead.add(machine)
            for name, run in list(self._running.items()):
                if any(slot[0] == machine for slot in run.slots):
                    del self._running[name]
                    self._pending.append((run.job, self.clock.now(), run.attempt + 1))
                    self._say(JobState(name, "PENDING", False, False, False))

    def revive(self, machine: int) -> None:
        with self._lock:
            self.dead.discard(machine)

    def advance(self) -> None:
        """Do what has become due; otherwise that is so only where it is watched."""
        with self._lock:
            self._advance()

    # Inside

    def _fail(self, call: str) -> None:
        if call in self.fail_next:
            self.fail_next.discard(call)
            raise SchedulerFailed(f"{call} was refused")

    def _say(self, state: JobState) -> None:
        self._states[state.name] = state
        self._changed.append(state)

    def _advance(self) -> None:
        now = self.clock.now()
        for name, run in list(self._running.items()):
            if run.ends <= now:
                del self._running[name]
                well = run.job.exit_code == 0
                self._end_records(run)
                told = {"StartTime": run.started, "EndTime": run.ends}
                self._say(JobState(name, "COMPLETED" if well else "FAILED", False, True, well, told))
        for job, since, attempt in sorted(self._pending, key=lambda each: -each[0].priority):
            if since + self.delay_s > now or not all(self._succeeded(name) for name in job.after):
                continue
            slots = self._free(job)
            if slots is None:
                break  # nobody overtakes
            self._pending.remove((job, since, attempt))
            self._start(job, slots, now, attempt)

    def _succeeded(self, name: str) -> bool:
        return name in self._states and self._states[name].succeeded

    def _free(self, job: Job) -> list[tuple[int, int]] | None:
        taken = {slot for run in self._running.values() for slot in run.slots}
        free = [
            (machine, cpu)
            for machine in range(self.machines)
            if machine not in self.dead
            for cpu in range(self.cpus)
            if (machine, cpu) not in taken
        ]
        return free[: job.cpus] if len(free) >= job.cpus else None

    def _start(self, job: Job, slots: list[tuple[int, int]], now: float, attempt: int) -> None:
        seconds = {Sleep: "seconds", Compute: "cpu_seconds"}.get(type(job.program))
        lasts = getattr(job.program, seconds) if seconds else 0.1
        run = _Run(job, slots, now, now + lasts, attempt)
        self._running[job.name] = run
        for rank in range(job.tasks):
            path = self._record(run, rank)
            path.parent.mkdir(parents=True, exist_ok=True)
            machine, cpu = slots[rank * job.cpus_per_task]
            path.write_text(f"machine shared-{machine + 1}\ncpus {cpu}\n")
        self._say(JobState(job.name, "RUNNING", True, False, False, {"StartTime": now}))

    def _end_records(self, run: _Run) -> None:
        for rank in range(run.job.tasks):
            with self._record(run, rank).open("a") as file:
                file.write(f"end {round(run.ends * 1e9) + 1000} {run.job.exit_code}\n")

    def _record(self, run: _Run, rank: int) -> Path:
        assert self._folder is not None
        return self._folder / run.job.name / f"{rank}.{round(run.started * 1e9)}.{1000 * run.attempt + rank}"
