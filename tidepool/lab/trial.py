"""One trial: jobs are handed over at their seconds, the scheduler is watched, machines die, and records are collected."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from tidepool.lab.campaign import Trial
from tidepool.lab.course import NEVER, Course
from tidepool.lab.errors import SchedulerFailed
from tidepool.lab.outcome import HostSample, JobOutcome, ProcessRecord, TrialOutcome
from tidepool.lab.sampling import Parts, Samples, sampling
from tidepool.lab.schedulers.contract import JobState, Scheduler
from tidepool.lab.workload import Death, Workload

#: Between two looks where nothing comes from the scheduler, in seconds: a death or the limit may be due.
_LOOK_S: Final = 0.25
#: How long jobs that were told to end may take to do so, before the trial ends without them.
_ENDING_S: Final = 60.0
_PAST_LIMIT: Final = " (ended by the trial's limit)"


@dataclass(frozen=True, slots=True)
class Clock:
    """The one clock of a trial: that of the records which processes write.

    Attributes:
        now: seconds since the epoch.
        pace: of this process's seconds, how many pass in one of the clock's: 1 but in tests.
    """

    now: Callable[[], float] = time.time
    pace: float = 1.0


class Machines(Protocol):
    """The machines of the testbed, counted from 0, as a trial with deaths needs them."""

    def kill(self, machine: int) -> None:
        """Kill it at once, as if its plug was pulled."""
        ...

    def revive(self, machine: int) -> None:
        """Bring it back, and return when it is there."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """All that a trial needs besides its scheduler.

    Attributes:
        machines: those that may die.
        records: the folder in which processes write, as the machines see it; emptied for each trial by `clear_records`.
        clear_records: empties that folder, and makes it.
        read_records: reads it: by job, as processes wrote themselves, in seconds since the given moment.
        host: looks at the host at a second of the trial.
        environment: of the host and the laboratory, that figures may depend on.
        disturbed: says of the host's samples why the trial does not count; empty where it does.
        unwrap: mends counters of the host's samples that began again (`tidepool.lab.host.unwrapped`).
        others: processes of the host that are none of the laboratory's, by the names of their programs.
        clock: the clock.
        limit_s: the longest that the trial may take.
        sample_s: between two looks at host and scheduler.
        told: hears how many jobs have ended.
    """

    machines: Machines
    records: Callable[[Trial], Path]
    clear_records: Callable[[Trial], None]
    read_records: Callable[[Trial, float], Mapping[str, tuple[ProcessRecord, ...]]]
    host: Callable[[float], HostSample]
    environment: Mapping[str, str]
    disturbed: Callable[[Sequence[HostSample]], str]
    unwrap: Callable[[Sequence[HostSample]], tuple[HostSample, ...]] = tuple
    others: Callable[[], Parts] = dict
    clock: Clock = field(default_factory=Clock)
    limit_s: float = 600.0
    sample_s: float = 0.5
    told: Callable[[Course, float], None] = lambda _course, _now_s: None


def run_trial(trial: Trial, workload: Workload, scheduler: Scheduler, around: Surroundings) -> TrialOutcome:
    """Run a trial to its end, and return what came of it. Nothing of it is left then, whatever happened.

    Raises:
        SchedulerFailed: the scheduler did not do what it was asked.
    """
    clock = around.clock
    # What another process began may be there.
    scheduler.end()
    around.clear_records(trial)
    try:
        scheduler.begin(trial.id, around.records(trial))
        requests = dict(scheduler.requests())
        # Read by the report: what a scheduler does not promise may be why its figures are good.
        settings = {"can": ", ".join(sorted(scheduler.can)), **scheduler.settings()}
        began = clock.now()

        def now_s() -> float:
            return clock.now() - began

        every_s = around.sample_s * clock.pace
        with sampling(now_s, scheduler.parts, around.host, every_s, others=around.others) as samples:
            course = _Driving(workload, scheduler, around, now_s).to_the_end()
        sent = {name: count - requests.get(name, 0) for name, count in scheduler.requests().items()}
        records = around.read_records(trial, began)
    finally:
        scheduler.end()
    lasted_s = now_s()
    return _outcome(trial, course, records, samples, around, began, lasted_s, sent, settings)


class _Driving:
    """The loop of a trial: what is due is done, what the scheduler tells is heard."""

    def __init__(
        self, workload: Workload, scheduler: Scheduler, around: Surroundings, now_s: Callable[[], float]
    ) -> None:
        self._scheduler, self._around, self._now_s = scheduler, around, now_s
        self._course = Course(workload, "dependencies" in scheduler.can)
        self._deaths = sorted(workload.deaths, key=lambda death: death.at_s)
        self._away: list[tuple[float, Death]] = []
        self._reviving: list[Future[None]] = []
        #: Jobs that had not ended when the limit had passed.
        self._late: tuple[str, ...] = ()

    def to_the_end(self) -> Course:
        with (
            ThreadPoolExecutor(1, thread_name_prefix="revival") as pool,
            _watched(self._scheduler) as changes,
        ):
            given_up_s: float | None = None
            while not (self._course.is_over and self._all_machines_are_there()):
                now_s = self._now_s()
                if given_up_s is None and now_s > self._around.limit_s:
                    given_up_s = now_s
                    self._late = self._course.unfinished
                    self._cancel(self._course.open)
                if given_up_s is not None and (not self._course.open or now_s > given_up_s + _ENDING_S):
                    break
                self._let_die(now_s, pool)
                if given_up_s is None:
                    self._submit()
                if to_cancel := self._course.to_cancel:
                    self._cancel(to_cancel)
                self._hear(changes)
            for revival in self._reviving:
                revival.result()
        self._mark_late()
        return self._course

    def _submit(self) -> None:
        # What becomes due while others are handed over is next.
        while jobs := self._course.due(self._now_s()):
            submitted_s = self._now_s()
            self._scheduler.submit(jobs)
            self._course = self._course.with_submitted(jobs, submitted_s, self._now_s())

    def _cancel(self, names: Sequence[str]) -> None:
        if names:
            self._scheduler.cancel(names)
        self._course = self._course.with_cancelled(names)

    def _let_die(self, now_s: float, pool: ThreadPoolExecutor) -> None:
        machines = self._around.machines
        while self._deaths and self._deaths[0].at_s <= now_s:
            death = self._deaths.pop(0)
            machines.kill(death.machine)
            self._away.append((now_s + death.back_after_s, death))
        for back_s, death in [each for each in self._away if each[0] <= now_s]:
            self._away.remove((back_s, death))
            self._reviving.append(pool.submit(machines.revive, death.machine))

    def _all_machines_are_there(self) -> bool:
        return not self._deaths and not self._away and all(each.done() for each in self._reviving)

    def _hear(self, changes: queue.SimpleQueue[Sequence[JobState] | Exception]) -> None:
        """Wait for the scheduler's word, until the next thing is due at the longest."""
        now_s = self._now_s()
        next_s = self._course.next_s(now_s)
        wait_s = _LOOK_S if next_s is None else min(_LOOK_S, max(0.0, next_s - now_s))
        with suppress(queue.Empty):
            heard = changes.get(timeout=wait_s * self._around.clock.pace)
            while True:
                if isinstance(heard, Exception):
                    raise heard
                self._course = self._course.with_states(heard)
                heard = changes.get_nowait()
        self._around.told(self._course, self._now_s())

    def _mark_late(self) -> None:
        """Mark what the trial's limit has ended: it did not succeed, whatever the scheduler calls it."""
        ended = []
        for name in self._late:
            state = self._course.states.get(name)
            word, told = (state.state, state.told) if state is not None else ("not submitted", {})
            ended.append(JobState(name, word + _PAST_LIMIT, False, True, False, told))
        self._course = self._course.with_states(ended)


@contextmanager
def _watched(scheduler: Scheduler) -> Iterator[queue.SimpleQueue[Sequence[JobState] | Exception]]:
    """Watch in a thread of its own; what it raises is among what is heard."""
    heard: queue.SimpleQueue[Sequence[JobState] | Exception] = queue.SimpleQueue()
    ended = threading.Event()

    def watch() -> None:
        try:
            for changed in scheduler.watch(ended.wait):
                if changed:
                    heard.put(changed)
                if ended.is_set():
                    return
            heard.put(SchedulerFailed("the scheduler was watched no more before its jobs had ended"))
        except Exception as error:  # noqa: BLE001 - raised by whoever hears it
            heard.put(error)

    thread = threading.Thread(target=watch, name="watch", daemon=True)
    thread.start()
    try:
        yield heard
    finally:
        ended.set()
        # It yields at least once a second.
        thread.join(30)


def _outcome(
    trial: Trial,
    course: Course,
    records: Mapping[str, tuple[ProcessRecord, ...]],
    samples: Samples,
    around: Surroundings,
    began: float,
    lasted_s: float,
    requests: Mapping[str, int],
    settings: Mapping[str, str],
) -> TrialOutcome:
    jobs = []
    for job in course.workload.jobs:
        submitted_s, accepted_s = course.submitted.get(job.name, (job.submit_at_s, None))
        state = course.states.get(job.name)
        jobs.append(
            JobOutcome(
                name=job.name,
                submitted_s=submitted_s,
                accepted_s=accepted_s,
                processes=records.get(job.name, ()),
                state=state.state if state is not None else NEVER,
                succeeded=state is not None and state.succeeded,
                told={name: at - began for name, at in state.told.items()} if state is not None else {},
            )
        )
    return TrialOutcome(
        scheduler=trial.scheduler,
        workload=trial.workload,
        repeat=trial.repeat,
        began=datetime.fromtimestamp(began, UTC).isoformat(),
        lasted_s=lasted_s,
        jobs=tuple(jobs),
        usage=tuple(samples.usage),
        host=around.unwrap(samples.host),
        requests=requests,
        others=samples.largest_others(),
        environment={**around.environment, **settings},
        disturbed=around.disturbed(samples.host),
    )
