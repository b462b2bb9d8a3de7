"""Records of launches, phase by phase: what the scaler sees of one, and what its machine is asked for once it is in service.

A machine is asked beside the turns, every few seconds until it answers, and by then its boot is over: being measured costs it nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from tidepool.clients.slurm import JobState
from tidepool.infrastructures.boot_times import BootTimes
from tidepool.scaling.cluster_state import ClusterState, Recorded, job_nodes
from tidepool.scaling.decision import Decision, Phase
from tidepool.scaling.launches import boot_began, phases_began
from tidepool.scaling.memory import Memory
from tidepool.scaling.ports import LaunchRecord, LeaderJournal, Lease

#: In service.
_UP: Final = frozenset({Phase.IDLE, Phase.BUSY})
#: A machine that has told nothing after so long is not waited for: its record is written without.
_PATIENCE: Final = timedelta(minutes=2)
#: One that could not be asked is asked again then, not at once: each answer, an error too, wakes the daemon.
_ASK_AGAIN: Final = timedelta(seconds=5)
#: For answers that are on their way, when the daemon ends.
_LAST_S: Final = 5.0
#: Infrastructures tell whole seconds.
_BLUR: Final = timedelta(seconds=2)

AskBoot = Callable[[Mapping[str, Any]], Future[tuple[datetime, BootTimes]]]
"""Asks the machine of a connection for its times, beside the turns, and says when it was asked."""


@dataclass(slots=True)
class _Launch:
    """A node that is on its way, or came up and is not written down yet."""

    asked: datetime
    making: datetime | None = None
    made: datetime | None = None
    registered: datetime | None = None
    infrastructure: str = ""
    is_resumed: bool = False
    answer: Future[tuple[datetime, BootTimes]] | None = field(default=None, repr=False)
    ask_next: datetime | None = None

    @property
    def is_pending(self) -> bool:
        """Its machine has been asked, and may answer still."""
        return self.answer is not None and not self.answer.done()

    @property
    def boot(self) -> tuple[datetime, BootTimes] | None:
        """Its machine's answer, and when that was asked for; None as long as there is none."""
        if self.answer is None or not self.answer.done() or self.answer.exception() is not None:
            return None
        return self.answer.result()


class LaunchWatch:
    """Writes to ``journal`` launches that came up. Without ``ask_boot`` nothing is known of their machines' boots."""

    def __init__(self, journal: LeaderJournal, ask_boot: AskBoot | None) -> None:
        self._journal = journal
        self._ask_boot = ask_boot
        self._launches: dict[str, _Launch] = {}
        #: Those on which no job ran yet.
        self._without_job: dict[str, LaunchRecord] = {}

    def looked(
        self,
        lease: Lease,
        state: ClusterState,
        before: Memory,
        decision: Decision,
        connections: Mapping[str, Mapping[str, Any]],
        under_way: Collection[str],
    ) -> None:
        """A look, and what was made of it with the memory of ``before``; ``connections`` of nodes, old ones maybe of those ``under_way``."""
        for name, launch in {**before.launches, **decision.memory.launches}.items():
            known = self._launches.get(name)
            # An earlier one is the same: the clock went back.
            is_new = known is None or known.asked < launch.since
            if is_new and (name in decision.memory.launches or not self._is_written(name, launch.since)):
                was = (state.recorded or {}).get(name, Recorded())
                self._launches[name] = known = _Launch(launch.since, is_resumed=was.is_suspended)
            if known is not None and launch.begun is not None:
                known.making = launch.begun
        if not (self._launches or self._without_job):
            return
        self._see_machines(state)
        written = []
        for name, known in list(self._launches.items()):
            if name in decision.memory.launches:
                continue
            if known.registered is None:
                if name not in decision.nodes or decision.nodes[name].phase not in _UP:
                    del self._launches[name]
                    continue
                known.registered = state.at
                recorded = (state.recorded or {}).get(name, Recorded())
                known.infrastructure = known.infrastructure or recorded.infrastructure
            is_there = name in decision.nodes and decision.nodes[name].phase in _UP
            may_be_asked = is_there and name in connections and name not in under_way
            is_due = known.ask_next is None or (not known.is_pending and state.at >= known.ask_next)
            if self._ask_boot and may_be_asked and known.boot is None and is_due:
                known.answer, known.ask_next = self._ask_boot(connections[name]), state.at + _ASK_AGAIN
            if self._has_ended(known, state.at, is_there):
                record = _record(name, known, known.registered)
                self._without_job[name] = record
                written.append(record)
                del self._launches[name]
        written += self._first_jobs(state, decision)
        if written:
            self._journal.launched(lease, list({each.node: each for each in written}.values()))

    def end(self, lease: Lease) -> None:
        """Write down what came up and is not written yet: nobody will do it later. Answers that are on their way have a moment."""
        there = {name: each for name, each in self._launches.items() if each.registered is not None}
        wait([each.answer for each in there.values() if each.answer is not None], _LAST_S)
        records = [_record(name, each, each.registered) for name, each in there.items() if each.registered]
        if records:
            self._journal.launched(lease, records)
        self._launches = {}

    def _is_written(self, name: str, asked: datetime) -> bool:
        """Return whether an earlier leader wrote it down: what a new one remembers is some seconds old."""
        return any((each.node, each.since) == (name, asked) for each in self._journal.launches(asked))

    def _see_machines(self, state: ClusterState) -> None:
        for machine in state.machines or ():
            launch = self._launches.get(machine.key.node)
            if launch is None or launch.made is not None or machine.state != "running":
                continue
            # One that was there before is its predecessor, which is still seen.
            if machine.since is None or machine.since >= launch.asked - _BLUR:
                launch.made = machine.since or state.at
                launch.infrastructure = machine.key.infrastructure

    def _has_ended(self, launch: _Launch, at: datetime, is_there: bool) -> bool:
        if self._ask_boot is None or launch.boot is not None or not (is_there or launch.is_pending):
            return True
        return launch.registered is not None and at - launch.registered > _PATIENCE

    def _first_jobs(self, state: ClusterState, decision: Decision) -> list[LaunchRecord]:
        """Records of nodes on which a job runs for the first time. Those of nodes that are gone are not waited for."""
        busy = set()
        for name in list(self._without_job):
            phase = decision.nodes[name].phase if name in decision.nodes else Phase.ABSENT
            if phase is Phase.BUSY:
                busy.add(name)
            elif phase is not Phase.IDLE:
                del self._without_job[name]
        if not busy:
            return []
        began: dict[str, datetime] = {}
        for job in state.jobs:
            if job.state is JobState.RUNNING and job.start_time is not None:
                for name in busy.intersection(job_nodes(job)):
                    began[name] = min(began.get(name, job.start_time), job.start_time)
        return [replace(self._without_job.pop(name), first_job=at) for name, at in sorted(began.items())]


def _record(name: str, launch: _Launch, registered: datetime) -> LaunchRecord:
    at, times = launch.boot or (registered, BootTimes({}))
    made = None if launch.is_resumed else launch.made
    began = phases_began(
        launch.asked, launch.making, made, boot_began(times, at), registered, is_resumed=launch.is_resumed
    )
    return LaunchRecord(name, name.rpartition("-")[0], launch.infrastructure, registered, began)
