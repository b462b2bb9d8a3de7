"""Jobs of a trace as jobs of a cluster that is another than the one that ran them. Pure."""

from __future__ import annotations

from tidepool.clients.slurm import JobRequest
from tidepool.cluster.spec import ClusterSpec
from tidepool.simulation.cluster import sleeping
from tidepool.simulation.replay.trace import TracedJob


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
