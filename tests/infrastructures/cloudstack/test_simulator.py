"""What the environment says of a simulator, which nobody has here; the contract tries the rest of its world, at the stand-in."""

from __future__ import annotations

import pytest

from tests.infrastructures.cloudstack.cloud import Cloud
from tests.infrastructures.cloudstack.server import KEY, SECRET, served
from tests.infrastructures.cloudstack_world import SIMULATOR, simulated
from tests.infrastructures.conftest import a_request


def test_a_simulator_is_asked_by_its_own_keys_for_what_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cloud = Cloud()
    cloud.templates["t"] = {"id": "t", "name": "CentOS", "isready": True, "hypervisor": "KVM", "tags": []}
    with served(cloud) as endpoint:
        for name, value in (("ENDPOINT", endpoint), ("KEY", KEY), ("SECRET", SECRET)):
            monkeypatch.setenv(f"CLOUDSTACK_{name}", value)
        monkeypatch.setenv(SIMULATOR, endpoint)
        monkeypatch.setenv(f"{SIMULATOR}_OFFERING", "custom")
        with simulated() as world:
            world.infrastructure.create(a_request(world.stack))
            assert cloud.vm("cpu-1")["serviceofferingid"] == cloud.service_offerings[2]["id"]
    assert (cloud.vms, cloud.networks) == ({}, {})
