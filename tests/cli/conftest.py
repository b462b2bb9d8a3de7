"""A person in a project's folder; and, made once, a cluster of real machines with a real Slurm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.real import RealCluster, missing
from tests.cli.standins import Person, person


@pytest.fixture
def somebody(tmp_path: Path) -> Person:
    """Somebody whose cluster is not up, with an engine and a Slurm in memory."""
    return person(tmp_path / "project", tmp_path / "data")


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """A controller, a login machine and two nodes of this machine; nothing of them is left afterwards."""
    if why := missing():
        pytest.skip(why)
    cluster = RealCluster(tmp_path_factory.mktemp("real"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
