"""Jobs after one another: as few nodes as have all that waits done within a horizon, by the jobs' time limits.

A *sequence* is what one job takes of its nodes, kept for jobs like it until the horizon. Nodes that are busy now have
sequences as well, from when their last job has to have ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from tidepool.clients.slurm import Job
from tidepool.scaling.cluster_state import job_nodes
from tidepool.scaling.decide.demand.fit import FreeResources, Offer, empty
from tidepool.scaling.decide.demand.layout import Part
from tidepool.scaling.decide.packing.launch_limits import Group
from tidepool.scaling.decide.packing.pack import FOLLOWS, Request, Served


class Timed(NamedTuple):
    """A request whose jobs may run ``limit_s`` each (None: without end)."""

    request: Request
    limit_s: int | None


Member = tuple[int, int]
"""The place of a request among all, and how many of its copies."""


@dataclass(slots=True)
class TimePacking:
    """The sequences to pack: a request for each sequence, and who is in it; and who follows jobs that run now."""

    requests: list[Request] = field(default_factory=list)
    members: list[list[Member]] = field(default_factory=list)
    following: list[tuple[Member, tuple[str, ...]]] = field(default_factory=list)


@dataclass(slots=True)
class _Busy:
    """A node that is free in a while, and then for so long."""

    name: str
    lasting_s: float
    resources: FreeResources


def pack_by_time(
    groups: Sequence[Group],
    timed: Sequence[Timed],
    horizon_s: int,
    later: Mapping[str, Mapping[str, float]],
    offers: Mapping[str, Offer],
) -> TimePacking:
    """Put requests, the first of which has the highest priority, into sequences.

    ``later`` tells by fleet of nodes that are busy now how many seconds of the horizon they will be free.
    """
    found = TimePacking()
    busy = {
        fleet: [
            _Busy(name, lasting, empty(offers[fleet]))
            for name, lasting in sorted(nodes.items(), key=lambda each: (-each[1], each[0]))
        ]
        for fleet, nodes in later.items()
    }
    queues: dict[int, _Durations] = {}
    for pack, ((group, copies), limit_s) in enumerate(timed):
        durations = queues.setdefault(group, _Durations())
        durations.add(horizon_s if limit_s is None else min(limit_s, horizon_s), (pack, copies))
    filled: list[tuple[int, int, list[Member]]] = []
    for group in sorted(queues, key=lambda group: groups[group].size, reverse=True):
        durations = queues[group]
        for member, names in _on_busy(groups[group], durations, busy):
            found.following.append((member, names))
        while sequence := durations.fill(horizon_s):
            filled.append((min(sequence)[0], group, sequence))
    for _, group, sequence in sorted(filled):
        found.requests.append((group, 1))
        found.members.append(sorted(sequence))
    return found


def served(timed: Sequence[Timed], found: TimePacking, outcomes: Sequence[Served]) -> list[Served]:
    """Return the outcome of each request, by what became of the sequences. The first in a sequence starts at once, others follow."""
    pieces: list[list[Served]] = [[] for _ in timed]
    for (pack, copies), names in found.following:
        pieces[pack].append(Served(copies, FOLLOWS, names, None))
    for members, outcome in zip(found.members, outcomes, strict=True):
        for number, (pack, copies) in enumerate(members):
            if outcome.copies:
                pieces[pack].append(
                    Served(min(copies, 1), FOLLOWS if number else outcome.rank, outcome.nodes, None)
                )
                if copies > 1:
                    pieces[pack].append(Served(copies - 1, FOLLOWS, outcome.nodes, None))
            else:
                pieces[pack].append(outcome)
    return list(map(_together, pieces))


def _together(pieces: Sequence[Served]) -> Served:
    return Served(
        sum(piece.copies for piece in pieces),
        max(piece.rank for piece in pieces),
        tuple(dict.fromkeys(name for piece in pieces for name in piece.nodes)),
        next((piece.refusal for piece in pieces if piece.refusal is not None), None),
    )


class _Durations:
    """Jobs by how long they may run; of equal ones, who came first."""

    def __init__(self) -> None:
        self._jobs: dict[int, deque[Member]] = {}

    def add(self, limit_s: int, member: Member) -> None:
        self._jobs.setdefault(max(limit_s, 1), deque()).append(member)

    def fill(self, lasting_s: float) -> list[Member]:
        """Take jobs that end within so many seconds, the longest first; none where none does."""
        sequence: list[Member] = []
        for limit_s in sorted(self._jobs, reverse=True):
            waiting = self._jobs[limit_s]
            while waiting and limit_s <= lasting_s:
                pack, copies = waiting.popleft()
                part = min(copies, int(lasting_s // limit_s))
                sequence.append((pack, part))
                lasting_s -= part * limit_s
                if part < copies:
                    waiting.appendleft((pack, copies - part))
            if not waiting:
                del self._jobs[limit_s]
        return sequence


def _on_busy(
    group: Group, durations: _Durations, busy: Mapping[str, Sequence[_Busy]]
) -> Iterator[tuple[Member, tuple[str, ...]]]:
    for part in _parts(group):
        for fleet, need in part.needs:
            fit = [node for node in busy.get(fleet, ()) if need.fits(node.resources)]
            for first in range(0, len(fit) - part.nodes + 1, part.nodes):
                nodes = fit[first : first + part.nodes]
                times = min(need.times_in(node.resources) for node in nodes)
                names = tuple(node.name for node in nodes)
                used = 0
                # They are sorted: the last is free for the shortest time.
                while used < times and (sequence := durations.fill(nodes[-1].lasting_s)):
                    used += 1
                    yield from ((member, names) for member in sequence)
                if not used:
                    break
                for node in nodes:
                    node.resources = need.from_(node.resources, used)


def _parts(group: Group) -> Iterable[Part]:
    """Return the parts of jobs whose nodes are all alike, any of them."""
    (layouts, *others) = group.components
    if others or group.fresh:
        return
    for layout in layouts:
        if len(layout.parts) == 1 and not layout.in_a_row and not layout.parts[0].names:
            yield layout.parts[0]


def busy_until(jobs: Iterable[Job], at: datetime, horizon_s: int) -> dict[str, float]:
    """By node: how many seconds of the horizon are left when the last of its jobs has to have ended."""
    left: dict[str, float] = {}
    for job in jobs:
        ends_in_s = (job.end_time - at).total_seconds() if job.end_time is not None else horizon_s
        for name in job_nodes(job):
            left[name] = min(left.get(name, horizon_s), horizon_s - max(ends_in_s, 0))
    return {name: lasting for name, lasting in left.items() if lasting > 0}
