"""What is slow to make is made once for each process of tests: a real slurmctld."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.clients.slurm.namespaces import InNamespaces
from tests.clients.slurm.real import RealSlurm, missing
from tests.clients.slurm.sshd import Sshd, sshd
from tests.clients.slurm.world import FakeWorld, RealWorld, World
from tests.golden import NEXT_CONVERGED, golden_image
from tidepool.clients.here import Here
from tidepool.clients.slurm import Slurm, Transport
from tidepool.clients.ssh import Ssh

__all__ = ["sshd"]  # a fixture, which pytest finds here

#: Shorter than Slurm's own (MessageTimeout), so that it is ours that a test of a hanging controller sees.
TIMEOUT_S = 20.0
IMPATIENT_S = 1.0


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """A running slurmctld of its own, with its munged."""
    if missing():
        pytest.skip(missing())
    running = RealSlurm(tmp_path_factory.mktemp("slurm"))
    yield running
    running.close()


@pytest.fixture(scope="session")
def next_real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """The same of Slurm 24.11, out of the image of Debian 13."""
    if missing():
        pytest.skip(missing())
    running = RealSlurm(tmp_path_factory.mktemp("slurm"), root=golden_image(NEXT_CONVERGED).root)
    yield running
    running.close()


@contextmanager
def asked(running: RealSlurm, transport: Transport) -> Iterator[RealWorld]:
    """A world of the real Slurm that is asked over ``transport``."""
    with Slurm(transport, TIMEOUT_S) as slurm:
        world = RealWorld(running, slurm, Slurm(transport, IMPATIENT_S))
        yield world
        world.clear()


def namespaces_of(running: RealSlurm) -> InNamespaces:
    """Slurm's own namespaces, where its commands are."""
    return InNamespaces(running.pid, ("mount", "pid"), running.environment)


@pytest.fixture
def next_release(next_real: RealSlurm) -> Iterator[RealWorld]:
    """The real one of 24.11, asked in its own namespaces."""
    with asked(next_real, namespaces_of(next_real)) as world:
        yield world


@pytest.fixture
def here(real: RealSlurm) -> Iterator[RealWorld]:
    """The real one, asked on this machine."""
    with asked(real, Here(real.environment)) as world:
        yield world


@pytest.fixture
def inside(real: RealSlurm) -> Iterator[RealWorld]:
    """The real one, asked in its own namespaces."""
    with asked(real, namespaces_of(real)) as world:
        yield world


@pytest.fixture
def remote(real: RealSlurm, sshd: Sshd) -> Iterator[RealWorld]:
    """The real one, asked over SSH."""
    over_ssh = Ssh(
        "127.0.0.1",
        port=sshd.port,
        user="root",
        key=sshd.key,
        known_hosts=sshd.known_hosts,
        environment=real.environment,
    )
    with asked(real, over_ssh) as world:
        yield world


@pytest.fixture(params=["inside", "remote"])
def elsewhere(request: pytest.FixtureRequest) -> World:
    """The real one, asked from somewhere else."""
    found: RealWorld = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["fake", "here", pytest.param("next_release", marks=pytest.mark.slow)])
def world(request: pytest.FixtureRequest) -> World:
    """Each world in turn."""
    if request.param == "fake":
        return FakeWorld()
    found: RealWorld = request.getfixturevalue(request.param)
    return found
