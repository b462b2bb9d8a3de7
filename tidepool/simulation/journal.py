"""A journal in memory, with the promises of the real one; it outlives the daemon that writes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decision import Decision
from tidepool.scaling.memory import Memory
from tidepool.scaling.ports import (
    Decided,
    Fenced,
    Intent,
    JobRecord,
    JournalError,
    Kept,
    Lease,
    Look,
    Pause,
    Sample,
    Trouble,
)

_KEPT: Final = 200


class MemoryJournal:
    """`tidepool.scaling.ports.Journal`. It keeps the last decisions and intents only.

    ``keeps_all`` has it forget no sample and no job, however old.

    ``full`` has every writing call end with `JournalError`, as when the disk is full.
    """

    def __init__(self, *, keeps_all: bool = False) -> None:
        self.full = False
        self._keeps_all = keeps_all
        self._leader: Lease | None = None
        self._kept = Kept()
        self._look: Look | None = None
        self._trouble: Trouble | None = None
        self._pause: Pause | None = None
        self._intents: dict[int, Intent] = {}
        self._open: dict[int, Intent] = {}
        self._decisions: deque[Decided] = deque(maxlen=_KEPT)
        self._samples: list[Sample] = []
        self._jobs: dict[tuple[int, datetime], JobRecord] = {}
        self._next_intent = 1
        self._next_decision = 1

    def acquire(self, holder: str, now: datetime, lasting_s: float) -> Lease | None:
        self._writable()
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
        for intent in intents:
            self._intents[intent.id] = self._open[intent.id] = intent
        while len(self._intents) > max(_KEPT, len(self._open)):
            self._intents.pop(next(iter(self._intents)))
        self._decisions.append(
            Decided(
                number,
                lease.epoch,
                decision.at,
                decision.actions,
                decision.waiting,
                decision.cost,
                state,
                before,
                waiting_pods=decision.waiting_pods,
            )
        )
        self._kept = replace(self._kept, desired=decision.desired, memory=decision.memory)
        return intents

    def looked(self, lease: Lease, state: ClusterState, decision: Decision) -> None:
        self._fence(lease)
        self._look = Look(lease.epoch, state.spec, decision, state)

    def troubled(self, lease: Lease, trouble: Trouble | None) -> None:
        self._fence(lease)
        self._trouble = trouble

    def write_kept(self, lease: Lease, kept: Kept) -> None:
        self._fence(lease)
        self._kept = kept

    def ended(self, lease: Lease, intents: Sequence[Intent]) -> None:
        self._fence(lease)
        for intent in intents:
            self._open.pop(intent.id, None)
            if intent.id in self._intents:
                self._intents[intent.id] = intent

    def sample(self, lease: Lease, sample: Sample) -> None:
        self._fence(lease)
        self._samples.append(sample)

    def saw(self, lease: Lease, jobs: Sequence[JobRecord]) -> None:
        self._fence(lease)
        for job in jobs:
            self._jobs[job.job_id, job.submitted] = job

    def pause(self, pause: Pause | None) -> None:
        self._writable()
        self._pause = pause

    def paused(self) -> Pause | None:
        return self._pause

    def open_intents(self) -> tuple[Intent, ...]:
        return tuple(self._open.values())

    def last_look(self) -> Look | None:
        return self._look

    def trouble(self) -> Trouble | None:
        return self._trouble

    def decisions(self, since: datetime | None = None, limit: int = 100) -> tuple[Decided, ...]:
        found = [each for each in reversed(self._decisions) if since is None or each.at >= since]
        return tuple(found[:limit])

    def intents(
        self, *, node: str = "", fleet: str = "", since: datetime | None = None, limit: int = 100
    ) -> tuple[Intent, ...]:
        wanted: list[Callable[[Intent], bool]] = []
        if node:
            wanted.append(lambda intent: node in getattr(intent.action, "nodes", ()))
        if fleet:
            wanted.append(lambda intent: getattr(intent.action, "fleet", "") == fleet)
        if since is not None:
            wanted.append(lambda intent: intent.at >= since)
        found = [each for each in reversed(self._intents.values()) if all(test(each) for test in wanted)]
        return tuple(found[:limit])

    def samples(self, since: datetime | None = None) -> tuple[Sample, ...]:
        return tuple(each for each in self._samples if since is None or each.at >= since)

    def jobs(self, since: datetime | None = None, *, job_id: int | None = None) -> tuple[JobRecord, ...]:
        found = [
            each
            for each in self._jobs.values()
            if (since is None or each.submitted >= since) and job_id in (None, each.job_id)
        ]
        return tuple(sorted(found, key=lambda job: (job.submitted, job.job_id)))

    def prune(self, lease: Lease, before: datetime) -> None:
        self._fence(lease)
        if self._keeps_all:
            return
        self._samples = [each for each in self._samples if each.at >= before]
        self._jobs = {key: job for key, job in self._jobs.items() if job.submitted >= before}

    def close(self) -> None:
        return

    def _writable(self) -> None:
        if self.full:
            raise JournalError("the journal cannot be written: no space left on device")

    def _fence(self, lease: Lease) -> None:
        self._writable()
        if self._leader is None or lease.epoch != self._leader.epoch:
            raise Fenced(f"another daemon has the lease: {self._leader}")
