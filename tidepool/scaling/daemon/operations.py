"""Ups, one at a time: which is next, what is still right of it when it begins, and what it came to.

An `up` is of nodes of fleets, or of roles of pools' machines. It runs beside the turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from tidepool.cluster.hostlist import HostSet
from tidepool.infrastructures import Infrastructure
from tidepool.scaling.act.act import LEAVING, Batch, Hands, applied, ended, nodes_of, still_suspended
from tidepool.scaling.act.conversions import Conversions, Moves, serving
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.daemon.launches import AskBoot
from tidepool.scaling.decide.remember import begun, moved, unmoved
from tidepool.scaling.decision import Convert, Decision
from tidepool.scaling.memory import Memory
from tidepool.scaling.observe.observation import Observation
from tidepool.scaling.observe.observe import Observer, PoolsUnseen
from tidepool.scaling.observe.source import backoff_s
from tidepool.scaling.ports import (
    Failure,
    Intent,
    Kept,
    LeaderJournal,
    Occupied,
    Stack,
    StackError,
    UpOutcome,
)
from tidepool.scaling.power.spool import Requests

#: How long a leader may be silent until another takes over: longer than Slurm may let it wait for an answer.
LEASE_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Dependencies of the loop. ``say`` is told of all that happens: a name, and what goes with it."""

    holder: str
    journal: LeaderJournal
    observer: Observer
    stack: Stack
    machines: Infrastructure
    decide: Callable[[ClusterState, Memory], Decision]
    remember: Callable[[Memory, UpOutcome, datetime], Memory]
    #: Runs one `up` at a time.
    beside: Executor
    now: Callable[[], datetime]
    #: Never goes back, and goes on while this process is stopped.
    monotonic_s: Callable[[], float]
    say: Callable[..., None]
    #: Called by whatever thread has ended an `up`.
    wake: Callable[[], None] = lambda: None
    #: What Slurm's power saving asks for, on the controller that a connection leads to. None where nothing can.
    open_requests: Callable[[Mapping[str, Any]], Requests] | None = None
    #: Called when it begins to lead: what it will need can be prepared.
    prepare: Callable[[], object] = lambda: None
    #: Asks machines for the times of their boots, beside the turns. None where nothing can.
    ask_boot: AskBoot | None = None
    #: Whether the holder of a lease has certainly ended.
    is_gone: Callable[[str], bool] = lambda _: False
    lease_s: float = LEASE_S


@dataclass(slots=True)
class Running:
    """An `up`, and what it is for."""

    future: Future[UpOutcome]
    batch: Batch | Moves


@dataclass(slots=True)
class State:
    """The state of the leader; the journal has all of it."""

    desired: Mapping[str, HostSet]
    memory: Memory
    power_up: frozenset[str]
    power_down: frozenset[str]
    #: Intents of the last holder that have no result. They are carried out as if they were just decided.
    inherited: tuple[Intent, ...] = ()
    pending: list[Intent] = field(default_factory=list)
    running: Running | None = None
    #: The last `up` was of roles: if others wait, they are next.
    has_moved: bool = False
    #: Since when Kubernetes is to be looked at once more, for machines that are to move.
    moves_since_s: float | None = None
    version: str = ""
    kept_at_s: float = 0.0
    kept: Kept | None = None

    def to_kept(self) -> Kept:
        """Return what the next daemon has to know."""
        return Kept(self.desired, self.memory, self.power_up, self.power_down, self.version)


_RETRY_S: Final = (0.25, 4.0)


class Operations:
    """Begins and ends them. ``keep`` writes down where the daemon is, ``tell_ended`` what intents came to."""

    def __init__(
        self,
        dependencies: Dependencies,
        hands: Hands,
        may_act: Callable[[], bool],
        keep: Callable[[State], None],
        tell_ended: Callable[[list[Intent]], None],
    ) -> None:
        self._dependencies = dependencies
        self._hands = hands
        self._conversions = Conversions(dependencies.observer, dependencies.now, may_act)
        self._may_act = may_act
        self._write_kept = keep
        self._tell_ended = tell_ended
        self._retries = 0
        self._after_s = float("-inf")

    def begin(self, state: State, observation: Observation) -> None:
        """Begin an `up` for all that is pending, where none is under way."""
        if state.running is not None or not state.pending or self._dependencies.monotonic_s() < self._after_s:
            return
        roles = [intent for intent in state.pending if isinstance(intent.action, Convert)]
        nodes = [intent for intent in state.pending if not isinstance(intent.action, Convert)]
        # Conversions take seconds, so they go first; but not again and again before others.
        if roles and not (state.has_moved and nodes) and self._begin_moves(state, roles, nodes):
            return
        if nodes:
            self._begin_nodes(state, observation, nodes, roles)

    def _begin_nodes(
        self, state: State, observation: Observation, intents: list[Intent], others: list[Intent]
    ) -> None:
        batch = self._hands.batch(intents, state.desired)
        if batch.overtaken:
            self._leave(state, batch)
        if not batch.nodes:
            self._end_overtaken(state, batch, others)
            return
        if not self._may_act():
            return
        state.memory = begun(state.memory, batch.nodes, self._dependencies.now())
        if batch.dead:
            self._hands.give_back_jobs(batch.dead)
        desired = applied(observation.told.fleets, state.desired, batch.nodes)
        locations = state.memory.locations
        self._run(
            state,
            batch,
            others,
            self._dependencies.beside.submit(
                self._dependencies.stack.up,
                desired,
                frozenset(batch.nodes),
                locations={name: locations[name] for name in batch.nodes if name in locations},
                refresh=batch.refresh,
                suspended=still_suspended(observation.told.suspended, batch.nodes, batch.suspended),
            ),
        )

    def _begin_moves(self, state: State, intents: list[Intent], others: list[Intent]) -> bool:
        """Return whether something was done about ``intents``: where Kubernetes is still to be looked at, others go first."""
        if self._dependencies.stack.is_busy():
            # Nothing is ordered that nobody could carry out.
            self._wait("an operation is under way on the stack")
            return True
        if state.moves_since_s is None:
            state.moves_since_s = self._dependencies.monotonic_s()
        try:
            looked = self._conversions.moves(intents, state.moves_since_s)
            if looked is None:
                return False
            moves, fresh = looked
            if moves.nodes and self._may_act():
                moves = self._conversions.order(moves, fresh)
        except PoolsUnseen as error:
            # All else goes on, and they are decided anew when it can be seen.
            why = dict.fromkeys(nodes_of(intents), str(error))
            moves = Moves(tuple(intents), {}, {}, frozenset(), why)
        state.moves_since_s = None
        if moves.overtaken:
            self._stay(state, moves)
        if not moves.nodes:
            self._end_overtaken(state, moves, others)
            return True
        if not self._may_act():
            return True
        self._run(
            state,
            moves,
            others,
            self._dependencies.beside.submit(
                self._dependencies.stack.convert,
                serving(fresh.recorded, moves),
                frozenset(moves.nodes),
                refresh=moves.refresh,
            ),
        )
        return True

    def _run(
        self, state: State, batch: Batch | Moves, others: list[Intent], future: Future[UpOutcome]
    ) -> None:
        self._dependencies.say("up-begins", nodes=tuple(batch.nodes), refresh=tuple(batch.refresh))
        state.pending, state.running = others, Running(future, batch)
        state.has_moved = isinstance(batch, Moves)
        future.add_done_callback(lambda _: self._dependencies.wake())

    def _end_overtaken(self, state: State, batch: Batch | Moves, others: list[Intent]) -> None:
        """Nothing of it is right any more."""
        state.pending = others
        at = self._dependencies.now()
        self._tell_ended([ended(i, nodes_of([i]), batch.overtaken, {}, at) for i in batch.intents])

    def _stay(self, state: State, moves: Moves) -> None:
        """Machines that were to move stay what they are."""
        for name, why in moves.overtaken.items():
            self._dependencies.say("overtaken", node=name, text=why)
        self._conversions.withdraw(moves.overtaken)
        state.memory = unmoved(state.memory, moves.overtaken)
        self._write_kept(state)

    def _wait(self, text: str) -> None:
        self._retries += 1
        self._after_s = self._dependencies.monotonic_s() + backoff_s(self._retries, *_RETRY_S)
        self._dependencies.say("occupied", text=text, retries=self._retries)

    def _leave(self, state: State, batch: Batch) -> None:
        """Nodes that were to go and stay are desired again."""
        for name, why in batch.overtaken.items():
            self._dependencies.say("overtaken", node=name, text=why)
        desired = dict(state.desired)
        for intent in batch.intents:
            if isinstance(intent.action, LEAVING):
                back = HostSet.from_names([name for name in intent.action.nodes if name in batch.kept])
                desired[intent.action.fleet] = desired.get(intent.action.fleet, HostSet()) | back
        if desired != state.desired:
            state.desired = desired
            self._write_kept(state)

    def collect(self, state: State) -> None:
        """Take note of what an `up` came to."""
        running = state.running
        if running is None or not running.future.done():
            return
        state.running = None
        self._dependencies.observer.expect()
        batch, at = running.batch, self._dependencies.now()
        try:
            outcome = running.future.result()
        except Occupied as error:
            # What is still right when it is free is done then.
            state.pending = [*batch.intents, *state.pending]
            self._wait(str(error))
            return
        except StackError as error:
            outcome = self._failed(batch, str(error))
        except Exception as error:  # noqa: BLE001 - a fault of ours in an `up` must not end the daemon, and is told
            outcome = self._failed(batch, f"a fault of Tidepool: {error!r}")
        self._retries = 0
        self._dependencies.say("up-ended", outcome=outcome)
        if isinstance(batch, Moves):
            state.memory = moved(state.memory, batch.nodes, outcome, at)
            self._conversions.withdraw(batch.nodes)
        else:
            state.memory = self._dependencies.remember(state.memory, outcome, at)
        failed = {name: failure.text for name, failure in outcome.failed.items()}
        done = [ended(each, nodes_of([each]), batch.overtaken, failed, at) for each in batch.intents]
        self._write_kept(state)
        self._tell_ended(done)

    def _failed(self, batch: Batch | Moves, text: str) -> UpOutcome:
        self._dependencies.say("up-failed", text=text)
        return UpOutcome(failed={name: Failure("transient", text) for name in batch.nodes})
