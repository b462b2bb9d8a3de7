"""A Slurm in memory, with the promises of `contract`: for simulations, and for tests of what uses a client."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Final, NoReturn

from tidepool.cluster.hostlist import expand
from tidepool.slurm.contract import Controller, Submitted
from tidepool.slurm.errors import ControllerDown, NotFound, Refused, SlurmError, TimedOut
from tidepool.slurm.job import Job, JobState
from tidepool.slurm.node import Node, NodeBase, NodeFlag, NodeState, Reason
from tidepool.slurm.partition import Partition, PartitionState
from tidepool.slurm.placement import could_hold, has_features, place
from tidepool.slurm.quantities import tres
from tidepool.slurm.request import JobRequest, NextState, ReservationRequest, Slots, node_names
from tidepool.slurm.reservation import Reservation

_WHERE: Final = "in the fake"
_DRAIN: Final = frozenset({NodeFlag.DRAIN})


class FakeSlurm:
    """Nodes, jobs and reservations in memory; a scheduler that runs whenever somebody looks.

    ``now`` is the clock; ``run_time_s`` says how long a job runs once it began (for ever, if not said);
    ``partitions`` are the names there are, the first of which is the default; ``max_nodes`` is MaxNodeCount.

    Beside the client's operations: `boot` and `unplug` are what machines do, `finish` is a job's end, and
    ``controller`` makes slurmctld ``up``, ``down`` or ``hanging``. `fail` has the next call end with an error.
    """

    def __init__(
        self,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        run_time_s: Callable[[JobRequest], float] = lambda _: inf,
        partitions: tuple[str, ...] = ("all",),
        max_nodes: int = 2048,
    ) -> None:
        self.controller = "up"
        self._now = now
        self._run_time_s = run_time_s
        self._partitions = partitions
        self._max_nodes = max_nodes
        self._nodes: dict[str, Node] = {}
        self._jobs: dict[int, Job] = {}
        self._requests: dict[int, JobRequest] = {}
        self._places: dict[int, tuple[str, ...]] = {}
        self._reservations: dict[str, Reservation] = {}
        self._next_job = 1
        self._failures: list[SlurmError] = []

    # What happens outside

    def boot(self, *names: str) -> None:
        """The machines of these slots boot, and their slurmd registers."""
        for name in names:
            node = self._nodes[name]
            kept = node.state.flags & {NodeFlag.DRAIN}
            state = NodeState(NodeBase.IDLE, frozenset({*kept, NodeFlag.DYNAMIC_NORM}))
            self._nodes[name] = node._replace(
                state=state, boot_time=self._now(), slurmd_start_time=self._now()
            )

    def unplug(self, *names: str) -> None:
        """These machines are gone without a word: their jobs seem to run on."""
        for name in names:
            self._flag(name, add={NodeFlag.NOT_RESPONDING})

    def finish(self, job_id: int, state: JobState = JobState.COMPLETED) -> None:
        """A job ends."""
        self._jobs[job_id] = self._jobs[job_id]._replace(state=state, reason="", end_time=self._now())
        self._places.pop(job_id, None)

    def fail(self, error: SlurmError) -> None:
        """The next call ends with ``error``; several wait in line."""
        self._failures.append(error)

    # Looking

    def ping(self) -> tuple[Controller, ...]:
        return (Controller("primary", "fake", self.controller == "up"),)

    def version(self) -> str:
        self._asked()
        return "22.05.8"

    def nodes(self, names: str = "") -> tuple[Node, ...]:
        self._asked()
        found = [self._node(name) for name in expand(node_names(names))] if names else self._nodes.values()
        return tuple(self._seen(node) for node in found)

    def jobs(self, states: Collection[JobState] = ()) -> tuple[Job, ...]:
        self._asked()
        return tuple(
            job for job in self._jobs.values() if (job.state in states if states else not job.state.has_ended)
        )

    def job(self, job_id: int) -> tuple[Job, ...]:
        self._asked()
        return tuple(self._records(job_id))

    def partitions(self) -> tuple[Partition, ...]:
        self._asked()
        there = [node for node in self._nodes.values() if not node.state.is_slot]
        return tuple(
            Partition(
                name=name,
                state=PartitionState.UP,
                is_default=place == 0,
                nodes=",".join(node.name for node in there),
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
            for place, name in enumerate(self._partitions)
        )

    def reservations(self) -> tuple[Reservation, ...]:
        self._asked()
        now = self._now()
        return tuple(
            replace(kept, is_active=kept.start_time <= now)
            for kept in self._reservations.values()
            if kept.end_time > now
        )

    def close(self) -> None:
        return

    # Nodes

    def create_slots(self, slots: Slots) -> None:
        slots.arguments()
        self._asked()
        names, addresses = expand(slots.names), expand(slots.addresses)
        room = self._max_nodes - len(self._nodes)
        new = [pair for pair in zip(names, addresses, strict=True) if pair[0] not in self._nodes]
        for name, address in new[:room]:
            self._nodes[name] = Node(
                name,
                NodeState(NodeBase.FUTURE),
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

    def delete_nodes(self, nodes: str) -> None:
        for name in self._idle(nodes):
            del self._nodes[name]

    def set_features(self, nodes: str, features: Collection[str]) -> None:
        for name in self._named(nodes):
            self._nodes[name] = self._nodes[name]._replace(
                features=tuple(features), active_features=tuple(features)
            )

    def drain(self, nodes: str, reason: str) -> None:
        for name in self._named(nodes):
            self._flag(name, add=_DRAIN, reason=Reason(reason, "root", self._now()))

    def undrain(self, nodes: str) -> None:
        for name in self._named(nodes):
            self._flag(name, remove=_DRAIN)

    def resume(self, nodes: str) -> None:
        for name in self._named(nodes):
            self._flag(name, remove=_DRAIN)
            node = self._nodes[name]
            if node.state.base is NodeBase.DOWN:
                self._nodes[name] = node._replace(state=NodeState(NodeBase.IDLE, node.state.flags))

    def down(self, nodes: str, reason: str) -> None:
        for name in self._named(nodes):
            for job_id in [job_id for job_id, places in self._places.items() if name in places]:
                self._stop(job_id, JobState.NODE_FAIL)
            node = self._nodes[name]
            self._nodes[name] = node._replace(
                state=NodeState(NodeBase.DOWN, node.state.flags), reason=Reason(reason, "root", self._now())
            )

    def reboot(self, nodes: str, *, reason: str, asap: bool = False, next_state: NextState = "") -> None:
        flags = {NodeFlag.REBOOT_REQUESTED, *(_DRAIN if asap else ())}
        for name in self._named(nodes):
            self._flag(name, add=flags, reason=Reason(reason, "root", self._now()))

    def reconfigure(self) -> None:
        self._asked()

    # Reservations

    def create_reservation(self, request: ReservationRequest) -> str:
        request.arguments()
        self._asked()
        name = request.name or f"root_{len(self._reservations) + 1}"
        if name in self._reservations:
            self._refuse("Error creating the reservation: Duplicate reservation name")
        if not (request.users or request.accounts):
            self._refuse(
                "Error creating the reservation: Reservation request lacks users, groups or accounts"
            )
        start = request.start or self._now()
        self._reservations[name] = Reservation(
            name=name,
            start_time=start,
            end_time=start + timedelta(seconds=request.duration_s),
            nodes=request.nodes,
            node_count=request.node_count or len(expand(request.nodes)),
            flags=frozenset(request.flags),
            users=request.users,
            accounts=request.accounts,
            is_active=start <= self._now(),
            partition=request.partition,
            features=request.features,
            licenses=tres(request.licenses),
            tres=tres(""),
        )
        return name

    def delete_reservation(self, name: str) -> None:
        self._asked()
        if self._reservations.pop(name, None) is None:
            self._missing("Requested reservation is invalid")

    # Jobs

    def submit(self, request: JobRequest) -> Submitted:
        request.arguments()
        self._asked()
        job = self._new_job(request)
        if request.partition and request.partition not in self._partitions:
            self._missing("Batch job submission failed: Invalid partition name specified")
        if not any(has_features(node, job.features) for node in self._nodes.values()):
            self._refuse("Batch job submission failed: Invalid feature specification")
        if sum(could_hold(node, job) for node in self._nodes.values()) < job.nodes:
            self._refuse("Batch job submission failed: Requested node configuration is not available")
        self._keep(job, request)
        self._next_job += 1
        return Submitted(job.job_id)

    def cancel(self, job_id: int) -> None:
        self._asked()
        for job in self._records(job_id):
            if not job.state.has_ended:
                self.finish(job.job_id, JobState.CANCELLED)

    def requeue(self, job_id: int) -> None:
        self._asked()
        for job in self._records(job_id):
            if job.state is JobState.RUNNING:
                if self._requests[job.job_id].requeue is False:
                    self._refuse(f"Requested operation is presently disabled for job {job_id}")
                self._stop(job.job_id, JobState.CANCELLED)

    # Inside

    def _asked(self) -> None:
        """What every call begins with: it may fail, and time has passed."""
        if self._failures:
            raise self._failures.pop(0)
        if self.controller == "down":
            raise ControllerDown("slurmctld does not answer", where=_WHERE, remedy="set controller to up")
        if self.controller == "hanging":
            raise TimedOut("slurmctld did not answer in time", where=_WHERE, remedy="set controller to up")
        self._end_jobs()
        self._start_jobs()

    def _refuse(self, words: str) -> NoReturn:
        raise Refused(f"Slurm refused: {words}", words=words, where=_WHERE, remedy="correct the request")

    def _missing(self, words: str) -> NoReturn:
        raise NotFound(f"Slurm refused: {words}", words=words, where=_WHERE, remedy="look for its name")

    def _node(self, name: str) -> Node:
        return self._nodes.get(name) or self._missing(f"Node {name} not found")

    def _named(self, nodes: str) -> list[str]:
        names = expand(node_names(nodes))
        self._asked()
        return [self._node(name).name for name in names]

    def _idle(self, nodes: str) -> list[str]:
        names = self._named(nodes)
        if any(name in places for places in self._places.values() for name in names):
            self._refuse("slurm_update error: Requested nodes are busy")
        return names

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
        kept = None if remove else node.reason
        self._nodes[name] = node._replace(state=state, reason=reason or kept)

    def _seen(self, node: Node) -> Node:
        """``node`` with what its jobs take of it."""
        there = [self._jobs[job_id] for job_id, places in self._places.items() if node.name in places]
        if not there:
            return node
        cpus = sum(-(-job.cpus // max(job.nodes, 1)) for job in there)
        base = NodeBase.ALLOCATED if cpus >= node.cpus else NodeBase.MIXED
        memory = sum(job.memory_per_node_mib for job in there)
        state = NodeState(base if node.state.base is NodeBase.IDLE else node.state.base, node.state.flags)
        return node._replace(state=state, cpus_alloc=cpus, memory_alloc_mib=memory)

    def _records(self, job_id: int) -> list[Job]:
        found = [job for job in self._jobs.values() if job_id in {job.job_id, job.array_job_id}]
        return found or self._missing("Invalid job id specified")

    def _new_job(self, request: JobRequest) -> Job:
        nodes = int(request.nodes.partition("-")[0] or 1)
        tasks = request.tasks or nodes
        cpus = tasks * (request.cpus_per_task or 1)
        memory = request.memory_mib * nodes or request.memory_per_cpu_mib * cpus
        asked = [f"cpu={cpus}", f"node={nodes}", f"billing={cpus}"]
        asked += [f"mem={memory}M"] * (memory > 0)
        now = self._now()
        return Job(
            job_id=self._next_job,
            array_job_id=self._next_job,
            array_tasks=request.array,
            het_job_id=None,
            state=JobState.PENDING,
            reason="JobHeldUser" if request.hold else "None",
            partitions=tuple((request.partition or self._partitions[0]).split(",")),
            user=request.user or "root",
            qos=request.qos,
            nodes=nodes,
            max_nodes=int(request.nodes.partition("-")[2] or 0) or None,
            cpus=cpus,
            min_cpus_per_node=1,
            tasks=tasks,
            cpus_per_task=request.cpus_per_task or 1,
            min_memory_mib=request.memory_mib or request.memory_per_cpu_mib,
            tmp_disk_mib=0,
            features=request.features,
            tres=tres(",".join(asked)),
            tres_per_job=tres(f"gres:gpu:{request.gpus}" if request.gpus else ""),
            tres_per_node=tres(",".join(f"gres:{part}" for part in request.gres.split(",") if part)),
            tres_per_socket=tres(""),
            tres_per_task=tres(""),
            licenses=tres(request.licenses),
            dependency=request.dependency,
            reservation=request.reservation,
            oversubscribe="NO" if request.exclusive else "OK",
            contiguous=request.contiguous,
            priority=0 if request.hold else 4_294_901_761 - self._next_job,
            time_limit_s=request.time_limit_s or None,
            submit_time=now,
            begin_time=request.begin or now,
            start_time=None,
            end_time=None,
            nodelist="",
            required_nodes="",
            batch=True,
            restarts=0,
            account=request.account,
            name=request.name or "sbatch",
        )

    def _keep(self, job: Job, request: JobRequest) -> None:
        self._jobs[job.job_id] = job
        self._requests[job.job_id] = request

    def _stop(self, job_id: int, ended: JobState) -> None:
        """A running job is put back into the queue, or ends where it is not to be requeued."""
        if self._requests[job_id].requeue is False:
            self.finish(job_id, ended)
            return
        job = self._jobs[job_id]
        self._jobs[job_id] = job._replace(
            state=JobState.PENDING,
            reason="BeginTime",
            # Slurm lets a requeued job wait for the old one's end to be known everywhere.
            begin_time=self._now() + timedelta(seconds=1),
            start_time=None,
            nodelist="",
            restarts=job.restarts + 1,
        )
        self._places.pop(job_id, None)

    def _end_jobs(self) -> None:
        now = self._now()
        for job_id in list(self._places):
            started = self._jobs[job_id].start_time
            assert started is not None
            if (now - started).total_seconds() >= self._run_time_s(self._requests[job_id]):
                self.finish(job_id)

    def _start_jobs(self) -> None:
        waiting = [job for job in self._jobs.values() if job.state is JobState.PENDING]
        blocked = False
        for job in sorted(waiting, key=lambda job: -job.priority):
            reason = self._held_back(job)
            if not reason:
                started = self._start(job)
                reason = "" if started else ("Priority" if blocked else "Resources")
                blocked = blocked or not started
            if reason and job.job_id in self._jobs and self._jobs[job.job_id].state is JobState.PENDING:
                self._jobs[job.job_id] = self._jobs[job.job_id]._replace(reason=reason)

    def _held_back(self, job: Job) -> str:
        """Slurm's word for what keeps ``job`` from starting even on free nodes; empty for nothing."""
        if job.priority == 0:
            return "JobHeldUser"
        if job.begin_time is not None and job.begin_time > self._now():
            return "BeginTime"
        for part in job.dependency.split(","):
            others = [int(word) for word in part.split(":")[1:] if word.isdigit()]
            if any(other in self._jobs and not self._jobs[other].state.has_ended for other in others):
                return "Dependency"
        return ""

    def _start(self, job: Job) -> bool:
        """Start ``job``, or as many tasks of its array as fit; whether all of it runs now."""
        tasks = _indices(job.array_tasks)
        while True:
            running = [(self._jobs[job_id], places) for job_id, places in self._places.items()]
            names = place(job, list(self._nodes.values()), running)
            if not names:
                return False
            last = len(tasks) <= 1
            job_id = job.job_id if last else self._next_job
            self._next_job += not last
            self._keep(
                job._replace(
                    job_id=job_id,
                    array_tasks=str(tasks[0]) if tasks else "",
                    state=JobState.RUNNING,
                    reason="None",
                    start_time=self._now(),
                    nodelist=",".join(names),
                ),
                self._requests[job.job_id],
            )
            self._places[job_id] = names
            if last:
                return True
            del tasks[0]
            job = job._replace(array_tasks=",".join(map(str, tasks)))
            self._jobs[job.job_id] = job


def _indices(tasks: str) -> list[int]:
    """The indices of ``0-9:2,12%4``."""
    found: list[int] = []
    for part in tasks.partition("%")[0].split(",") if tasks else []:
        numbers, _, step = part.partition(":")
        first, _, last = numbers.partition("-")
        found += range(int(first), int(last or first) + 1, int(step or 1))
    return found
