"""What there is of a cluster, side by side: what Slurm says, which machines there are, and what is wrong. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tidepool.cli.cluster import Cluster
from tidepool.cli.jobs import with_nodes
from tidepool.cli.problems import (
    BAD_WORDS,
    Elsewhere,
    Problem,
    Seen,
    fleet_of,
    own_machines,
    problems,
    state_word,
)
from tidepool.clients.slurm import Controller, Job, JobState
from tidepool.cluster.hostlist import HostSet
from tidepool.infrastructures.local.kernel import Machine


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
    elsewhere: Elsewhere = field(default_factory=Elsewhere)

    @property
    def is_reached(self) -> bool:
        """Whether Slurm answered."""
        return not self.slurm_failure


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
        problems=tuple(problems(cluster, seen)),
        own=own_machines(cluster),
        slurm_failure=seen.failure,
        elsewhere=seen.elsewhere,
    )


def _fleets(cluster: Cluster, seen: Seen) -> Iterator[FleetRow]:
    states: dict[str, Counter[str]] = {}
    slots: Counter[str] = Counter()
    by_node = {node.name: fleet_of(node.name) for node in seen.nodes}
    for node in seen.nodes:
        fleet = by_node[node.name]
        slots[fleet] += 1
        if not node.state.is_slot:
            states.setdefault(fleet, Counter())[state_word(node.state)] += 1
    running: dict[str, set[int]] = {}
    for job in with_nodes(seen.jobs):
        for node_name in HostSet(job.nodelist):
            running.setdefault(by_node.get(node_name, ""), set()).add(job.job_id)
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
