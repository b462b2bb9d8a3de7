"""Jobs of the past, wherever they were written down: when they came, what they asked for, how long they ran."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidepool.clients.slurm import JobRequest
from tidepool.cluster.spec import ClusterSpec
from tidepool.simulation.cluster import sleeping


class TraceError(Exception):
    """A trace cannot be read at all. The text is for a person."""


@dataclass(frozen=True, slots=True)
class TracedJob:
    """One job, or one task of an array.

    ``name`` is what it was called there. ``submit_s`` counts from the trace's begin. ``memory_per_cpu_mib`` and
    ``memory_per_node_mib`` are 0 where it did not say; one of them at most is not. ``gres`` is for each node.
    """

    name: str
    submit_s: float
    run_s: float
    cpus: int
    nodes: int = 0
    memory_per_cpu_mib: int = 0
    memory_per_node_mib: int = 0
    time_limit_s: int | None = None
    partition: str = ""
    features: str = ""
    gres: str = ""
    account: str = ""
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class Broken:
    """A line, or a record, that could not be used, and why."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Trace:
    """The jobs by submission, and what was left out: what was ``broken``, and jobs that never ran (``not_run``)."""

    begin: datetime
    jobs: tuple[TracedJob, ...]
    broken: tuple[Broken, ...] = ()
    not_run: int = 0


def fitted(job: TracedJob, spec: ClusterSpec) -> JobRequest:
    """The request of ``job`` on the cluster of ``spec``.

    A job that says how many processors it needs, and not on how many nodes, has as few nodes as its partition's
    largest have room for. One that does not say how much memory has its CPUs' share of it. A partition that the cluster
    does not have is the default one.
    """
    partition = job.partition if job.partition in {each.name for each in spec.partitions} else ""
    named = next((each for each in spec.partitions if each.name == partition), None)
    fleets = [f for f in spec.fleets if named is None or named.fleets is None or f.name in named.fleets]
    shapes = [fleet.shape for fleet in fleets]
    widest = max((shape.cpus for shape in shapes), default=1)
    nodes = job.nodes or -(-job.cpus // widest)
    memory_mib = job.memory_per_cpu_mib
    if not memory_mib and not job.memory_per_node_mib:
        memory_mib = min((shape.memory_mib // shape.cpus for shape in shapes), default=1)
    known = {feature for fleet in spec.fleets for feature in (fleet.name, *fleet.features)}
    return JobRequest(
        sleeping(job.run_s),
        name=job.name,
        partition=partition,
        account=job.account,
        nodes=str(nodes),
        tasks=max(job.cpus, nodes),
        memory_per_cpu_mib=0 if job.memory_per_node_mib else memory_mib,
        memory_mib=job.memory_per_node_mib,
        features=job.features if job.features in known else "",
        gres=job.gres,
        time_limit_s=job.time_limit_s or 0,
        exclusive=job.exclusive,
    )
