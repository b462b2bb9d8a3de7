"""Free slots of a fleet: the names that new nodes of it get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from tidepool.cluster.spec import Fleet
from tidepool.scaling.memory import Memory, at_location
from tidepool.scaling.phase import Phase


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
