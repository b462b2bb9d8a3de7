"""One turn of the scaler: look, decide, write down, act. Whoever calls it says when the next is due.

It has no thread and no clock of its own: an `up` runs in the executor that it is handed, beside the turns that follow.
So a simulation runs the very same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, Literal

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import HostSet
from tidepool.scaling.act.act import LEAVING, Hands, adopted, is_for_the_stack, nodes_of
from tidepool.scaling.cluster_state import ClusterState, is_at_work
from tidepool.scaling.daemon import budgets
from tidepool.scaling.daemon.audit import Audit
from tidepool.scaling.daemon.launches import LaunchWatch
from tidepool.scaling.daemon.operations import Dependencies, Operations, State
from tidepool.scaling.decide.account_budgets import once_held, warnings
from tidepool.scaling.decision import Decision, Launch
from tidepool.scaling.memory import BudgetUse, Memory, outlasting
from tidepool.scaling.observe.observation import Observation
from tidepool.scaling.observe.observe import Unseen
from tidepool.scaling.observe.source import PollInterval, backoff_s
from tidepool.scaling.ports import (
    Fenced,
    Intent,
    JournalError,
    Kept,
    Lease,
)
from tidepool.scaling.power.spool import PowerDemand, PowerRequests, power_demand

_LOOK: Final = {True: PollInterval(0.1, 0.1, 1), False: PollInterval(0.012, 0.5, 2)}
_PAUSED: Final = PollInterval(0.02, 1, 10)
#: How often it is decided anew where nothing was seen to change: only time has gone by.
_DECIDE: Final = {True: PollInterval(0.1, 0.2, 5), False: PollInterval(0.01, 1, 10)}
#: For how long after a change others are awaited.
_STIR_S: Final = 5.0
_NO_TIME: Final = datetime.min.replace(tzinfo=UTC)
_HOLD_STILL_S: Final = (0.5, 10.0)
_KEEP_S: Final = 10.0
#: One that waits for a lease that ends right now looks again after this.
_SOONEST_S: Final = 0.1

Role = Literal["leads", "paused", "stands by", "holds still", "waits"]


@dataclass(frozen=True, slots=True)
class Turn:
    """Outcome of a turn, and when the next is due."""

    role: Role
    again_in_s: float
    text: str = ""
    observation: Observation | None = None
    decision: Decision | None = None


class Loop:
    """The scaler's turns. `turn` and `stop` are called by one thread."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._hands = Hands(
            dependencies.observer, dependencies.stack, dependencies.machines, dependencies.now, self._may_act
        )
        self._launches = LaunchWatch(dependencies.journal, dependencies.ask_boot)
        self._operations = Operations(
            dependencies,
            self._hands,
            self._may_act,
            partial(self._write_kept, at_once=True),
            self._tell_ended,
        )
        self._audit = Audit(dependencies.journal, dependencies.monotonic_s)
        self._lease: Lease | None = None
        self._lease_until_s = float("-inf")
        self._renew_at_s = float("-inf")
        self._state: State | None = None
        self._is_active = True
        self._failures = 0
        #: Why something could not be written down, until a whole turn could be.
        self._unwritten = ""
        self._decided_for: ClusterState | None = None
        self._decided_at_s = float("-inf")
        self._changed_at_s = float("-inf")
        self._decide_cost_s = 0.0
        self._decision: Decision | None = None
        self._is_down = False
        self._power_requests = PowerRequests(dependencies.open_requests, dependencies.say)

    def turn(self) -> Turn:
        try:
            if not self._leads():
                return self._waits_for_lease()
            turn = self._led()
        except Fenced:
            return self._fenced()
        except JournalError as error:
            # What could not be written down is decided anew.
            self._decided_for = None
            if not self.is_at_work:
                # What of it was written is read again when it can be.
                self._state = None
            self._unwritten = f"the journal: {error}"
            return self._still(self._unwritten)
        except Unseen as error:
            return self._unseen(error)
        if self._unwritten and turn.role == "leads":
            # It began, and what failed may be yet to come: that all is well would be said too soon.
            return replace(turn, role="holds still", text=self._unwritten)
        self._failures = 0
        return turn

    @property
    def is_at_work(self) -> bool:
        return self._state is not None and self._state.running is not None

    def finish(self) -> None:
        """Take note of an `up` that has ended, and begin no other; until then, go on leading."""
        try:
            if self.is_at_work and self._leads() and (state := self._state) is not None:
                self._operations.collect(state)
        except JournalError as error:
            if self._unwritten != (text := f"the journal: {error}"):
                self._unwritten = text
                self._dependencies.say("journal-failed", text=str(error))
            if self._state is not None and self._state.running and self._state.running.future.done():
                # It cannot be noted, so nobody waits for it any longer.
                self._state = None

    def stop(self) -> None:
        """Let go of the lease, so that another need not wait."""
        lease, self._lease = self._lease, None
        if lease is not None:
            try:
                self._launches.end(lease)
                self._dependencies.journal.release(lease)
                self._dependencies.say("released", epoch=lease.epoch)
            except JournalError as error:
                self._dependencies.say("journal-failed", text=str(error))
        self._dependencies.observer.close()

    # The lease

    def _leads(self) -> bool:
        now_s = self._dependencies.monotonic_s()
        if self._lease is not None and now_s < self._renew_at_s:
            return True
        lease = self._acquired()
        if lease is None:
            self._drop()
            return False
        if self._lease is None or lease.epoch != self._lease.epoch:
            self._state = None
            self._dependencies.say("leads", epoch=lease.epoch)
            self._dependencies.prepare()
        self._lease = lease
        # From before it was asked for: it may have been given at once, and the answer have come late.
        self._lease_until_s, self._renew_at_s = (
            now_s + self._dependencies.lease_s,
            now_s + self._dependencies.lease_s / 3,
        )
        return True

    def _acquired(self) -> Lease | None:
        dependencies = self._dependencies
        lease = dependencies.journal.acquire(dependencies.holder, dependencies.now(), dependencies.lease_s)
        if (
            lease is None
            and (leader := dependencies.journal.leader())
            and dependencies.is_gone(leader.holder)
        ):
            # It was killed: nobody comes back for the rest of its time.
            dependencies.journal.release(leader)
            lease = dependencies.journal.acquire(
                dependencies.holder, dependencies.now(), dependencies.lease_s
            )
        return lease

    def _may_act(self) -> bool:
        """Return whether the lease holds, by the time and by the journal. Asked before each effect."""
        if self._lease is None or self._dependencies.monotonic_s() >= self._lease_until_s:
            return False
        leader = self._dependencies.journal.leader()
        return leader is not None and (leader.holder, leader.epoch) == (self._lease.holder, self._lease.epoch)

    def _drop(self) -> None:
        if self._lease is not None:
            self._dependencies.say("lost-the-lease", epoch=self._lease.epoch)
        self._lease, self._state, self._decision, self._decided_for = None, None, None, None

    def _waits_for_lease(self) -> Turn:
        leader = self._dependencies.journal.leader()
        pause_s = self._dependencies.lease_s / 3
        if leader is None:
            return Turn("stands by", pause_s, "another leads")
        # At the end of a lease that nobody renewed the next one leads, not some seconds later.
        left_s = (leader.until - self._dependencies.now()).total_seconds()
        who = f"{'/'.join(leader.holder.split('/')[:2])} leads"
        return Turn("stands by", min(pause_s, max(left_s, _SOONEST_S)), who)

    def _fenced(self) -> Turn:
        self._drop()
        return Turn(
            "stands by", self._dependencies.lease_s / 3, "the lease was taken by another daemon, or is gone"
        )

    # Turns that do nothing

    def _unseen(self, error: Unseen) -> Turn:
        try:
            if error.is_down:
                return self._waits(str(error))
            if self._lease is not None:
                self._audit.troubled(self._lease, [str(error)], self._dependencies.now())
        except Fenced:
            return self._fenced()
        except JournalError as journal_error:
            return self._still(f"{error}; the journal: {journal_error}")
        return self._still(str(error))

    def _still(self, text: str) -> Turn:
        self._failures += 1
        return Turn("holds still", backoff_s(self._failures, *_HOLD_STILL_S), text)

    def _waits(self, text: str) -> Turn:
        """There is no cluster: nothing is desired, and nothing is remembered but what was spent, and what was used of budgets."""
        state = self._state or self._taken_over()
        if not self._is_down:
            assert self._lease is not None
            open_ones = {
                each.id: each for each in [*self._dependencies.journal.open_intents(), *state.pending]
            }
            if open_ones:
                at = self._dependencies.now()
                self._dependencies.journal.ended(
                    self._lease,
                    [replace(each, result="overtaken", ended=at, text=text) for each in open_ones.values()],
                )
            self._dependencies.journal.write_kept(
                self._lease,
                Kept({}, outlasting(state.memory), state.power_up, state.power_down),
            )
            self._state, self._is_down = None, True
        return Turn("waits", 2.0, text)

    # The turn of the leader

    def _led(self) -> Turn:
        dependencies = self._dependencies
        if self._state is None:
            self._state = self._taken_over()
        state = self._state
        self._operations.collect(state)
        paused = dependencies.journal.paused()
        observation = dependencies.observer.look(
            is_active=self._is_active, reads_stack=state.running is None, memory=state.memory
        )
        self._is_down = False
        self._adopt(state, observation)
        if observation.seen.spec.scaling.mode == "power_save":
            self._hear(state, observation)
        cluster = self._cluster_state(state, observation)
        if paused is not None:
            return self._paused(state, observation, cluster, paused.by, paused.reason)
        if state.inherited:
            inherited, state.inherited = state.inherited, ()
            self._act(state, inherited, {node.name for node in cluster.nodes})
            return Turn("leads", 0, "", observation, self._decision)
        before = state.memory
        decision = self._decided(state, cluster)
        if decision is not None:
            self._hold_to_budgets(state, cluster, decision, before.budgets)
            if decision.actions:
                self._take(state, cluster, decision)
            # Afterwards: of a very large cluster it takes a third of a second.
            self._look_back(cluster, decision, observation.complaints.values())
            dependencies.observer.show_pools(observation.told, cluster, decision)
            self._record_launches(state, cluster, before, decision, observation)
        self._operations.begin(state, observation)
        self._write_kept(state)
        self._unwritten = ""
        self._is_active = self._is_active_now(state)
        again_in_s = _LOOK[self._is_active].interval_s(dependencies.observer.cost_s)
        return Turn("leads", again_in_s, "", observation, self._decision)

    def _taken_over(self) -> State:
        kept = self._dependencies.journal.kept()
        inherited = self._dependencies.journal.open_intents()
        if inherited:
            self._dependencies.say("inherited", intents=len(inherited))
        return State(
            desired=dict(kept.desired or {}),
            memory=kept.memory,
            power_up=kept.power_up,
            power_down=kept.power_down,
            inherited=inherited,
            version=kept.version,
        )

    def _cluster_state(self, state: State, observation: Observation) -> ClusterState:
        return replace(
            observation.seen,
            at=self._dependencies.now(),
            desired=state.desired,
            under_way=nodes_of(self._open(state)),
            power_up=state.power_up,
            power_down=state.power_down,
        )

    def _open(self, state: State) -> tuple[Intent, ...]:
        running = state.running.batch.intents if state.running else ()
        return (*running, *state.pending, *filter(is_for_the_stack, state.inherited))

    def _adopt(self, state: State, observation: Observation) -> None:
        """Take over what a person did to the stack since it was read last."""
        recorded = observation.seen.recorded
        if observation.told.version == state.version or recorded is None:
            return
        state.version = observation.told.version
        doing = self._open(state)
        desired = adopted(
            state.desired,
            observation.told.fleets,
            recorded,
            nodes_of(doing, Launch),
            nodes_of(doing, LEAVING),
        )
        if _some(desired) != _some(state.desired):
            self._dependencies.say(
                "adopted",
                before={f: str(h) for f, h in state.desired.items()},
                after={f: str(h) for f, h in desired.items()},
            )
            state.desired = desired
            self._write_kept(state, at_once=True)

    def _hear(self, state: State, observation: Observation) -> None:
        """Take note of what Slurm's power saving asks for: in the journal, and only then where it was asked."""
        calls = self._power_requests.calls(observation.told.controller)
        before = PowerDemand(state.power_up, state.power_down)
        now = power_demand(before, observation.seen, state.desired, calls)
        if (now.up, now.down) != (state.power_up, state.power_down):
            state.power_up, state.power_down = now.up, now.down
            self._write_kept(state, at_once=True)
        if calls:
            self._power_requests.done(calls)
            self._dependencies.observer.expect()

    def _paused(
        self, state: State, observation: Observation, cluster: ClusterState, by: str, reason: str
    ) -> Turn:
        """Decide, and do nothing. What is remembered of it would be of things that were never done."""
        began_s = self._dependencies.monotonic_s()
        decision = self._dependencies.decide(cluster, state.memory)
        cost_s = self._dependencies.monotonic_s() - began_s
        self._look_back(cluster, decision, observation.complaints.values())
        self._dependencies.observer.show_pools(observation.told, cluster, decision)
        # Afterwards all waits begin anew.
        pools = replace(state.memory.pools, idle_since={}, abandoned={}, has_room_since={})
        state.memory = replace(
            state.memory, idle_since={}, ill_since={}, has_room_since={}, strays={}, pools=pools
        )
        self._write_kept(state)
        text = f"paused by {by}: {reason}" if reason else f"paused by {by}"
        return Turn("paused", _PAUSED.interval_s(cost_s), text, observation, decision)

    # Deciding

    def _decided(self, state: State, cluster: ClusterState) -> Decision | None:
        """A decision, where something was seen to change, or enough time has gone by."""
        # Time alone is no change, nor is another image, which no machine is remade for, nor what accounts have used by now.
        made_of = replace(cluster, at=_NO_TIME, images={}, usage=None)
        now_s = self._dependencies.monotonic_s()
        wait_s = _DECIDE[self._is_active].interval_s(self._decide_cost_s)
        if made_of != self._decided_for:
            self._changed_at_s = now_s
        elif now_s - self._decided_at_s < wait_s:
            return None
        decision = self._dependencies.decide(cluster, state.memory)
        self._decide_cost_s = self._dependencies.monotonic_s() - now_s
        self._decided_at_s, self._decided_for, self._decision = now_s, made_of, decision
        self._dependencies.say("decided", actions=len(decision.actions), took_s=self._decide_cost_s)
        if not decision.actions:
            state.memory, state.desired = decision.memory, decision.desired
        return decision

    def _hold_to_budgets(
        self, state: State, cluster: ClusterState, decision: Decision, before: Mapping[str, BudgetUse]
    ) -> None:
        """Tell once what is used of budgets, and have Slurm hold accounts whose budget is spent, and no others."""
        former = once_held(cluster.spec, before)
        if not (decision.budgets or former):
            return
        state.memory = replace(state.memory, budgets=decision.memory.budgets)
        _, news = warnings(cluster.spec, decision.budgets, before)
        if news:
            # First: who is killed in between tells it not at all, rather than twice.
            self._write_kept(state, at_once=True)
            budgets.warn(self._dependencies.say, decision.budgets, news)
        if self._may_act():
            let_go = budgets.hold(
                self._dependencies.say, self._dependencies.observer, cluster.spec, decision.budgets, former
            )
            left = {name: use for name, use in state.memory.budgets.items() if name not in let_go}
            state.memory = replace(state.memory, budgets=FrozenDict(left))

    def _take(self, state: State, cluster: ClusterState, decision: Decision) -> None:
        assert self._lease is not None
        intents = self._dependencies.journal.decided(self._lease, cluster, state.memory, decision)
        state.memory, state.desired = decision.memory, decision.desired
        state.kept, state.kept_at_s = state.to_kept(), self._dependencies.monotonic_s()
        for intent in intents:
            self._dependencies.say("intends", intent=intent)
        idle = {node.name for node in cluster.nodes if not is_at_work(node)}
        self._act(state, intents, idle)

    def _look_back(self, cluster: ClusterState, decision: Decision, complaints: Iterable[str]) -> None:
        assert self._lease is not None
        self._audit.looked(self._lease, cluster, decision)
        self._audit.troubled(self._lease, complaints, cluster.at)

    def _record_launches(
        self,
        state: State,
        cluster: ClusterState,
        before: Memory,
        decision: Decision,
        observation: Observation,
    ) -> None:
        assert self._lease is not None
        under_way = state.running.batch.nodes if state.running else ()
        connections = observation.told.connections
        self._launches.looked(self._lease, cluster, before, decision, connections, under_way)

    # Acting

    def _act(self, state: State, intents: tuple[Intent, ...], was_idle: set[str]) -> None:
        state.pending += filter(is_for_the_stack, intents)
        left = [each for each in intents if not is_for_the_stack(each)]
        if not left:
            return
        try:
            done = self._hands.at_once(left, state.memory, was_idle)
        except Unseen:
            # They are open still, and are taken up when Slurm is back.
            state.inherited = (*state.inherited, *left)
            raise
        self._tell_ended(done)

    def _tell_ended(self, intents: list[Intent]) -> None:
        if not intents:
            return
        assert self._lease is not None
        self._dependencies.journal.ended(self._lease, intents)
        for intent in intents:
            self._dependencies.say("ended", intent=intent)

    # What is kept

    def _write_kept(self, state: State, *, at_once: bool = False) -> None:
        now_s = self._dependencies.monotonic_s()
        if state.kept == state.to_kept():
            return
        desired_changed = state.kept is None or state.kept.desired != state.desired
        if not (at_once or desired_changed) and now_s - state.kept_at_s < _KEEP_S:
            return
        assert self._lease is not None
        kept = state.to_kept()
        self._dependencies.journal.write_kept(self._lease, kept)
        state.kept, state.kept_at_s = kept, now_s

    def _is_active_now(self, state: State) -> bool:
        """Return whether the next look is worth more than one at rest. What is amiss for good is not looked at more for that."""
        if state.running is not None or state.pending or state.inherited or state.memory.launches:
            return True
        if state.memory.pools.moving:
            return True
        return self._dependencies.monotonic_s() - self._changed_at_s < _STIR_S


def _some(fleets: Mapping[str, HostSet]) -> dict[str, HostSet]:
    """Without the fleets that have no node: whether they are named says nothing."""
    return {fleet: hosts for fleet, hosts in fleets.items() if hosts}
