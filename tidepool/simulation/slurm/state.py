"""The state of the fake of Slurm, and what happens to it from outside: machines, accidents, people."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Final

from tidepool.clients.slurm.job import Job, JobState
from tidepool.clients.slurm.request import JobRequest
from tidepool.clients.slurm.scontrol import Node, NodeBase, NodeFlag, NodeState, Reason
from tidepool.simulation.slurm.placement import Need, could_hold
from tidepool.simulation.slurm.queue import FakeQueue

DRAIN: Final = frozenset({NodeFlag.DRAIN})
#: A node of power saving whose machine is off.
OFF: Final = NodeState(NodeBase.IDLE, frozenset({NodeFlag.CLOUD, NodeFlag.POWERED_DOWN}))
_STAYS_AT_A_BOOT: Final = DRAIN | {NodeFlag.CLOUD}


class FakeState:
    """Nodes and jobs in memory. `SimulatedSlurm` says what its arguments are."""

    _queue_type: type[FakeQueue] = FakeQueue

    def __init__(
        self,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        run_time_s: Callable[[JobRequest], float] = lambda _: inf,
        partitions: tuple[str, ...] | Mapping[str, tuple[str, ...]] = ("all",),
        max_nodes: int = 2048,
        *,
        requeue_s: float = 1,
        slurmd_timeout_s: float = inf,
        min_job_age_s: float = inf,
        backfill: bool = True,
    ) -> None:
        self.told: dict[int, list[str]] = {}
        self._now = now
        self._partitions = (
            dict(partitions) if isinstance(partitions, Mapping) else dict.fromkeys(partitions, ())
        )
        self._max_nodes = max_nodes
        self._slurmd_timeout_s = slurmd_timeout_s
        self._nodes: dict[str, Node] = {}
        self._shapes: dict[tuple[object, ...], list[str]] | None = None
        self.queue = self._queue_type(
            self._nodes,
            run_time_s,
            self._is_in,
            requeue_s=requeue_s,
            remember_s=min_job_age_s,
            backfill=backfill,
        )
        self.queue.most_nodes = self._most_nodes
        self._could_hold: dict[Need, int] = {}

    # What happens outside

    def boot(self, *names: str) -> None:
        """The machines of these slots boot, and their slurmd registers; what ran on them before is lost."""
        now = self._now()
        for name in names:
            for job_id in self.queue.on(name):
                self.queue.put_back(job_id, now, JobState.NODE_FAIL)
            node = self._nodes[name]
            stays = node.state.flags & _STAYS_AT_A_BOOT
            if NodeFlag.INVALID_REG in node.state.flags:
                # Slurm takes back what it did itself to a node that had registered with too little.
                stays -= DRAIN
            state = NodeState(NodeBase.IDLE, stays | {NodeFlag.DYNAMIC_NORM})
            self._nodes[name] = node._replace(state=state, boot_time=now, slurmd_start_time=now)
            if not state.is_draining:
                self._nodes[name] = self._nodes[name]._replace(reason=None)
            self.queue.live(name, now)

    def unplug(self, *names: str) -> None:
        """These machines are gone without a word: their jobs seem to run on, until the node is DOWN."""
        for name in names:
            self.queue.die(name)
            if not self._nodes[name].state.is_slot:
                self._flag(name, add={NodeFlag.NOT_RESPONDING})
                if self._slurmd_timeout_s < inf:
                    late = self._now() + timedelta(seconds=self._slurmd_timeout_s)
                    self.queue.at(late, lambda moment, name=name: self._give_up(name, moment))  # type: ignore[misc]

    def finish(self, job_id: int, state: JobState = JobState.COMPLETED) -> None:
        self.queue.end(job_id, state, self._now())

    def advance(self) -> None:
        self.queue.advance(self._now())

    def next_moment(self) -> datetime | None:
        return self.queue.next_moment()

    def look(self, name: str) -> Node | None:
        """A node as it is in truth, whether the controller answers or not."""
        return self._nodes.get(name)

    # Inside

    def _reason(self, text: str, user: str = "root") -> Reason:
        return Reason(text, user, self._now())

    def _flag(
        self,
        name: str,
        *,
        add: Collection[str] = (),
        remove: Collection[str] = (),
        reason: Reason | None = None,
    ) -> None:
        node = self._nodes[name]
        state = NodeState(node.state.base, (node.state.flags | set(add)) - set(remove))
        kept = None if NodeFlag.DRAIN in remove else node.reason
        self._nodes[name] = node._replace(state=state, reason=reason or kept)
        self.queue.touch()

    def _down(self, name: str, reason: Reason, now: datetime) -> None:
        for job_id in self.queue.on(name):
            self.queue.put_back(job_id, now, JobState.NODE_FAIL)
        node = self._nodes[name]
        self._nodes[name] = node._replace(state=NodeState(NodeBase.DOWN, node.state.flags), reason=reason)

    def _give_up(self, name: str, now: datetime) -> None:
        """SlurmdTimeout is over, if the node has not answered since."""
        node = self._nodes.get(name)
        silent_s = now - timedelta(seconds=self._slurmd_timeout_s)
        if (
            node is not None
            and self.queue.is_dead(name)
            and not node.state.is_slot
            and (node.slurmd_start_time is None or node.slurmd_start_time <= silent_s)
        ):
            # A reason that is there stays.
            self._down(name, node.reason or self._reason("Not responding", "slurm"), now)

    def _is_in(self, node: Node, partition: str) -> bool:
        features = self._partitions[partition]
        return not features or any(feature in node.features for feature in features)

    def _kinds(self, partitions: Collection[str]) -> list[Node]:
        """One node of each kind in one of ``partitions``, slots too."""
        nodes = (self._nodes[names[0]] for names in self._alike().values())
        return [node for node in nodes if any(self._is_in(node, name) for name in partitions)]

    def _most_nodes(self, job: Job, wanted: Need) -> int:
        """Return how many nodes could hold a share of ``job``, when they were up and nothing else was there."""
        alike = self._alike()
        if wanted not in self._could_hold:
            self._could_hold[wanted] = sum(
                len(names)
                for names in alike.values()
                if any(self._is_in(self._nodes[names[0]], name) for name in job.partitions)
                and could_hold(self._nodes[names[0]], job)
            )
        return self._could_hold[wanted]

    def _alike(self) -> dict[tuple[object, ...], list[str]]:
        """The names of nodes that are alike, by what they have."""
        if self._shapes is None:
            self._shapes, self._could_hold = {}, {}
            for node in self._nodes.values():
                key = (node.cpus, node.memory_mib, node.gres, node.features)
                self._shapes.setdefault(key, []).append(node.name)
        return self._shapes

    def _all_jobs(self) -> list[Job]:
        queue = self.queue
        return [*queue.waiting.values(), *queue.running.values(), *queue.ended.values()]
