"""What there is of a cluster, side by side: what Slurm says, which machines there are, and what is wrong. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from tidepool.cli.cluster import Cluster
from tidepool.cli.jobs import with_nodes
from tidepool.cluster.hostlist import HostSet, fold
from tidepool.cluster.names import ACCOUNTING_HOST, BACKUP_CONTROLLER_HOST, CONTROLLER_HOST
from tidepool.cluster.slots import fleet_and_number
from tidepool.local import Machine
from tidepool.slurm import Controller, Job, JobState, Node, NodeBase, NodeFlag, NodeState

#: Base states and flags that somebody has to look at.
_BAD_BASES: Final = frozenset({NodeBase.DOWN, NodeBase.ERROR, NodeBase.UNKNOWN})
_BAD_FLAGS: Final = frozenset({NodeFlag.FAIL, NodeFlag.INVALID_REG, NodeFlag.NOT_RESPONDING})

#: What `state_word` calls nodes that somebody has to look at.
BAD_WORDS: Final = frozenset({"down", "error", "unknown", "not responding", "failing"})

Severity = Literal["failure", "note"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it should be, or that a person should know, with the step that mends it."""

    severity: Severity
    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class FleetRow:
    """A fleet: its nodes by their states, how many there may be, and how many jobs run there."""

    name: str
    nodes: Mapping[str, int]
    max_nodes: int
    jobs: int

    @property
    def present(self) -> int:
        """How many nodes there are."""
        return sum(self.nodes.values())

    @property
    def up(self) -> int:
        """How many of them are up: they run jobs or could, or are draining."""
        return sum(count for word, count in self.nodes.items() if word not in BAD_WORDS)


@dataclass(frozen=True, slots=True)
class QueueRow:
    """Jobs that are in one state for one reason; ``cpus`` are those that they have or ask for."""

    state: str
    reason: str
    jobs: int
    cpus: int


@dataclass(frozen=True, slots=True)
class Overview:
    """All of it. ``slurm_failure`` says why Slurm could not be asked; then nodes and jobs are not known."""

    stack: str
    cluster: str
    controllers: tuple[Controller, ...]
    version: str
    fleets: tuple[FleetRow, ...]
    queue: tuple[QueueRow, ...]
    machines: tuple[Machine, ...]
    problems: tuple[Problem, ...]
    #: The names of the cluster's own machines, which are no nodes.
    own: frozenset[str]
    slurm_failure: str = ""

    @property
    def is_reached(self) -> bool:
        """Whether Slurm answered."""
        return not self.slurm_failure


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen. ``failure`` is what is told where Slurm could not be asked; ``remedy`` mends that."""

    controllers: tuple[Controller, ...] = ()
    version: str = ""
    nodes: tuple[Node, ...] = ()
    jobs: tuple[Job, ...] = ()
    machines: tuple[Machine, ...] = ()
    failure: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class _Told:
    """Problems by their words, each with the names that it is about, in the order in which they came."""

    names: dict[tuple[Severity, str, str], list[str]] = field(default_factory=dict)

    def add(self, severity: Severity, name: str, what: str, remedy: str) -> None:
        """``what`` and ``remedy`` have ``{}`` where the names stand."""
        self.names.setdefault((severity, what, remedy), []).append(name)

    def problems(self) -> Iterator[Problem]:
        for (severity, what, remedy), names in self.names.items():
            listed = fold(names)
            yield Problem(severity, what.replace("{}", listed), remedy.replace("{}", listed))


def overview(cluster: Cluster, seen: Seen) -> Overview:
    """What ``seen`` means for ``cluster``."""
    return Overview(
        stack=cluster.stack,
        cluster=cluster.name,
        controllers=seen.controllers,
        version=seen.version,
        fleets=tuple(_fleets(cluster, seen)),
        queue=tuple(_queue(seen.jobs)),
        machines=seen.machines,
        problems=tuple(_problems(cluster, seen)),
        own=own_machines(cluster),
        slurm_failure=seen.failure,
    )


def state_word(state: NodeState) -> str:
    """A node's state in a word or two: idle, mixed, allocated, draining, drained, down, not responding, ..."""
    if NodeFlag.NOT_RESPONDING in state.flags:
        return "not responding"
    if state.base in _BAD_BASES:
        return state.base.lower()
    if state.is_draining:
        return "drained" if state.is_drained else "draining"
    if NodeFlag.FAIL in state.flags:
        return "failing"
    return "slot" if state.is_slot else state.base.lower()


def own_machines(cluster: Cluster) -> frozenset[str]:
    """The names of the cluster's own machines, which are no nodes."""
    named = (each.get("machine") for each in (cluster.controller, *cluster.logins))
    return frozenset(
        {CONTROLLER_HOST, BACKUP_CONTROLLER_HOST, ACCOUNTING_HOST, *(str(name) for name in named if name)}
    )


def _fleets(cluster: Cluster, seen: Seen) -> Iterator[FleetRow]:
    states: dict[str, Counter[str]] = {}
    slots: Counter[str] = Counter()
    fleet_of = {node.name: _fleet(node.name) for node in seen.nodes}
    for node in seen.nodes:
        fleet = fleet_of[node.name]
        slots[fleet] += 1
        if not node.state.is_slot:
            states.setdefault(fleet, Counter())[state_word(node.state)] += 1
    running: dict[str, set[int]] = {}
    for job in with_nodes(seen.jobs):
        for node_name in HostSet(job.nodelist):
            running.setdefault(fleet_of.get(node_name, ""), set()).add(job.job_id)
    for name in sorted({*cluster.fleets, *slots}):
        yield FleetRow(name, dict(states.get(name, {})), slots[name], len(running.get(name, ())))


def _queue(jobs: Iterable[Job]) -> Iterator[QueueRow]:
    counts: Counter[tuple[str, str]] = Counter()
    cpus: Counter[tuple[str, str]] = Counter()
    for job in jobs:
        # A running job's reason is None, in words.
        key = (str(job.state), job.reason if job.state is JobState.PENDING else "")
        counts[key] += job.size
        cpus[key] += job.size * job.cpus
    for (state, reason), count in sorted(counts.items(), key=lambda each: (each[0][0] != "RUNNING", each[0])):
        yield QueueRow(state, reason, count, cpus[state, reason])


def _problems(cluster: Cluster, seen: Seen) -> Iterator[Problem]:
    if seen.failure:
        yield Problem("failure", seen.failure, seen.remedy)
    told = _Told()
    for controller in seen.controllers:
        if not controller.is_up and not seen.failure:
            told.add(
                "failure",
                controller.host,
                "slurmctld on {} does not answer",
                "`tidepool logs {}` says why; `tidepool up`",
            )
    own = own_machines(cluster)
    machines = {machine.name: machine for machine in seen.machines}
    _of_nodes(told, seen.nodes, machines)
    _of_machines(told, seen.machines)
    if not seen.failure:
        _of_absence(told, cluster, seen.nodes, machines.keys(), own)
    yield from sorted(told.problems(), key=lambda problem: problem.severity != "failure")


def _of_nodes(told: _Told, nodes: Iterable[Node], machines: Mapping[str, Machine]) -> None:
    for node in nodes:
        state = node.state
        if state.is_slot:
            continue
        why = f": {node.reason.text}" if node.reason else ""
        machine = machines.get(node.name)
        if state.base in _BAD_BASES or state.flags & _BAD_FLAGS:
            if machine is None or machine.state != "running":
                remedy = "`tidepool up` makes it again"
            else:
                remedy = "`tidepool logs {}` says more; `tidepool resume {}` once it is well"
            told.add("failure", node.name, f"node {{}} is {state}{why}", remedy)
        elif state.is_draining:
            told.add("note", node.name, f"node {{}} is {state_word(state)}{why}", "`tidepool resume {}`")


def _of_machines(told: _Told, machines: Iterable[Machine]) -> None:
    for machine in machines:
        if machine.state == "frozen":
            told.add("failure", machine.name, "machine {} is frozen", "`tidepool up`, or thaw it")
        elif machine.state != "running":
            told.add(
                "failure", machine.name, f"machine {{}} is {machine.state}", "`tidepool up` boots it again"
            )
        for service in machine.services:
            if service.state == "backing-off":
                told.add(
                    "failure",
                    machine.name,
                    f"{service.name} on machine {{}} does not stay up",
                    "`tidepool logs {}`",
                )
        if machine.outdated:
            told.add(
                "note",
                machine.name,
                "machine {} runs as it booted, before the spec changed",
                "its next boot takes the change",
            )
        if machine.memory_kills:
            told.add(
                "note",
                machine.name,
                "on machine {} processes were killed, because its memory was full",
                "jobs that ask for less memory than they use, or a larger shape",
            )


def _of_absence(
    told: _Told, cluster: Cluster, nodes: Iterable[Node], machines: Collection[str], own: frozenset[str]
) -> None:
    there = {node.name for node in nodes if not node.state.is_slot}
    for name in sorted(there - set(machines)):
        told.add("failure", name, "node {} has no machine", "`tidepool up` makes it")
    for name in sorted(set(machines) - there - own):
        told.add(
            "failure", name, "machine {} is no node of Slurm's", "`tidepool logs {}` says why; `tidepool up`"
        )
    wanted = {name for text in cluster.fleets.values() for name in HostSet(text)}
    for name in sorted(wanted - there - set(machines)):
        told.add("failure", name, "node {} should be there, and is not", "`tidepool up` makes it")


def _fleet(node: str) -> str:
    try:
        return fleet_and_number(node)[0]
    except ValueError:
        return node
