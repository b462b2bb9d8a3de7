"""A journal in memory, with the promises of the real one; it outlives the daemon that writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decision import Decision
from tidepool.scaling.memory import Memory
from tidepool.scaling.ports import (
    Fenced,
    Intent,
    JobRecord,
    Kept,
    LaunchRecord,
    Lease,
    Pause,
    Sample,
    Trouble,
)


class MemoryJournal:
    """`tidepool.scaling.ports.LeaderJournal`. It forgets no sample, job or launch, however old, and keeps open intents only."""

    def __init__(self) -> None:
        self._leader: Lease | None = None
        self._kept = Kept()
        self._open: dict[int, Intent] = {}
        self._samples: list[Sample] = []
        self._jobs: dict[tuple[int, datetime], JobRecord] = {}
        self._launches: dict[tuple[datetime, str], LaunchRecord] = {}
        self._next_intent = 1
        self._next_decision = 1

    def acquire(self, holder: str, now: datetime, lasting_s: float) -> Lease | None:
        last = self._leader
        if last is not None and last.holder != holder and last.until > now:
            return None
        same = last is not None and last.holder == holder and last.until > now
        epoch = 1 if last is None else last.epoch + (not same)
        self._leader = Lease(holder, epoch, now + timedelta(seconds=lasting_s))
        return self._leader

    def release(self, lease: Lease) -> None:
        self._fence(lease)
        assert self._leader is not None
        self._leader = replace(
            self._leader, until=datetime.min.replace(tzinfo=lease.until.tzinfo), is_held=False
        )

    def leader(self) -> Lease | None:
        return self._leader

    def kept(self) -> Kept:
        return self._kept

    def decided(
        self, lease: Lease, state: ClusterState, before: Memory, decision: Decision
    ) -> tuple[Intent, ...]:
        self._fence(lease)
        number = self._next_decision
        self._next_decision += 1
        intents = tuple(
            Intent(self._next_intent + place, number, lease.epoch, decision.at, action)
            for place, action in enumerate(decision.actions)
        )
        self._next_intent += len(intents)
        self._open.update((intent.id, intent) for intent in intents)
        self._kept = replace(self._kept, desired=decision.desired, memory=decision.memory)
        return intents

    def looked(self, lease: Lease, state: ClusterState, decision: Decision) -> None:
        self._fence(lease)

    def troubled(self, lease: Lease, trouble: Trouble | None) -> None:
        self._fence(lease)

    def write_kept(self, lease: Lease, kept: Kept) -> None:
        self._fence(lease)
        self._kept = kept

    def ended(self, lease: Lease, intents: Sequence[Intent]) -> None:
        self._fence(lease)
        for intent in intents:
            self._open.pop(intent.id, None)

    def sample(self, lease: Lease, sample: Sample) -> None:
        self._fence(lease)
        self._samples.append(sample)

    def saw(self, lease: Lease, jobs: Sequence[JobRecord]) -> None:
        self._fence(lease)
        for job in jobs:
            self._jobs[job.job_id, job.submitted] = job

    def launched(self, lease: Lease, launches: Sequence[LaunchRecord]) -> None:
        self._fence(lease)
        self._launches.update(((each.since, each.node), each) for each in launches)

    def launches(self, since: datetime | None = None) -> tuple[LaunchRecord, ...]:
        found = sorted(self._launches)
        return tuple(self._launches[key] for key in found if since is None or key[0] >= since)

    def paused(self) -> Pause | None:
        return None

    def open_intents(self) -> tuple[Intent, ...]:
        return tuple(self._open.values())

    def samples(self) -> tuple[Sample, ...]:
        return tuple(self._samples)

    def jobs(self, since: datetime | None = None, *, job_id: int | None = None) -> tuple[JobRecord, ...]:
        found = [
            each
            for each in self._jobs.values()
            if (since is None or each.submitted >= since) and job_id in (None, each.job_id)
        ]
        return tuple(sorted(found, key=lambda job: (job.submitted, job.job_id)))

    def prune(self, lease: Lease, before: datetime) -> None:
        self._fence(lease)

    def _fence(self, lease: Lease) -> None:
        if self._leader is None or lease.epoch != self._leader.epoch:
            raise Fenced(f"another daemon has the lease: {self._leader}")
