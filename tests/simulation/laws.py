"""What must hold at every moment of a simulation, whatever goes wrong."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from datetime import datetime, timedelta

from tests.simulation.machines import FaultyCluster
from tidepool.clients.slurm import Job, JobState
from tidepool.infrastructures import MachineKey
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decision import Decision, Launch, Remove, Undrain
from tidepool.scaling.memory import Memory
from tidepool.simulation.cluster import price

#: Longer than any grace of the scaler's: a machine of no record is gone by then, where nothing keeps it.
STRAY = timedelta(minutes=20)
#: Longer than a boot, its replacement, and the pauses between.
COMING = timedelta(hours=2)
#: More decisions that change something than this in an hour are decisions that come to nothing.
RESTLESS = 600
#: A job may end like this by its own doing.
OWN = {JobState.COMPLETED, JobState.TIMEOUT, JobState.CANCELLED}


class Broken(AssertionError):
    """A law does not hold."""


class Laws:
    """Watches a cluster. ``hampered`` says that an accident goes on: then what takes time may take longer.

    `decide` is to be taken in place of what it was given: it judges each decision as well.
    """

    def __init__(
        self,
        cluster: FaultyCluster,
        decide: Callable[[ClusterState, Memory], Decision],
        *,
        thorough: int = 40,
    ) -> None:
        self.hampered = False
        self.decisions = 0
        self.removed = 0
        self.ended: dict[int, JobState] = {}
        self.lost_by_slurm: set[int] = set()
        #: Nodes that a person drained, and has not put back.
        self.drained_by_people: set[str] = set()
        self._cluster = cluster
        self._decide = decide
        self._thorough = thorough
        self._unknown_since: dict[MachineKey, datetime] = {}
        self._coming_since: dict[int, datetime] = {}
        self._changes = -1
        self._acted: deque[datetime] = deque(maxlen=RESTLESS)
        cluster.watch = self.watch
        cluster.slurm.queue.finished = self._ended
        cluster.machines.watch = self._deleted
        down = cluster.slurm.down

        def downed(nodes: str, reason: str) -> None:
            self._set_down(nodes)
            down(nodes, reason)

        cluster.slurm.down = downed  # type: ignore[method-assign]

    # Every moment

    def watch(self) -> None:
        """After everything that happens."""
        cluster = self._cluster
        changes = cluster.slurm.queue.changes + len(cluster.machines.running())
        if changes == self._changes and not self._unknown_since:
            return
        self._changes = changes
        self._watch_strays()
        for name in self.drained_by_people:
            node = cluster.slurm.look(name)
            self.must(
                node is not None and (node.state.is_draining or node.state.is_slot),
                f"{name} was drained by a person, and is not any more",
            )

    def _watch_strays(self) -> None:
        cluster, now = self._cluster, self._cluster.clock.true
        recorded = cluster.stack.recorded
        unknown = {
            key
            for key in cluster.machines.running()
            if key.node not in recorded or not (recorded[key.node].machine or recorded[key.node].pending)
            # What it runs is let run to its end.
            if not cluster.slurm.queue.on(key.node)
        }
        self._unknown_since = {key: self._unknown_since.get(key, now) for key in sorted(unknown)}
        if self.hampered:
            self._unknown_since = dict.fromkeys(self._unknown_since, now)
        for key, since in self._unknown_since.items():
            self.must(now - since <= STRAY, f"{key} runs since {since}, and no record knows of it")

    def forgive(self) -> None:
        """An accident is over: what takes time begins anew."""
        now = self._cluster.clock.true
        self._unknown_since = dict.fromkeys(self._unknown_since, now)
        self._coming_since = dict.fromkeys(self._coming_since, now)

    # What is done to machines and nodes

    def _deleted(self, key: MachineKey) -> None:
        cluster = self._cluster
        machine = cluster.machines.known(key)
        if machine is None or machine.state != "running":
            return
        self.removed += 1
        alone = [other for other in cluster.machines.running() if other.node == key.node] == [key]
        jobs = cluster.slurm.queue.on(key.node)
        # A job on a node that was DOWN before was put back by Slurm; nothing runs there.
        self.must(not (alone and jobs), f"{key} was taken away, and ran the jobs {jobs}")
        self.must(key.node not in self.drained_by_people, f"{key} was taken away, and a person holds it")

    def _set_down(self, nodes: str) -> None:
        from tidepool.cluster.hostlist import expand

        cluster = self._cluster
        alive = {key.node for key in cluster.machines.running()}
        for name in expand(nodes):
            node = cluster.slurm.look(name)
            jobs = cluster.slurm.queue.on(name)
            # Both are there where it booted again: its earlier jobs are lost already.
            if node is not None and name in alive and node.state.takes_jobs:
                self.must(not jobs, f"{name} was set down, and ran the jobs {jobs}")

    def _ended(self, job: Job) -> None:
        self.ended[job.job_id] = job.state

    # Decisions

    def decide(self, state: ClusterState, memory: Memory) -> Decision:
        """A decision that was judged."""
        decision = self._decide(state, memory)
        self.decisions += 1
        self._judge(state, decision)
        if self.decisions % self._thorough == 0:
            self._judge_again(state, memory, decision)
        return decision

    def _judge(self, state: ClusterState, decision: Decision) -> None:
        pending = {job.job_id for job in state.jobs if job.state is JobState.PENDING}
        self.must(
            pending == set(decision.waiting), f"jobs without a reason: {pending ^ set(decision.waiting)}"
        )
        self.must(all(each.reason for each in decision.waiting.values()), "a reason is empty")
        nodes = {node.name: node for node in state.nodes}
        up = {m.key.node for m in state.machines or () if m.state == "running"}
        for action in decision.actions:
            self.must(bool(action.reason), f"{action} has no reason")
            if isinstance(action, Remove):
                for name in action.nodes:
                    busy = name in nodes and nodes[name].cpus_alloc and name in up
                    self.must(not busy, f"{name} is to be removed, and has jobs")
            if isinstance(action, Undrain):
                for name in action.nodes:
                    reason = nodes[name].reason
                    ours = reason is not None and reason.text.startswith("tidepool:")
                    self.must(ours, f"{name} is to be undrained, and somebody else drained it")
            if isinstance(action, Launch):
                self._judge_launch(state, decision, action)
        now = self._cluster.clock.true
        if decision.actions:
            restless = len(self._acted) == RESTLESS and now - self._acted[0] < timedelta(hours=1)
            self.must(not restless, f"it decides again and again: {decision.actions}")
            self._acted.append(now)
        coming = {job_id for job_id, each in decision.waiting.items() if each.standing == "coming"}
        self._coming_since = {job: self._coming_since.get(job, now) for job in sorted(coming)}
        if self.hampered:
            self._coming_since = dict.fromkeys(self._coming_since, now)
        for job_id, since in self._coming_since.items():
            self.must(
                now - since <= COMING,
                f"nodes are coming for job {job_id} since {since}: {decision.waiting[job_id].reason}",
            )

    def _judge_launch(self, state: ClusterState, decision: Decision, action: Launch) -> None:
        spec, desired = state.spec, decision.desired
        fleet = spec.fleet(action.fleet)
        self.must(
            len(desired[fleet.name]) <= fleet.max_nodes,
            f"{len(desired[fleet.name])} nodes of {fleet.name} are wished",
        )
        total = sum(map(len, desired.values()))
        most = spec.limits.max_nodes
        self.must(most is None or total <= most, f"{total} nodes are wished, and {most} may be")
        prices = {fleet.name: price(fleet) for fleet in spec.fleets}
        usd = sum(len(nodes) * prices.get(name, 0) for name, nodes in desired.items())
        limit = spec.limits.price_usd_per_hour
        self.must(limit is None or usd <= limit + 1e-6, f"{usd} USD an hour are wished, and {limit} may be")
        budget = spec.limits.budget_usd_per_month
        spent = decision.cost.month_usd
        self.must(
            budget is None or spent <= budget, f"{spent} USD are spent of {budget}, and nodes are launched"
        )

    def _judge_again(self, state: ClusterState, memory: Memory, decision: Decision) -> None:
        from dataclasses import replace

        turned = replace(
            state,
            nodes=state.nodes[::-1],
            jobs=state.jobs[::-1],
            partitions=state.partitions[::-1],
            machines=state.machines and state.machines[::-1],
        )
        self.must(self._decide(turned, memory) == decision, "the order of what is seen matters")
        after = self._decide(replace(state, desired=decision.desired), decision.memory)
        self.must(not after.actions, f"decided once more, it does {after.actions}, after {decision.actions}")

    # The end

    def judge_end(self, submitted: list[int]) -> None:
        """After all demand is over: nothing is lost, nothing is left."""
        cluster = self._cluster
        for job_id in submitted:
            records = cluster.slurm.queue.records(job_id)
            left = [job for job in records if not job.state.has_ended]
            self.must(not left or job_id in self.lost_by_slurm, f"job {job_id} never ran: {left}")
        states = Counter(state for job, state in self.ended.items() if job not in self.lost_by_slurm)
        self.must(set(states) <= OWN | {JobState.NODE_FAIL, JobState.PREEMPTED}, f"jobs ended as {states}")

    def must(self, holds: bool, otherwise: str) -> None:
        """Something that must hold."""
        if not holds:
            raise Broken(f"{self._cluster.clock.true:%Y-%m-%d %H:%M:%S}: {otherwise}")
