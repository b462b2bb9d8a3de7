"""The world of a simulator, which nobody has here: its own steps, at the stand-in over HTTP."""

from __future__ import annotations

import pytest

from tests.infrastructures.cloudstack.cloud import Cloud
from tests.infrastructures.cloudstack.server import KEY, SECRET, served
from tests.infrastructures.cloudstack_world import SIMULATOR, simulator_world
from tests.infrastructures.conftest import a_request


def test_the_world_of_a_simulator_makes_a_network_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = Cloud()
    cloud.templates["t"] = {"id": "t", "name": "CentOS", "isready": True, "hypervisor": "KVM", "tags": []}
    with served(cloud) as endpoint:
        for name, value in (("ENDPOINT", endpoint), ("KEY", KEY), ("SECRET", SECRET)):
            monkeypatch.setenv(f"CLOUDSTACK_{name}", value)
        monkeypatch.setenv(SIMULATOR, endpoint)
        monkeypatch.setenv(f"{SIMULATOR}_OFFERING", "custom")
        with simulator_world() as world:
            request = a_request(world.stack)
            first = world.infrastructure.create(request)
            world.stop(request.key)
            assert world.infrastructure.list(world.stack)[0].state == "stopped"
            assert world.infrastructure.create(request) == first
            world.vanish(request.key)
            assert world.infrastructure.list(world.stack) == ()
            world.infrastructure.create(request)
    assert (cloud.vms, cloud.networks) == ({}, {})
