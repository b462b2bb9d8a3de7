"""A Slurm in memory with faults, accidents, and people who are at work on it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal

from tests.simulation.queue import FullQueue
from tidepool.clients.slurm.contract import Controller, ControllerDown, Malformed, SlurmError
from tidepool.clients.slurm.job import Job, JobState
from tidepool.clients.slurm.scontrol import Node, NodeFlag, Reservation
from tidepool.clients.transport import TimedOut
from tidepool.cluster.hostlist import expand
from tidepool.simulation.slurm.fake import WHERE, SimulatedSlurm
from tidepool.simulation.slurm.state import DRAIN, OFF


class FakeSlurm(SimulatedSlurm):
    """`SimulatedSlurm`, to which things happen.

    `register_short` and `replug` are what machines do; `preempt` and `lose_since` what happens to jobs; `drain_by`, `flag`,
    `reserve` and `end_reservation` what others do to nodes. ``controller`` makes slurmctld ``up``, ``down`` or ``hanging``, or
    answer with lists that are ``empty``, or with an error and exit code 0 (``garbled``). ``backup`` is the host of a second
    slurmctld, empty where there is none. `fail` has the next call end with an error. ``licenses``: how many there are of each;
    none are counted if not said. ``completing_s``: for how long a node is COMPLETING after a job (its epilog).
    """

    queue: FullQueue
    _queue_type = FullQueue

    def __init__(
        self, *arguments: Any, licenses: dict[str, int] | None = None, completing_s: float = 0, **named: Any
    ) -> None:
        super().__init__(*arguments, **named)
        self.queue.licenses = licenses
        self.queue.completing_s = completing_s
        self.controller: Literal["up", "down", "hanging", "empty", "garbled"] = "up"
        self.backup, self.has_taken_over = "", False
        self._failures: list[SlurmError] = []

    def register_short(self, name: str, reason: str = "Low RealMemory") -> None:
        """A machine registers with less than its node should have."""
        self.boot(name)
        self._flag(name, add={NodeFlag.DRAIN, NodeFlag.INVALID_REG}, reason=self._reason(reason, "slurm"))

    def replug(self, *names: str) -> None:
        """The network to these machines is back, and what ran on them runs."""
        for name in names:
            self._flag(name, remove={NodeFlag.NOT_RESPONDING})
            self.queue.live(name, self._now())

    def preempt(self, job_id: int) -> None:
        """Slurm stops a job for one of higher priority, and puts it back into the queue."""
        self.queue.put_back(job_id, self._now(), JobState.PREEMPTED)

    def lose_since(self, moment: datetime) -> tuple[int, ...]:
        """The controller was killed before it had saved: jobs submitted since are gone, those begun since begin again.

        Returns:
            The jobs that are lost.
        """
        lost = [job.job_id for job in self._all_jobs() if job.submit_time and job.submit_time >= moment]
        for job_id in lost:
            if job_id in self.queue.running:
                self.queue.end(job_id, JobState.CANCELLED, self._now())
            self.queue.expire(job_id)
        for job in list(self.queue.running.values()):
            if job.start_time is not None and job.start_time >= moment:
                self.queue.put_back(job.job_id, self._now(), JobState.NODE_FAIL)
        return tuple(lost)

    def drain_by(self, user: str, name: str, reason: str) -> None:
        """Somebody drains a node."""
        self._flag(name, add=DRAIN, reason=self._reason(reason, user))

    def flag(self, name: str, *flags: str, on: bool = True) -> None:
        """Set flags of a node, or take them away: what others, or Slurm itself, did to it."""
        self._flag(name, add=flags if on else (), remove=() if on else flags)

    def switched_off(self, *names: str) -> None:
        """SuspendTimeout is over for nodes that were powering down."""
        for name in names:
            self._nodes[name] = self._nodes[name]._replace(state=OFF)
            self.queue.touch()

    def set_down(self, name: str, reason: str, user: str = "slurm") -> None:
        """Slurm itself, or somebody, sets a node DOWN; its jobs are requeued."""
        self._down(name, self._reason(reason, user), self._now())

    def all_nodes(self) -> tuple[Node, ...]:
        """All of them as they are in truth."""
        return tuple(self._nodes.values())

    def fail(self, error: SlurmError) -> None:
        """The next call ends with ``error``; several wait in line."""
        self._failures.append(error)

    def ping(self) -> tuple[Controller, ...]:
        answers = self.controller not in {"down", "hanging"}
        first = Controller("primary", "fake", answers and not self.has_taken_over)
        return (first, Controller("backup", self.backup, answers)) if self.backup else (first,)

    def nodes(self, names: str = "") -> tuple[Node, ...]:
        if self.controller == "empty":
            self._begin_call()
            return ()
        return super().nodes(names)

    def jobs(self, states: Collection[JobState] = ()) -> tuple[Job, ...]:
        if self.controller == "empty":
            self._begin_call()
            return ()
        return super().jobs(states)

    def reservations(self) -> tuple[Reservation, ...]:
        self._begin_call()
        now = self._now()
        return tuple(
            replace(kept, is_active=kept.start_time <= now)
            for kept in self.queue.reservations.values()
            if kept.end_time > now
        )

    def takeover(self) -> None:
        self._begin_call()
        if not self.backup:
            raise ControllerDown("no backup answers", where=WHERE, remedy="name one")
        self.has_taken_over = True

    def reserve(self, name: str, nodes: str, *, start: datetime | None = None, for_s: float = 3600) -> None:
        """Somebody reserves nodes for their maintenance, from now on where no ``start`` is said."""
        now = self._now()
        begin = start or now
        end = begin + timedelta(seconds=for_s)
        self.queue.reservations[name] = Reservation(
            name=name,
            start_time=begin,
            end_time=end,
            nodes=nodes,
            node_count=len(expand(nodes)),
            flags=frozenset({"MAINT"}),
            users=("root",),
            accounts=(),
            is_active=begin <= now,
            partition="",
            features="",
            licenses={},
            tres={},
        )
        self.queue.at(max(begin, now), lambda _: self._reserve(name, end))
        self.queue.at(end, lambda _: self.end_reservation(name))

    def end_reservation(self, name: str) -> None:
        """It is over, or somebody takes it away."""
        kept = self.queue.reservations.pop(name, None)
        for node in expand(kept.nodes) if kept is not None else ():
            if node in self._nodes:
                self._flag(node, remove={NodeFlag.MAINTENANCE})
        self.queue.touch()

    def _begin_call(self) -> None:
        if self._failures:
            raise self._failures.pop(0)
        if self.controller == "down":
            raise ControllerDown("slurmctld does not answer", where=WHERE, remedy="set controller to up")
        if self.controller == "hanging":
            raise TimedOut("slurmctld did not answer in time", where=WHERE, remedy="set controller to up")
        if self.controller == "garbled":
            raise Malformed("an error instead of an answer", where=WHERE, remedy="set controller to up")
        super()._begin_call()

    def _reserve(self, name: str, end: datetime) -> None:
        kept = self.queue.reservations.get(name)
        if kept is not None and kept.end_time == end:
            for node in expand(kept.nodes):
                if node in self._nodes:
                    self._flag(node, add={NodeFlag.MAINTENANCE})
