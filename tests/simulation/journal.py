"""A journal in memory that can be read by people, and whose disk may be full."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decision import Decision
from tidepool.scaling.memory import Memory
from tidepool.scaling.ports import (
    Decided,
    Intent,
    JournalError,
    Lease,
    Look,
    Pause,
    Sample,
    Trouble,
)
from tidepool.simulation.journal import MemoryJournal

_KEPT: Final = 200


class FaultyJournal(MemoryJournal):
    """`tidepool.scaling.ports.Journal`. It keeps the last decisions and intents only.

    ``full`` has every writing call end with `JournalError`, as when the disk is full.
    """

    def __init__(self) -> None:
        super().__init__()
        self.full = False
        self._look: Look | None = None
        self._trouble: Trouble | None = None
        self._pause: Pause | None = None
        self._intents: dict[int, Intent] = {}
        self._decisions: deque[Decided] = deque(maxlen=_KEPT)

    def acquire(self, holder: str, now: datetime, lasting_s: float) -> Lease | None:
        self._writable()
        return super().acquire(holder, now, lasting_s)

    def decided(
        self, lease: Lease, state: ClusterState, before: Memory, decision: Decision
    ) -> tuple[Intent, ...]:
        number = self._next_decision
        intents = super().decided(lease, state, before, decision)
        self._intents.update((intent.id, intent) for intent in intents)
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
        return intents

    def looked(self, lease: Lease, state: ClusterState, decision: Decision) -> None:
        super().looked(lease, state, decision)
        self._look = Look(lease.epoch, state.spec, decision, state)

    def troubled(self, lease: Lease, trouble: Trouble | None) -> None:
        super().troubled(lease, trouble)
        self._trouble = trouble

    def ended(self, lease: Lease, intents: Sequence[Intent]) -> None:
        super().ended(lease, intents)
        self._intents.update((intent.id, intent) for intent in intents if intent.id in self._intents)

    def prune(self, lease: Lease, before: datetime) -> None:
        super().prune(lease, before)
        self._samples = [each for each in self._samples if each.at >= before]
        self._jobs = {key: job for key, job in self._jobs.items() if job.submitted >= before}
        self._launches = {key: each for key, each in self._launches.items() if each.since >= before}

    def pause(self, pause: Pause | None) -> None:
        self._writable()
        self._pause = pause

    def paused(self) -> Pause | None:
        return self._pause

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
        return tuple(each for each in super().samples() if since is None or each.at >= since)

    def close(self) -> None:
        return

    def _writable(self) -> None:
        if self.full:
            raise JournalError("the journal cannot be written: no space left on device")

    def _fence(self, lease: Lease) -> None:
        self._writable()
        super()._fence(lease)
