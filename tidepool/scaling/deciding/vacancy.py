"""Free slots of a fleet: the names that new nodes of it get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from tidepool.cluster.spec import Fleet
from tidepool.scaling.memory import Memory
from tidepool.scaling.phase import Phase


def vacancies(fleet: Fleet, phases: Mapping[str, Phase], memory: Memory, at: datetime) -> Iterator[str]:
    """The names of the slots of ``fleet`` that nothing has and that are not quarantined, the lowest first.

    A node that ``phases`` does not tell of is absent; one that is leaving still has its slot.
    """
    return (name for name in _absent(fleet, phases) if not _is_quarantined(name, memory, at))


def quarantined(fleet: Fleet, phases: Mapping[str, Phase], memory: Memory, at: datetime) -> int:
    """How many slots of ``fleet`` that nothing has are left alone for a while, for they failed."""
    if not memory.node_setbacks:
        return 0
    return sum(_is_quarantined(name, memory, at) for name in _absent(fleet, phases))


def _absent(fleet: Fleet, phases: Mapping[str, Phase]) -> Iterator[str]:
    names = (f"{fleet.name}-{number}" for number in range(1, fleet.max_nodes + 1))
    return (name for name in names if phases.get(name, Phase.ABSENT) is Phase.ABSENT)


def _is_quarantined(name: str, memory: Memory, at: datetime) -> bool:
    setback = memory.node_setbacks.get(name)
    return setback is not None and setback.until > at
