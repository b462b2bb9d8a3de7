"""A Slurm in memory, with the promises of `contract`: for simulations, and for tests of what uses a client."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NoReturn

from tidepool.clients.slurm.contract import (
    Controller,
    ControllerDown,
    NotFound,
    Refused,
    Submitted,
)
from tidepool.clients.slurm.job import Job, JobState
from tidepool.clients.slurm.limits import Limited
from tidepool.clients.slurm.quantities import tres
from tidepool.clients.slurm.request import JobRequest, Slots, node_names
from tidepool.clients.slurm.scontrol import (
    Node,
    NodeBase,
    NodeFlag,
    NodeState,
    Partition,
    PartitionState,
    Reservation,
)
from tidepool.clients.slurm.submission import submitted
from tidepool.cluster.hostlist import expand, fold
from tidepool.simulation.slurm.placement import has_features, need
from tidepool.simulation.slurm.state import DRAIN, OFF, FakeState

WHERE: Final = "in the fake"


class SimulatedSlurm(FakeState):
    """Nodes and jobs in memory; a scheduler that runs whenever something has changed.

    Args:
        now: the clock. Nothing happens by itself: what was to happen by now happens when somebody looks, or by
            `advance`; `next_moment` tells when there will be something.
        run_time_s: how long a job runs once it began; for ever, if not said.
        partitions: the names there are, the first of which is the default. Of a mapping each stands for the
            features one of which a node has to have to be in it; none for all nodes.
        max_nodes: MaxNodeCount.
        requeue_s: after how long a requeued job may run again.
        slurmd_timeout_s: after how long a node that does not answer is DOWN, and its jobs are requeued.
        min_job_age_s: for how long ended jobs are remembered.
        backfill: whether later jobs may start where they delay none before them.

    Beside the client's operations: `boot` and `unplug` are what machines do, and `finish` is the end of a job. ``told`` is what
    jobs' owners were told.
    """

    # Looking

    def ping(self) -> tuple[Controller, ...]:
        return (Controller("primary", "fake", True),)

    def version(self) -> str:
        self._begin_call()
        return "22.05.8"

    def nodes(self, names: str = "") -> tuple[Node, ...]:
        self._begin_call()
        if names:
            return tuple(self._node(name) for name in expand(node_names(names)))
        return tuple(self._nodes.values())

    def jobs(self, states: Collection[JobState] = ()) -> tuple[Job, ...]:
        self._begin_call()
        if not states:
            return (*self.queue.waiting.values(), *self.queue.running.values())
        return tuple(job for job in self._all_jobs() if job.state in states)

    def job(self, job_id: int) -> tuple[Job, ...]:
        self._begin_call()
        return tuple(self._records(job_id))

    def partitions(self) -> tuple[Partition, ...]:
        self._begin_call()
        return tuple(self._partition(name, place == 0) for place, name in enumerate(self._partitions))

    def reservations(self) -> tuple[Reservation, ...]:
        self._begin_call()
        return ()

    def limits(self) -> tuple[Limited, ...]:
        self._begin_call()
        return ()

    def peak_memory_mib(self, job_id: int) -> int | None:
        self._begin_call()
        return None

    def close(self) -> None:
        return

    # Nodes

    def create_slots(self, slots: Slots) -> None:
        slots.arguments()
        self._begin_call()
        names, addresses = expand(slots.names), expand(slots.addresses)
        room = self._max_nodes - len(self._nodes)
        new = [pair for pair in zip(names, addresses, strict=True) if pair[0] not in self._nodes]
        self._shapes = None
        for name, address in new[:room]:
            self.queue.new_shape(name)
            self._nodes[name] = Node(
                name,
                OFF if slots.state == "CLOUD" else NodeState(NodeBase.FUTURE),
                address=address,
                hostname=name,
                cpus=slots.cpus,
                memory_mib=slots.memory_mib,
                features=slots.features,
                active_features=slots.features,
                gres=slots.gres,
                weight=slots.weight,
            )
        if len(new) > room:
            self._refuse(f"Node {new[room][0]} not found")

    def to_future(self, nodes: str) -> None:
        for name in self._idle(nodes):
            self._nodes[name] = self._nodes[name]._replace(
                state=NodeState(NodeBase.FUTURE), reason=None, boot_time=None, slurmd_start_time=None
            )

    def power_down(self, nodes: str) -> None:
        for name in self._named(nodes):
            if self.queue.on(name):
                self._flag(name, add={NodeFlag.POWER_DOWN})
            else:
                # Slurm says so, and has them off when SuspendTimeout is over: see `switched_off`.
                flags = self._nodes[name].state.flags & {NodeFlag.CLOUD} | {NodeFlag.POWERING_DOWN}
                self._nodes[name] = self._nodes[name]._replace(state=NodeState(NodeBase.IDLE, flags))
                self.queue.touch()

    def delete_nodes(self, nodes: str) -> None:
        self._shapes = None
        for name in self._idle(nodes):
            del self._nodes[name]
            self.queue.new_shape(name)

    def set_features(self, nodes: str, features: Collection[str]) -> None:
        self._shapes = None
        for name in self._named(nodes):
            self._nodes[name] = self._nodes[name]._replace(
                features=tuple(features), active_features=tuple(features)
            )
        self.queue.touch()

    def drain(self, nodes: str, reason: str) -> None:
        for name in self._named(nodes):
            self._flag(name, add=DRAIN, reason=self._reason(reason))

    def undrain(self, nodes: str) -> None:
        for name in self._named(nodes):
            self._flag(name, remove=DRAIN)

    def resume(self, nodes: str) -> None:
        for name in self._named(nodes):
            self._flag(name, remove=DRAIN)
            node = self._nodes[name]
            if node.state.base is NodeBase.DOWN:
                self._nodes[name] = node._replace(state=NodeState(NodeBase.IDLE, node.state.flags))

    def down(self, nodes: str, reason: str) -> None:
        for name in self._named(nodes):
            self._down(name, self._reason(reason), self._now())

    def reconfigure(self) -> None:
        self._begin_call()

    def takeover(self) -> None:
        raise ControllerDown("no backup answers", where=WHERE, remedy="name one")

    # Jobs

    def submit(self, request: JobRequest) -> Submitted:
        request.arguments()
        self._begin_call()
        job = submitted(request, self.queue.next_id, self._now(), next(iter(self._partitions)))
        if any(name not in self._partitions for name in job.partitions):
            self._missing("Batch job submission failed: Invalid partition name specified")
        if not any(has_features(node, job.features) for node in self._kinds(job.partitions)):
            self._refuse("Batch job submission failed: Invalid feature specification")
        if not self._most_nodes(job, need(job)):
            self._refuse("Batch job submission failed: Requested node configuration is not available")
        self.queue.add(job, request, self._now())
        return Submitted(job.job_id)

    def cancel(self, job_id: int, *, array_id: str = "") -> None:
        self._begin_call()
        for job in self._tasks(job_id, array_id):
            if not job.state.has_ended:
                self.finish(job.job_id, JobState.CANCELLED)

    def release(self, job_id: int) -> None:
        self._begin_call()
        for job in self._tasks(job_id, ""):
            self.queue.release(job.job_id)

    def requeue(self, job_id: int, *, array_id: str = "") -> None:
        self._begin_call()
        for job in self._tasks(job_id, array_id):
            if job.state is JobState.RUNNING:
                if self.queue.requests[job.job_id].requeue is False:
                    self._refuse(f"Requested operation is presently disabled for job {job_id}")
                self.queue.put_back(job.job_id, self._now(), JobState.CANCELLED)

    def tell(self, job_id: int, message: str, *, array_id: str = "") -> None:
        self._begin_call()
        for job in self._tasks(job_id, array_id):
            said = self.told.setdefault(job.job_id, [])
            if message not in said:
                said.append(message)

    # Inside

    def _begin_call(self) -> None:
        self.advance()

    def _refuse(self, words: str) -> NoReturn:
        raise Refused(f"Slurm refused: {words}", words=words, where=WHERE, remedy="correct the request")

    def _missing(self, words: str) -> NoReturn:
        raise NotFound(f"Slurm refused: {words}", words=words, where=WHERE, remedy="look for its name")

    def _node(self, name: str) -> Node:
        return self._nodes.get(name) or self._missing(f"Node {name} not found")

    def _named(self, nodes: str) -> list[str]:
        names = expand(node_names(nodes))
        self._begin_call()
        return [self._node(name).name for name in names]

    def _idle(self, nodes: str) -> list[str]:
        names = self._named(nodes)
        if any(self.queue.on(name) for name in names):
            self._refuse("slurm_update error: Requested nodes are busy")
        return names

    def _partition(self, name: str, is_default: bool) -> Partition:
        there = [node for node in self._nodes.values() if not node.state.is_slot and self._is_in(node, name)]
        return Partition(
            name=name,
            state=PartitionState.UP,
            is_default=is_default,
            nodes=fold(node.name for node in there),
            total_nodes=len(there),
            total_cpus=sum(node.cpus for node in there),
            max_time_s=None,
            default_time_s=None,
            max_nodes=None,
            priority_tier=1,
            oversubscribe="NO",
            allow_accounts=(),
            tres=tres(""),
        )

    def _tasks(self, job_id: int, array_id: str) -> list[Job]:
        return [job for job in self._records(job_id) if array_id in ("", job.array_id)]

    def _records(self, job_id: int) -> list[Job]:
        return self.queue.records(job_id) or self._missing("Invalid job id specified")
