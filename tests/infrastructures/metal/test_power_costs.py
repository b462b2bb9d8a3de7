"""Power is the cost of bare metal: hours that hosts are on are counted, and those that they are off are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import versions
from tests.infrastructures.conftest import a_request
from tests.infrastructures.metal.specs import spec
from tests.infrastructures.metal_world import metal_world
from tests.scaling.decide.cluster_states import AT, cluster_state, node, seconds
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.memory import Memory

pytestmark = [
    pytest.mark.runs("metal", versions.installed("sushy"), f"Redfish of {versions.installed('sushy-tools')}")
]


def test_hosts_cost_while_they_are_on_and_nothing_while_they_are_off() -> None:
    entry = {"name": "metal", "price_usd_per_hour": 0.1, "options": {"hosts": ["alpha", "beta"]}}
    of, memory, costs = spec(fleet={"infrastructures": [entry]}), Memory(), []
    with metal_world() as world:
        # Looks an hour apart: of an hour, that counts which is on at its end.
        for hour, wanted in enumerate([0, 0, 2, 1, 0, 0]):
            there = world.infrastructure.list("one")
            for number in range(len(there), wanted):
                world.infrastructure.create(a_request("one", number + 1))
            for machine in there[wanted:]:
                world.infrastructure.delete(machine.key)
            on = [name for name in world.bmcs.tags if world.bmcs.system(name)["power_state"] == "On"]
            assert len(on) == wanted
            seen = world.infrastructure.list("one")
            nodes = (node(machine.key.node) for machine in seen)
            looked = cluster_state(*nodes, of=of, machines=seen or None)
            memory = decide(replace(looked, at=AT + seconds(3600 * hour), machines=seen), memory).memory
            assert memory.spent is not None
            costs.append(round(memory.spent.usd, 9))
    assert costs == [0, 0, 0.2, 0.3, 0.3, 0.3]
    assert memory.spent is not None
    assert memory.spent.machines["2026-11"]["cpu"] == pytest.approx((3 * 3600, 0.3))
