"""Where the fake puts a job: a pure, first-fit stand-in for Slurm's scheduler.

It knows partitions by name only (every node is in all of them), features joined by ``&`` or by ``|``, CPUs, memory
and GPUs, and takes whole CPUs for every task.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tidepool.slurm.job import Job
from tidepool.slurm.node import Node

_GPUS = re.compile(r"gpu(?::[^:,()]+)?:(\d+)")


def has_features(node: Node, expression: str) -> bool:
    """Whether ``node`` has what ``expression`` (``a&b``, ``a|b``) asks for."""
    if "|" in expression:
        return any(has_features(node, part) for part in expression.split("|"))
    return all(part in node.features for part in expression.split("&") if part)


def gpus_of(node: Node) -> int:
    """How many GPUs ``node`` is configured with."""
    return sum(int(count) for count in _GPUS.findall(node.gres))


def share(job: Job) -> tuple[int, int, int]:
    """What one of the nodes of ``job`` gives it: CPUs, memory in MiB, GPUs."""
    nodes = max(job.nodes, 1)
    return -(-job.cpus // nodes), job.memory_per_node_mib, -(-job.gpus // nodes)


def could_hold(node: Node, job: Job) -> bool:
    """Whether a share of ``job`` fits on ``node`` when nothing else is there."""
    cpus, memory, gpus = share(job)
    return (
        has_features(node, job.features)
        and node.cpus >= cpus
        and node.memory_mib >= memory
        and gpus_of(node) >= gpus
    )


def place(job: Job, nodes: Sequence[Node], running: Iterable[tuple[Job, Sequence[str]]]) -> tuple[str, ...]:
    """The names of the first of ``nodes`` that can take ``job`` now, beside what is ``running``; none if too few."""
    taken: dict[str, list[Job]] = {}
    for other, names in running:
        for name in names:
            taken.setdefault(name, []).append(other)
    cpus, memory, gpus = share(job)
    chosen = []
    for node in nodes:
        there = taken.get(node.name, [])
        if not (node.state.takes_jobs and could_hold(node, job)):
            continue
        if there and (job.oversubscribe == "NO" or any(other.oversubscribe == "NO" for other in there)):
            continue
        shares = [share(other) for other in there]
        # Who asks for no amount of memory takes all of it.
        memory_taken = sum(used[1] or node.memory_mib for used in shares)
        if (
            sum(used[0] for used in shares) + cpus <= node.cpus
            and memory_taken + (memory or node.memory_mib) <= node.memory_mib
            and sum(used[2] for used in shares) + gpus <= gpus_of(node)
        ):
            chosen.append(node.name)
            if len(chosen) == job.nodes:
                return tuple(chosen)
    return ()
