"""The course of a trial, pure: which jobs are due, which can never run, whether all is over. `tidepool.lab.trial` carries it out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from tidepool.lab.schedulers.contract import JobState
from tidepool.lab.workload import Job, Workload

#: The state of a job that was not handed over, as one that it waits for did not succeed.
NEVER = "not submitted: a job that it waits for did not succeed"


@dataclass(frozen=True, slots=True)
class Course:
    """A trial as far as it has come.

    Attributes:
        workload: all of its jobs.
        waits_itself: whether the scheduler knows of dependencies; else a job is handed over when those before it have succeeded.
        submitted: when each was handed over and accepted, in seconds since the beginning, by its name.
        states: the scheduler's last word of each, by its name.
        cancelled: names of those that were told to end.
    """

    workload: Workload
    waits_itself: bool
    submitted: Mapping[str, tuple[float, float]] = field(default_factory=lambda: MappingProxyType({}))
    states: Mapping[str, JobState] = field(default_factory=lambda: MappingProxyType({}))
    cancelled: frozenset[str] = frozenset()

    def with_states(self, changed: Iterable[JobState]) -> Course:
        """Return it with what the scheduler told; one that has ended stays so."""
        states = dict(self.states)
        for state in changed:
            before = states.get(state.name)
            if before is None or not before.ended or state.ended:
                states[state.name] = state
        return replace(self, states=MappingProxyType(states))

    def with_submitted(self, jobs: Iterable[Job], submitted_s: float, accepted_s: float) -> Course:
        """Return it with jobs that were handed over at once."""
        new = dict.fromkeys((job.name for job in jobs), (submitted_s, accepted_s))
        return replace(self, submitted=MappingProxyType({**self.submitted, **new}))

    def with_cancelled(self, names: Iterable[str]) -> Course:
        return replace(self, cancelled=self.cancelled | frozenset(names))

    def due(self, now_s: float) -> tuple[Job, ...]:
        """Return the jobs that are to be handed over now, in their order."""
        hopeless = self.hopeless
        return tuple(
            job
            for job in self.workload.jobs
            if job.submit_at_s <= now_s
            and job.name not in self.submitted
            and job.name not in hopeless
            and (self.waits_itself or all(self._succeeded(name) for name in job.after))
        )

    def next_s(self, now_s: float) -> float | None:
        """Return when the next job is due by its time; None where none is left that waits for its time alone."""
        return min((job.submit_at_s for job in self.workload.jobs if job.submit_at_s > now_s), default=None)

    @property
    def hopeless(self) -> frozenset[str]:
        """The names of jobs that can never run: one that they wait for has ended and did not succeed, or can never run itself."""
        lost = {name for name, state in self.states.items() if state.ended and not state.succeeded}
        hopeless: set[str] = set()
        # Jobs come after those that they wait for, or in any order: until nothing changes.
        while new := {
            job.name
            for job in self.workload.jobs
            if job.name not in hopeless
            and not self._ended(job.name)
            and not (lost | hopeless).isdisjoint(job.after)
        }:
            hopeless |= new
        return frozenset(hopeless)

    @property
    def to_cancel(self) -> tuple[str, ...]:
        """Jobs that were handed over, can never run, and were not told to end yet."""
        return tuple(
            job.name
            for job in self.workload.jobs
            if job.name in self.submitted and job.name not in self.cancelled and job.name in self.hopeless
        )

    @property
    def open(self) -> tuple[str, ...]:
        """Names of jobs that were handed over and have not ended."""
        return tuple(
            job.name for job in self.workload.jobs if job.name in self.submitted and not self._ended(job.name)
        )

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Names of jobs that have not ended, those that were not handed over among them."""
        return tuple(job.name for job in self.workload.jobs if not self._ended(job.name))

    @property
    def is_over(self) -> bool:
        """Return whether each job has ended, or will never be handed over."""
        hopeless = self.hopeless
        return all(
            self._ended(job.name) or (job.name in hopeless and job.name not in self.submitted)
            for job in self.workload.jobs
        )

    @property
    def ended_count(self) -> int:
        return sum(self._ended(job.name) for job in self.workload.jobs)

    def _ended(self, name: str) -> bool:
        return name in self.states and self.states[name].ended

    def _succeeded(self, name: str) -> bool:
        return self._ended(name) and self.states[name].succeeded
