"""What is slow to make is made once for each process of tests: a real control plane."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.kubernetes.real import RealKubernetes, shared
from tests.clients.kubernetes.world import FakeWorld, RealWorld, World


@pytest.fixture(scope="session")
def real() -> RealKubernetes:
    """A running control plane; left out where it is not built."""
    return shared()


@pytest.fixture
def here(real: RealKubernetes) -> Iterator[RealWorld]:
    """The real one."""
    world = RealWorld(real)
    yield world
    world.clear()


@pytest.fixture(params=["fake", pytest.param("here", marks=pytest.mark.slow)])
def world(request: pytest.FixtureRequest) -> World:
    """Each world in turn."""
    if request.param == "fake":
        return FakeWorld()
    found: RealWorld = request.getfixturevalue(request.param)
    return found
