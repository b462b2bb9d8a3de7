"""Mode `power_save` with real Slurm and real machines: Slurm asks, the daemon makes, Slurm gives back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.breathing import FLEETS, Daemon, breathing, machines, wish
from tests.whole.cluster import Cluster, until
from tests.whole.conftest import a_cluster
from tidepool.cluster.power_saving import SPOOL, UP_PROGRAM
from tidepool.slurm import NodeFlag

pytestmark = pytest.mark.slow

_OFF = {NodeFlag.CLOUD, NodeFlag.POWERED_DOWN}


@pytest.fixture(scope="module")
def cluster(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Slurm takes nodes for off soon after it has given them back."""
    changes = {
        "scaling": {"mode": "power_save", "boot_timeout_s": 8},
        "slurm_conf": {"SuspendTimeout": 3},
        "limits": {"max_nodes": 2},
    }
    with a_cluster(tmp_path_factory.mktemp("power"), images, fleets=FLEETS, **changes) as it:
        yield it


@pytest.fixture(scope="module")
def daemon(cluster: Cluster) -> Iterator[Daemon]:
    with breathing(cluster) as it:
        yield it


def flags(cluster: Cluster, node: str) -> frozenset[str]:
    with cluster.slurm() as slurm:
        return slurm.nodes(node)[0].state.flags


def until_off(cluster: Cluster) -> None:
    """Until nothing of a node is there, and Slurm has all of them powered down."""
    until(lambda: not machines(cluster) or None, "all machines are gone", 60)
    until(lambda: not cluster.nodes() or None, "Slurm has all nodes powered down", 60)
    until(lambda: not wish(cluster) or None, "the stack's outputs name no node", 60)
    assert all(flags(cluster, f"cpu-{number}") >= _OFF for number in range(1, 7))


def test_slurm_asks_for_a_node_and_gives_it_back(cluster: Cluster, daemon: Daemon) -> None:
    until_off(cluster)
    # An interactive job begins as soon as its node is there; a batch job waits for a tick of Slurm's, of 30 s.
    ran = cluster.on("login-1", "srun", "--time=1", "hostname", timeout_s=60)
    assert (ran.exit_code, ran.stdout.strip()) == (0, "cpu-1"), ran.stderr
    until_off(cluster)
    assert cluster.on("ctl", "ls", SPOOL).stdout == ""
