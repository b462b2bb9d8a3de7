"""Writes down, beside decisions, what people and `replay` want to know later: the newest look, charts, jobs gone by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from tidepool.scaling.decision import Decision
from tidepool.scaling.phase import Phase
from tidepool.scaling.ports import Journal, Lease, Sample, SeenJob, Trouble
from tidepool.scaling.world import World
from tidepool.slurm import Job, JobState

#: A chart has a point whenever something changed, and after so long at least.
_SAMPLE_S: Final = timedelta(seconds=30)
#: Of a look on which nothing changed, so often it is written that it was.
_LOOK_S: Final = timedelta(seconds=1)
#: Jobs that were submitted longer ago than this, and seen by another leader, are left as they are.
_FORGOTTEN: Final = timedelta(days=31)
#: What of a job is not what it asks for.
_NOT_ASKED: Final = frozenset(
    {"state", "reason", "start_time", "end_time", "submit_time", "nodelist", "restarts", "array_tasks"}
)


class Chronicle:
    """Of one leader's time."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._looked: tuple[datetime, World, Decision] | None = None
        self._sample: Sample | None = None
        self._trouble: tuple[str, ...] = ()
        self._is_new = True
        #: Those that have not ended, as they were written down.
        self._jobs: dict[int, SeenJob] | None = None
        self._seen: tuple[Job, ...] | None = None

    def looked(self, lease: Lease, world: World, decision: Decision) -> None:
        """Write down what was seen, and what was made of it.

        Raises:
            JournalError: it cannot be written.
        """
        self._write_look(lease, world, decision)
        sample = sample_of(world, decision)
        if self._is_worth_a_point(sample):
            self._journal.sample(lease, sample)
            self._sample = sample
        if world.jobs != self._seen:
            if jobs := tuple(self._gone_by(world)):
                self._journal.saw(lease, jobs)
            self._seen = world.jobs

    def complains(self, lease: Lease, at: datetime, complaints: tuple[str, ...]) -> None:
        """Write down what the leader complains of, where that is something else than before.

        Raises:
            JournalError: it cannot be written.
        """
        if complaints == self._trouble and not self._is_new:
            return
        self._journal.troubled(lease, Trouble(at, complaints) if complaints else None)
        self._trouble, self._is_new = complaints, False

    def _write_look(self, lease: Lease, world: World, decision: Decision) -> None:
        last = self._looked
        decision = replace(decision, at=world.at)
        if (
            last is not None
            and world.at - last[0] < _LOOK_S
            and _same(last[1], world)
            and decision == replace(last[2], at=world.at)
        ):
            return
        self._journal.looked(lease, world, decision)
        self._looked = world.at, world, decision

    def _is_worth_a_point(self, sample: Sample) -> bool:
        last = self._sample
        return last is None or sample.at - last.at >= _SAMPLE_S or replace(last, at=sample.at) != sample

    def _gone_by(self, world: World) -> Iterator[SeenJob]:
        """Those of which something new is known."""
        before = self._unended(world.at) if self._jobs is None else self._jobs
        there: dict[int, SeenJob] = {}
        for job in world.jobs:
            # Of an array's tasks that wait, nobody knows yet which of them will be which job.
            if job.submit_time is None or (job.state is JobState.PENDING and job.array_tasks):
                continue
            started = None if job.state is JobState.PENDING else job.start_time
            known = before.get(job.job_id)
            if known is None or (known.submitted, known.started) != (job.submit_time, started):
                known = SeenJob(job.job_id, job.submit_time, started, None, _asked(job))
                yield known
            there[job.job_id] = known
        for job_id, known in before.items():
            if job_id not in there:
                yield replace(known, ended=world.at)
        self._jobs = there

    def _unended(self, now: datetime) -> dict[int, SeenJob]:
        """Those that another leader saw last: some may have ended while nobody looked."""
        return {job.job_id: job for job in self._journal.jobs(now - _FORGOTTEN) if job.ended is None}


def sample_of(world: World, decision: Decision) -> Sample:
    """A point of the charts."""
    pending = sum(job.size for job in world.jobs if job.state is JobState.PENDING)
    running = sum(job.size for job in world.jobs if job.state is JobState.RUNNING)
    phases = Counter(view.phase for view in decision.nodes.values())
    del phases[Phase.ABSENT]
    return Sample(world.at, pending, running, dict(phases), decision.cost.usd_per_hour)


def _asked(job: Job) -> Mapping[str, Any]:
    return {
        name: value
        for name, value in job._asdict().items()
        if name not in _NOT_ASKED and value not in ("", None)
    }


def _same(one: World, other: World) -> bool:
    """Whether nothing that is shown has changed but the time."""
    return (one.nodes, one.jobs, one.machines) == (other.nodes, other.jobs, other.machines)
