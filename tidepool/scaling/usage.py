"""Use of nodes by jobs, by account, user and fleet: seconds of nodes and processors as Slurm counts them, and machine time. Pure.

Of a node's time a job has the part that it takes of the node: of its processors, its memory or its gres, whichever is the largest,
as nobody else could have that. Where those of a node come to more than the whole together, they share it. So what jobs had of
a machine is never more than the machine's time, and what is left of that was idle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from tidepool.clients.slurm.usage import JobTime
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import expand
from tidepool.cluster.shape import Shape

#: A machine's second, in the units of `Use.machine_us`.
SECOND_US: Final = 1_000_000
#: So much is asked of slurmdbd at a time: of 3,000 jobs a day it takes a second.
LONGEST_SPAN: Final = timedelta(days=1)
#: What is older than this is counted once a day only: slurmctld may tell slurmdbd of a job late.
_SETTLED: Final = timedelta(hours=1)
_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_NOTHING: Final[FrozenDict[Any, Any]] = FrozenDict()


class Use(NamedTuple):
    """Time of nodes: each node whole, their processors, and the parts of machines in microseconds. Whole numbers add up."""

    node_s: int = 0
    cpu_s: int = 0
    machine_us: int = 0

    def plus(self, other: Use) -> Use:
        return Use(*map(int.__add__, self, other))


Key = tuple[str, str, str]
"""Account, user, fleet."""


@dataclass(frozen=True, slots=True)
class AccountUsage:
    """Use of nodes by accounts in ``month`` (``2026-11``) until ``until``, by account and fleet; without those below an account.

    ``settled`` is that part of it which was had until ``settled_until``, which is not asked for again; ``whole`` when it was begun to
    count all of the month last.
    """

    month: str
    until: datetime
    accounts: Mapping[str, Mapping[str, Use]] = field(default_factory=lambda: _NOTHING)
    settled: Mapping[str, Mapping[str, Use]] = field(default_factory=lambda: _NOTHING)
    settled_until: datetime = _NEVER
    whole: datetime = _NEVER
    #: By account that Slurm knows, also such as nobody's spec has: that above it.
    parents: Mapping[str, str] = field(default_factory=lambda: _NOTHING)


def used(times: Iterable[JobTime], shapes: Mapping[str, Shape]) -> dict[Key, Use]:
    """Return what jobs had; ``shapes`` are those of nodes, by fleet."""
    found: defaultdict[Key, list[int]] = defaultdict(lambda: [0, 0, 0])
    by_node: defaultdict[str, list[tuple[int, int, Key, int]]] = defaultdict(list)
    for time in times:
        names = expand(time.nodes)
        by_fleet: defaultdict[str, list[str]] = defaultdict(list)
        for name in names:
            by_fleet[name.rpartition("-")[0]].append(name)
        before = 0
        for fleet, own in by_fleet.items():
            key = (time.account, time.user, fleet)
            # Slurm does not say which node it has how many of.
            cpus = time.cpus * (before + len(own)) // len(names) - time.cpus * before // len(names)
            before += len(own)
            total = found[key]
            total[0] += len(own) * time.elapsed_s
            total[1] += cpus * time.elapsed_s
            part = _part(time, len(names), shapes.get(fleet))
            for name in own:
                by_node[name].append((time.begin, time.end, key, part))
    for spans in by_node.values():
        for key, machine_us in _parts_of_machine(spans):
            found[key][2] += machine_us
    return {key: Use(*total) for key, total in found.items()}


def _part(time: JobTime, nodes: int, shape: Shape | None) -> int:
    """Return the part of each of its nodes that a job takes, in millionths; of a fleet that is gone, all."""
    if shape is None:
        return SECOND_US
    parts = [
        SECOND_US * time.cpus // (nodes * shape.cpus),
        SECOND_US * time.memory_mib // (nodes * shape.memory_mib),
    ]
    for gres in shape.gres:
        typed = f"{gres.name}:{gres.type}"
        if gres.count:
            parts.append(
                SECOND_US * time.gres.get(typed if gres.type else gres.name, 0) // (nodes * gres.count)
            )
    return min(SECOND_US, max(parts))


def _parts_of_machine(spans: list[tuple[int, int, Key, int]]) -> Iterable[tuple[Key, int]]:
    """Share the time of one machine among those that have it from begin to end, each with its part."""
    edges: defaultdict[int, list[int]] = defaultdict(list)
    for number, (begin, end, _, _) in enumerate(spans):
        if begin < end:
            edges[begin].append(number)
            edges[end].append(number)
    there: set[int] = set()
    before = 0
    for at, numbers in sorted(edges.items()):
        if there:
            whole = max(SECOND_US, sum(spans[number][3] for number in there))
            for number in sorted(there):
                yield spans[number][2], (at - before) * SECOND_US * spans[number][3] // whole
        there.symmetric_difference_update(numbers)
        before = at


def clipped(times: Iterable[JobTime], begin: int, end: int) -> list[JobTime]:
    """Return what of these times lies between two moments, in seconds since the epoch."""
    found = []
    for time in times:
        first, last = max(time.begin, begin), min(time.end, end)
        if first < last:
            within = (
                time.elapsed_s
                if (first, last) == (time.begin, time.end)
                else min(time.elapsed_s, last - first)
            )
            found.append(time._replace(begin=first, end=last, elapsed_s=within))
    return found


def uncounted(at: datetime) -> AccountUsage:
    """Return what is known of the month of ``at`` before anything of it was counted."""
    begin = month_begin(at)
    return AccountUsage(f"{at:%Y-%m}", begin, settled_until=begin, whole=at)


def goes_on(known: AccountUsage | None, at: datetime) -> bool:
    """Return whether one span on from what is ``known`` gives what was had by ``at``."""
    return (
        known is not None
        and known.month == f"{at:%Y-%m}"
        and known.settled_until <= at <= known.settled_until + LONGEST_SPAN
    )


def counted(
    known: AccountUsage,
    at: datetime,
    job_times: Callable[[int, int], Iterable[JobTime]],
    shapes: Mapping[str, Shape],
    span: timedelta = LONGEST_SPAN,
) -> AccountUsage:
    """Return what accounts had a ``span`` on from what is ``known``, or by ``at``: one question for ``job_times`` (from, to).

    In one span with the last hour is what is before it, as nothing of that hour is settled.
    """
    since = known.settled_until
    until = since + span if since + span <= at - _SETTLED else at
    times = list(job_times(_seconds(since), _seconds(until)))
    accounts = _by_account(known.settled, used(times, shapes))
    if until < at:
        return replace(known, until=until, accounts=accounts, settled=accounts, settled_until=until)
    known = replace(known, until=at, accounts=accounts)
    edge = at.replace(microsecond=0) - _SETTLED
    if edge - since < _SETTLED:
        return known
    before = clipped(times, _seconds(since), _seconds(edge))
    return replace(known, settled=_by_account(known.settled, used(before, shapes)), settled_until=edge)


def spans(begin: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Split a time into spans of `LONGEST_SPAN` at most."""
    while begin < end:
        until = min(begin + LONGEST_SPAN, end)
        yield begin, until
        begin = until


def month_begin(at: datetime) -> datetime:
    """When the month of ``at`` began."""
    return at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _by_account(
    before: Mapping[str, Mapping[str, Use]], more: Mapping[Key, Use]
) -> Mapping[str, Mapping[str, Use]]:
    found = {account: dict(fleets) for account, fleets in before.items()}
    for (account, _, fleet), use in more.items():
        fleets = found.setdefault(account, {})
        fleets[fleet] = fleets.get(fleet, Use()).plus(use)
    return FrozenDict({account: FrozenDict(fleets) for account, fleets in sorted(found.items())})


def _seconds(at: datetime) -> int:
    return int(at.timestamp())
