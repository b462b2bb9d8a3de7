"""The simulated cluster: its parts put together, the daemon's own turns in it, and time that goes by."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any, Final

from tidepool.clients.slurm import JobRequest, Slots
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.hostlist import fold
from tidepool.cluster.pool import ConvergedPool
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.daemon.loop import Loop, Turn
from tidepool.scaling.daemon.operations import Dependencies
from tidepool.scaling.decision import Decision
from tidepool.scaling.memory import Memory
from tidepool.scaling.observe.observe import Observer
from tidepool.scaling.ports import UpOutcome
from tidepool.simulation.journal import MemoryJournal
from tidepool.simulation.machines import SimulatedMachines
from tidepool.simulation.simulated_time import Clock, Pacing
from tidepool.simulation.slurm.fake import SimulatedSlurm
from tidepool.simulation.stack import SimulatedStack

#: A real daemon renews its lease all the time. Here it looks when there is something to see, once an hour at least.
LEASE_S: Final = 2 * 3600.0
START: Final = datetime(2026, 1, 5, tzinfo=UTC)
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Speeds:
    """Durations, in seconds.

    ``look`` is the shortest time between two looks of the daemon, and between a change and the look that sees it.
    ``latest`` is the longest. Without ``echoes`` it does not look again and again after a change, which is quicker where nothing goes wrong.
    """

    boot: float = 2
    up_overhead: float = 0.5
    requeue: float = 11
    slurmd_timeout: float = 50
    look: float = 0.5
    latest: float = 3600
    echoes: bool = True


class SimulatedCluster:
    """Slurm, machines, stack and journal of ``spec``, empty, at the moment ``start``.

    What jobs run for stands in their scripts (`sleeping`).
    """

    _slurm_type: type[SimulatedSlurm] = SimulatedSlurm
    _machines_type: type[SimulatedMachines] = SimulatedMachines
    _stack_type: type[SimulatedStack] = SimulatedStack
    _journal_type: type[MemoryJournal] = MemoryJournal

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        start: datetime = START,
        speeds: Speeds = Speeds(),
        backfill: bool = True,
    ) -> None:
        self.speeds = speeds
        self.clock = Clock(start)
        self.slurm = self._slurm_type(
            lambda: self.clock.true,
            run_time_s=run_time_s,
            partitions={partition.name: partition.fleets or () for partition in spec.partitions},
            max_nodes=70_000,
            requeue_s=speeds.requeue,
            slurmd_timeout_s=speeds.slurmd_timeout,
            min_job_age_s=300,
            backfill=backfill,
        )
        self.machines = self._machines_type(
            self.clock,
            self.slurm,
            lambda _: self.speeds.boot,
            {fleet.name: price(fleet) for fleet in spec.fleets},
        )
        self.stack = self._stack_type(
            spec.name, spec, self.clock, self.slurm, self.machines, self.wait, speeds.up_overhead
        )
        self.journal = self._journal_type()
        self.executor = InSimulatedTime(self)
        self.turns = 0
        self._daemons: list[Daemon] = []
        for fleet in spec.fleets:
            self.declare(fleet)

    @property
    def spec(self) -> ClusterSpec:
        """Return what a person brought up last."""
        return self.stack.spec

    def run_scaler(self, make: Callable[[], Loop]) -> Daemon:
        daemon = Daemon(self, make)
        self._daemons.append(daemon)
        return daemon

    def submit(self, request: JobRequest) -> int:
        job_id = self.slurm.submit(request).job_id
        self.wake()
        return job_id

    def declare(self, fleet: Fleet | ConvergedPool) -> None:
        slots = fleet.slots()
        self.slurm.create_slots(
            Slots(
                names=fold(slot.node_name for slot in slots),
                addresses=",".join(str(slot.address) for slot in slots),
                cpus=fleet.shape.cpus,
                memory_mib=fleet.shape.memory_mib,
                features=(fleet.name, *fleet.features),
                gres=",".join(map(str, fleet.shape.gres)),
            )
        )

    def wake(self) -> None:
        """Something has changed that a daemon sees when it looks."""
        for daemon in self._daemons:
            daemon.wake()

    def run(self, seconds: float = inf, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time go by: so many seconds, or until something holds, or nothing is to happen any more.

        Returns:
            Whether ``until`` held.
        """
        latest = None if seconds == inf else self.clock.true + timedelta(seconds=seconds)
        while not until():
            moment = self._next_moment()
            if moment is None or (latest is not None and moment > latest):
                if latest is not None:
                    self.clock.advance(latest)
                return until()
            self._happen(moment)
        return True

    def wait(self, done: Callable[[], bool], most_s: float) -> None:
        """For what takes simulated time inside of a call: everything else goes on meanwhile."""
        over = False

        def late() -> None:
            nonlocal over
            over = True

        self.clock.after(most_s, late)
        self.run(until=lambda: over or done())

    # Inside

    def _next_moment(self) -> datetime | None:
        moments = [self.clock.next_moment(), self.slurm.next_moment()]
        moments += [daemon.next_look for daemon in self._daemons if daemon.can_look]
        return min((moment for moment in moments if moment is not None), default=None)

    def _happen(self, moment: datetime) -> None:
        self.clock.advance(moment)
        now = self.clock.true
        of_slurm, of_clock = self.slurm.next_moment(), self.clock.next_moment()
        changes = self.slurm.queue.changes
        if of_slurm is not None and of_slurm <= now:
            self.slurm.advance()
        elif of_clock is not None and of_clock <= now:
            self.clock.happen()
            self.slurm.advance()
        else:
            for daemon in self._daemons:
                if daemon.can_look and daemon.next_look <= now:
                    self.turns += 1
                    daemon.look()
        if changes != self.slurm.queue.changes:
            self.wake()


class Daemon:
    """A scaler that runs: it looks when something has changed, and when its memory says that it should."""

    def __init__(self, cluster: SimulatedCluster, make: Callable[[], Loop]) -> None:
        self.next_look = cluster.clock.true
        self.scaler = make()
        self.last: Turn | None = None
        self._cluster = cluster
        self._pacing = Pacing(cluster.speeds.look, cluster.speeds.latest, echoes=cluster.speeds.echoes)
        self._looking = False

    @property
    def can_look(self) -> bool:
        return not self._looking

    def wake(self) -> None:
        self._pacing.changed()
        pause = timedelta(seconds=self._cluster.speeds.look)
        self.next_look = min(self.next_look, self._cluster.clock.true + pause)

    def look(self) -> None:
        cluster = self._cluster
        self._looking = True
        # What changes meanwhile calls for another look.
        self.next_look = _NEVER
        try:
            self.last = self.scaler.turn()
        finally:
            self._looking = False
        # It goes by its own clock, right or wrong.
        ahead = timedelta(seconds=cluster.clock.ahead_s)
        due = self._pacing.next_look(self.last, cluster.spec, cluster.clock())
        self.next_look = min(self.next_look, due - ahead)


class InSimulatedTime(Executor):
    """Runs what takes long beside the daemon, in simulated time."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def runs() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as error:  # noqa: BLE001 - it is whoever asks for the result who is told
                future.set_exception(error)
            self._cluster.wake()

        self._cluster.clock.after(0, runs)
        return future


def price(fleet: Fleet) -> float:
    """Return what a node of the fleet costs, in US dollars an hour."""
    return fleet.infrastructures[0].price_usd_per_hour


def sleeping(seconds: float) -> str:
    """A script that runs so long."""
    return f"#!/bin/sh\nsleep {seconds:g}\n"


def run_time_s(request: JobRequest) -> float:
    """Return how long a job of `sleeping` runs once it began."""
    return float(request.script.rpartition("sleep ")[2])


def simulated_scaler(
    cluster: SimulatedCluster,
    *,
    decide: Callable[[ClusterState, Memory], Decision],
    remember: Callable[[Memory, UpOutcome, datetime], Memory],
) -> Loop:
    """A daemon that was just started."""
    observer = Observer(
        cluster.stack.name,
        cluster.stack,
        cluster.machines,
        lambda _: cluster.slurm,
        monotonic_s=cluster.clock.monotonic_s,
        now=cluster.clock,
    )
    return Loop(
        Dependencies(
            holder="simulated",
            journal=cluster.journal,
            observer=observer,
            stack=cluster.stack,
            machines=cluster.machines,
            decide=decide,
            remember=remember,
            beside=cluster.executor,
            now=cluster.clock,
            monotonic_s=cluster.clock.monotonic_s,
            say=lambda *_, **__: None,
            lease_s=LEASE_S,
        )
    )
