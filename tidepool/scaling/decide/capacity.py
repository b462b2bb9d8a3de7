"""Capacity of fleets: the slots that are free, and how many more nodes each infrastructure may have now, and which node goes where.

Nodes of a fleet are alike, so growth counts them for the fleet; where each is, is decided here, in the fleet's order. One that
failed is probed when its backoff is over: a single node goes there, and the others go on to the next, until a node has come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Final

from tidepool.cluster.fleet import Fleet
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.remember import is_forgiven
from tidepool.scaling.decision import Phase
from tidepool.scaling.memory import Backoff, Memory, at_location


def vacancies(fleet: Fleet, phases: Mapping[str, Phase], memory: Memory, at: datetime) -> Iterator[str]:
    """The names of the slots of ``fleet`` that nothing has and that are not quarantined, the lowest first.

    A node that ``phases`` does not tell of is absent; one that is leaving still has its slot.
    """
    return (name for name in _absent(fleet, phases) if not is_quarantined(fleet, name, memory, at))


def quarantined(fleet: Fleet, phases: Mapping[str, Phase], memory: Memory, at: datetime) -> int:
    """Return how many slots of ``fleet`` that nothing has are left alone for a while, for they failed."""
    if not memory.node_backoffs:
        return 0
    return sum(is_quarantined(fleet, name, memory, at) for name in _absent(fleet, phases))


def unreachable(state: ClusterState) -> frozenset[str]:
    """Return the nodes whose host does not answer, of fleets that have no other place for them."""
    alone = {fleet.name for fleet in state.spec.fleets if len(fleet.infrastructures) == 1}
    unknown = (each.key for each in state.machines or () if each.state == "unknown")
    return frozenset(key.node for key in unknown if key.fleet in alone)


def _absent(fleet: Fleet, phases: Mapping[str, Phase]) -> Iterator[str]:
    names = (f"{fleet.name}-{number}" for number in range(1, fleet.max_nodes + 1))
    return (name for name in names if phases.get(name, Phase.ABSENT) is Phase.ABSENT)


def is_quarantined(fleet: Fleet, name: str, memory: Memory, at: datetime) -> bool:
    """Return whether a name is left alone.

    One that an infrastructure had no machine for is free for the others, until that one has machines again. Where a machine
    may be there all the same, whose answer was lost, the name is not: it would have two.
    """
    backoff = memory.node_backoffs.get(name)
    if backoff is None or backoff.until <= at:
        return False
    if len(fleet.infrastructures) == 1 or not backoff.location or not backoff.is_of_no_machine:
        return True
    return at_location(fleet.name, backoff.location) not in memory.fleet_backoffs


#: So many nodes are asked of one that failed, before it is asked for all again.
PROBES: Final = 1
#: What is launched where a backoff is over is launched later than that, and all else before it by its whole pause.
_LATER: Final = timedelta(seconds=-1)


@dataclass(frozen=True, slots=True)
class Capacity:
    """One infrastructure of a fleet, by its key; of a fleet that has only one the key is empty.

    ``most`` is how many nodes of the fleet may be there, ``taken`` how many are. ``backoff`` keeps it closed. ``failed`` is one
    that is over, and behind which no node has come yet: ``probes`` nodes may be asked for there before the others have all
    that they can.
    """

    fleet: str
    key: str
    name: str
    most: int
    taken: int
    usd_per_hour: float
    backoff: Backoff | None = None
    failed: Backoff | None = None
    probes: int = 0

    @property
    def left(self) -> int:
        """Return how many more may be made there now."""
        return 0 if self.backoff is not None else max(0, self.most - self.taken)

    @property
    def first(self) -> int:
        """Return how many of these may be made before those behind it have their turn."""
        return self.left if self.failed is None else min(self.left, self.probes)

    @property
    def obstacle(self) -> str:
        """Why not more, in words."""
        if self.backoff is not None:
            return f"{self.name} is left alone until {self.backoff.until:%H:%M:%S} UTC: {self.backoff.text}"
        if self.failed is not None and self.left:
            return f"{self.name} is tried with {PROBES} node first: {self.failed.text}"
        return f"{self.name} may have {self.most} nodes of it (its max_nodes)"


def capacities_of(
    fleet: Fleet, taken: Mapping[tuple[str, str], int], memory: Memory, at: datetime
) -> tuple[Capacity, ...]:
    """Return the capacities of a fleet, in its order. ``taken``: how many nodes there are, by fleet and key."""
    spans = len(fleet.infrastructures) > 1
    found = []
    for entry in fleet.infrastructures:
        key = entry.key if spans else ""
        backoff = memory.fleet_backoffs.get(at_location(fleet.name, key))
        capacity = Capacity(
            fleet.name,
            key,
            entry.key,
            fleet.most_nodes(entry),
            taken.get((fleet.name, key), 0),
            entry.price_usd_per_hour,
        )
        if backoff is not None and backoff.until > at:
            capacity = replace(capacity, backoff=backoff)
        elif spans and backoff is not None and not is_forgiven(backoff):
            probes = max(0, PROBES - _probed(fleet, key, backoff, memory))
            capacity = replace(capacity, failed=backoff, probes=probes)
        found.append(capacity)
    return tuple(found)


def _probed(fleet: Fleet, key: str, over: Backoff, memory: Memory) -> int:
    """Return how many nodes are being made there since the backoff is over."""
    return sum(
        memory.locations.get(name, "") == key and launch.since - over.until > _LATER
        for name, launch in memory.launches.items()
        if name.rpartition("-")[0] == fleet.name
    )


def next_capacities(capacities: Sequence[Capacity], skip: int, nodes: int) -> Iterator[tuple[Capacity, int]]:
    """Return where the next ``nodes`` nodes go, behind ``skip`` others that were given out already: so many to each room.

    What is only to be probed gets more where no other has room: a job of several nodes would wait for ever.
    """
    turns = [
        *((capacity, capacity.first) for capacity in capacities),
        *((capacity, capacity.left - capacity.first) for capacity in capacities),
    ]
    for capacity, turn in groupby((each for each in turns if each[1]), itemgetter(0)):
        count = sum(more for _, more in turn)
        passed = min(skip, count)
        skip -= passed
        here = min(nodes, count - passed)
        if here > 0:
            yield capacity, here
            nodes -= here


def why_not_first(capacities: Sequence[Capacity], key: str) -> str:
    """Why a node goes to ``key`` and to none before it, in words; empty for the first."""
    before = []
    for capacity in capacities:
        if capacity.key == key:
            break
        before.append(capacity.obstacle)
    return "; ".join(before)


def closing_backoff(fleet: Fleet, memory: Memory, at: datetime) -> Backoff | None:
    """Return the backoff that closes a whole fleet: of several the one that is over first, if none is open."""
    capacities = capacities_of(fleet, {}, memory, at)
    closed = [capacity.backoff for capacity in capacities if capacity.backoff is not None]
    if len(capacities) > len(closed):
        return None
    return min(closed, key=lambda backoff: backoff.until)


def node_prices(spec: ClusterSpec) -> dict[tuple[str, str], float]:
    """Return what a machine costs an hour, by fleet and key; where it is not known where it is, what the first one asks."""
    found = {}
    for fleet in spec.fleets:
        found[fleet.name, ""] = fleet.infrastructures[0].price_usd_per_hour
        for entry in fleet.infrastructures:
            found[fleet.name, entry.key] = entry.price_usd_per_hour
    return found
