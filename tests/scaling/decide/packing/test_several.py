"""Jobs of several nodes: as many as can be, each with all of its nodes, none with a node twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from tests.scaling.decide.cluster_states import fleet, spec
from tests.scaling.decide.queues import Enough
from tidepool.scaling.decide.demand.fit import FreeResources, Need, offers
from tidepool.scaling.decide.demand.layout import Layout, Part
from tidepool.scaling.decide.packing.bins import UP, Bins, Kind
from tidepool.scaling.decide.packing.launch_limits import Closed, Group, LaunchLimits, Purpose
from tidepool.scaling.decide.packing.placement import Packer

OFFERS = offers(spec(fleet("cpu", 1, max_nodes=6, shape={"cpus": 4, "memory": 4000})))


@given(
    st.dictionaries(st.integers(1, 4), st.integers(1, 4), max_size=4),
    st.integers(0, 6),
    st.integers(1, 8),
    st.integers(2, 4),
)
def test_as_many_as_there_is_room_for(free: Mapping[int, int], new: int, jobs: int, nodes: int) -> None:
    """``free``: by CPUs that are free on a node, how many such nodes; ``new`` nodes of 4 CPUs may be launched."""
    there = {
        Kind("cpu", UP, cpus == 4, "", FreeResources(cpus, 4000)): [
            f"cpu-{cpus}{number}" for number in range(count)
        ]
        for cpus, count in free.items()
    }
    vacant = {"cpu": [f"cpu-{number}" for number in range(1, 7)]}
    launch_limits = LaunchLimits(Enough(new), {"cpu": Closed(6)}, datetime(2026, 11, 21, tzinfo=UTC))
    group = Group(((Layout((Part(nodes, (("cpu", Need(1, 0)),)),), "main"),),), Purpose(None))
    placements, refusal = Packer(Bins(OFFERS, there, vacant), launch_limits).pack(group, jobs)
    sets = [names for each in placements for names in each.sets]
    load = Counter(name for names in sets for name in names)
    assert all(len(set(names)) == nodes == len(names) for names in sets)
    room = {name: kind.resources.cpus for kind, names in there.items() for name in names}
    launched = [name for name in load if name not in room]
    assert len(launched) <= new
    assert all(load[name] <= room.get(name, 4) for name in load)

    def most(rooms: list[int]) -> int:
        """How many jobs nodes with so much room can serve, were they placed with every node in view."""
        return max(count for count in range(jobs + 1) if sum(min(r, count) for r in rooms) >= count * nodes)

    # Who can begin at once does so, even where another could be served if he waited for new nodes.
    at_once = most([*room.values()])
    everything = most([*room.values(), *[4] * new])
    assert at_once <= len(sets) <= everything
    if not at_once:
        assert len(sets) == everything
    assert bool(refusal) is (len(sets) < jobs)
