"""What a job asks for, in a person's words. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidepool.cli.scaler.words import number, span
from tidepool.clients.slurm import Job

#: What Slurm takes a job without a time limit to be, where its partition has none either.
_ENDLESS_S: Final = 365 * 86_400


def asks(job: Job) -> str:
    """``2 nodes, 4 CPUs, 1,000 MiB on each node, with himem, in main, for at most 2 min``."""
    return ", ".join(_asks(job))


def _asks(job: Job) -> Iterator[str]:
    if job.size > 1:
        yield f"{number(job.size, 'task')}, of which each asks for {number(job.nodes, 'node')}"
    else:
        yield number(job.nodes, "node")
    yield number(job.cpus, "CPU")
    if memory_mib := job.memory_per_node_mib:
        yield f"{memory_mib:,} MiB on each node"
    for words, counts in (
        ("", job.tres_per_job),
        (" on each node", job.tres_per_node),
        (" for each task", job.tres_per_task),
        (" on each socket", job.tres_per_socket),
    ):
        for name, count in counts.items():
            if name.startswith("gres/"):
                yield f"{count} {name.removeprefix('gres/')}{words}"
    if job.features:
        yield f"with {job.features}"
    if job.oversubscribe == "NO":
        yield "nodes to itself"
    if job.contiguous:
        yield "in a row"
    if job.licenses:
        yield "licences " + " ".join(f"{name}:{count}" for name, count in job.licenses.items())
    if job.reservation:
        yield f"in the reservation {job.reservation}"
    if job.required_nodes:
        yield f"on {job.required_nodes}"
    if job.dependency:
        yield f"after {job.dependency}"
    yield f"in {', '.join(job.partitions) or 'no partition'}"
    if job.time_limit_s is not None and job.time_limit_s < _ENDLESS_S:
        yield f"for at most {span(job.time_limit_s)}"
