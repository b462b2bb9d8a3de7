"""The fake's choice of nodes: a first-fit stand-in for Slurm's choice of nodes.

It knows features joined by ``&`` and ``|``, CPUs, memory, gres with and without types, and exclusive nodes; it takes
whole CPUs for every task, and spreads a job evenly over its nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from tidepool.clients.slurm.job import Job
from tidepool.clients.slurm.scontrol import Node

_GRES: Final = re.compile(r"([A-Za-z_][\w-]*)(?::([^:,()\d][^:,()]*))?:(\d+)")


class Need(NamedTuple):
    """The need of a job on each of its ``nodes``. Jobs that need the same are placed alike."""

    nodes: int
    cpus: int
    memory_mib: int
    gres: tuple[tuple[str, int], ...]
    features: str
    partitions: tuple[str, ...]
    exclusive: bool
    reservation: str


def need(job: Job) -> Need:
    """Return what ``job`` asks of each of its nodes. ``memory_mib`` is 0 for all that a node has."""
    nodes = max(job.nodes, 1)
    return Need(
        nodes,
        -(-job.cpus // nodes),
        job.memory_per_node_mib,
        _gres_per_node(job, nodes),
        job.features,
        job.partitions,
        job.oversubscribe == "NO",
        job.reservation,
    )


def _gres_per_node(job: Job, nodes: int) -> tuple[tuple[str, int], ...]:
    """Return the gres by name, or by name and type (``gpu:a100``), in order."""
    found: dict[str, int] = {}
    asked: tuple[tuple[Mapping[str, str], int], ...] = (
        (job.tres_per_node, nodes),
        (job.tres_per_job, 1),
        (job.tres_per_task, max(job.tasks, 1)),
    )
    for counts, times in asked:
        for name, count in counts.items():
            if name.startswith("gres/"):
                found[name[5:]] = max(found.get(name[5:], 0), -(-int(count) * times // nodes))
    return tuple(sorted(found.items()))


def has_features(node: Node, expression: str) -> bool:
    """Return whether ``node`` has what ``expression`` (``a&b``, ``a|b``) asks for."""
    if "|" in expression:
        return any(has_features(node, part) for part in expression.split("|"))
    return all(part in node.features for part in expression.split("&") if part)


def gres_of(node: Node) -> dict[str, int]:
    """Return what ``node`` is configured with: ``gpu:a100:2,gpu:1`` by name and type."""
    found: dict[str, int] = {}
    for name, kind, count in _GRES.findall(node.gres):
        key = f"{name}:{kind}" if kind else name
        found[key] = found.get(key, 0) + int(count)
    return found


@dataclass(slots=True)
class _Share:
    cpus: int
    memory_mib: int
    gres: dict[str, int]
    exclusive: bool


@dataclass(slots=True)
class FreeResources:
    """Free resources of a node, and the jobs that have the rest."""

    cpus: int
    memory_mib: int
    gres: dict[str, int]
    shares: dict[int, _Share] = field(default_factory=dict)

    @classmethod
    def of(cls, node: Node) -> FreeResources:
        return cls(node.cpus, node.memory_mib, gres_of(node))

    def fits(self, wanted: Need, memory_of_node_mib: int) -> bool:
        if wanted.cpus > self.cpus or (wanted.memory_mib or memory_of_node_mib) > self.memory_mib:
            return False
        if self.shares and (wanted.exclusive or any(share.exclusive for share in self.shares.values())):
            return False
        return not wanted.gres or self._choose(wanted.gres) is not None

    def take(self, job_id: int, wanted: Need, node: Node) -> None:
        gres = self._choose(wanted.gres)
        assert gres is not None
        share = _Share(
            node.cpus if wanted.exclusive else wanted.cpus,
            wanted.memory_mib or node.memory_mib,
            gres,
            wanted.exclusive,
        )
        self.shares[job_id] = share
        self.cpus -= share.cpus
        self.memory_mib -= share.memory_mib
        for name, count in gres.items():
            self.gres[name] -= count

    def give_back(self, job_id: int) -> None:
        share = self.shares.pop(job_id)
        self.cpus += share.cpus
        self.memory_mib += share.memory_mib
        for name, count in share.gres.items():
            self.gres[name] += count

    def _choose(self, asked: Iterable[tuple[str, int]]) -> dict[str, int] | None:
        """Return which gres serve ``asked``: of its type where it names one, else of any."""
        chosen: dict[str, int] = {}
        for name, count in sorted(asked, key=lambda item: ":" not in item[0]):
            for kind, free in self.gres.items():
                if kind == name or kind.partition(":")[0] == name:
                    taken = min(count, free - chosen.get(kind, 0))
                    if taken > 0:
                        chosen[kind] = chosen.get(kind, 0) + taken
                        count -= taken
            if count > 0:
                return None
        return chosen


def could_hold(node: Node, job: Job) -> bool:
    """Return whether a share of ``job`` fits on ``node`` when nothing else is there."""
    wanted = need(job)
    return has_features(node, job.features) and FreeResources.of(node).fits(wanted, 0)


def nodes_for(
    wanted: Need,
    nodes: Iterable[Node],
    free_resources: Mapping[str, FreeResources],
    allowed: Callable[[Node], bool],
) -> tuple[str, ...]:
    """The names of the first of ``nodes`` that can take such a job now and are ``allowed``; none if too few."""
    chosen: list[str] = []
    for node in nodes:
        if (
            free_resources[node.name].fits(wanted, node.memory_mib)
            and (not wanted.features or has_features(node, wanted.features))
            and allowed(node)
        ):
            chosen.append(node.name)
            if len(chosen) == wanted.nodes:
                return tuple(chosen)
    return ()


_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Shadow:
    """A job will begin on ``nodes`` when what runs there has reached its time limit."""

    begins: datetime
    nodes: frozenset[str]


def shadow(
    wanted: Need,
    nodes: Iterable[Node],
    free_resources: Mapping[str, FreeResources],
    running: Mapping[int, Job],
) -> Shadow | None:
    """Return when and where a job with such needs will begin, given what runs; None where it fits on no nodes."""
    fit = [
        node
        for node in nodes
        if has_features(node, wanted.features) and FreeResources.of(node).fits(wanted, 0)
    ]
    if len(fit) < wanted.nodes:
        return None
    free_at = sorted((_free(free_resources.get(node.name), running), place) for place, node in enumerate(fit))
    chosen = free_at[: wanted.nodes]
    if chosen[-1][0] == _NEVER:
        return None
    return Shadow(chosen[-1][0], frozenset(fit[place].name for _, place in chosen))


def _free(room: FreeResources | None, running: Mapping[int, Job]) -> datetime:
    ends = [_ends(running[job_id]) for job_id in room.shares] if room else []
    return max(ends, default=datetime.min.replace(tzinfo=UTC))


def _ends(job: Job) -> datetime:
    if job.start_time is None or job.time_limit_s is None:
        return _NEVER
    return job.start_time + timedelta(seconds=job.time_limit_s)
