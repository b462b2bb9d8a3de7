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
    for number in range(1, fleet.max_nodes + 1):
        name = f"{fleet.name}-{number}"
        if phases.get(name, Phase.ABSENT) is not Phase.ABSENT:
            continue
        setback = memory.node_setbacks.get(name)
        if setback is None or setback.until <= at:
            yield name
