"""Two departments on one machine, with the same names and addresses: neither reaches the other, from inside a node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import versions
from tests.whole.cluster import Cluster
from tests.whole.conftest import a_cluster
from tidepool.clients.slurm import JobState
from tidepool.infrastructures.connection import transport

pytestmark = [pytest.mark.slow, pytest.mark.runs("local", versions.slurm())]


@pytest.fixture(scope="module")
def departments(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Cluster]]:
    """Physics and chemistry; chemistry has another range, so that its addresses can be tried from physics."""
    fleet = {"name": "chem", "subnet": "10.79.1.0/24", "min_nodes": 1, "max_nodes": 2}
    theirs = {"network": "10.79.0.0/16", "fleets": [{**fleet, "shape": {"cpus": 1, "memory": "256MiB"}}]}
    with (
        a_cluster(tmp_path_factory.mktemp("physics"), images) as physics,
        a_cluster(tmp_path_factory.mktemp("chemistry"), images, **theirs) as chemistry,
    ):
        # On one data folder they would share a lock at most; the harder case is that both are root's.
        yield physics, chemistry


def test_each_runs_its_jobs(departments: tuple[Cluster, Cluster]) -> None:
    jobs = [(each, each.submit("hostname", memory_mib=50)) for each in departments]
    for each, job in jobs:
        each.until_job(job, JobState.COMPLETED)


def test_addresses_are_not_reached(departments: tuple[Cluster, Cluster]) -> None:
    physics, chemistry = departments
    own = physics.on("cpu-1", "ping", "-c1", "-W2", "10.78.1.2")
    assert own.exit_code == 0, own
    for address in ("10.79.0.2", "10.79.1.1"):
        assert physics.on("cpu-1", "ping", "-c1", "-W1", address).exit_code != 0
    # Nor is the host itself, or anything beyond it.
    assert physics.on("cpu-1", "ping", "-c1", "-W1", "192.0.2.1").exit_code != 0
    assert chemistry.on("chem-1", "ping", "-c1", "-W1", "10.78.0.2").exit_code != 0


def test_names_are_not_known(departments: tuple[Cluster, Cluster]) -> None:
    physics, chemistry = departments
    assert physics.on("cpu-1", "getent", "hosts", "chem-1").exit_code != 0
    assert chemistry.on("chem-1", "getent", "hosts", "cpu-1").exit_code != 0
    assert physics.on("cpu-1", "getent", "hosts", "cpu-2").exit_code == 0


def test_a_credential_of_one_is_refused_by_the_other(departments: tuple[Cluster, Cluster]) -> None:
    physics, chemistry = departments
    credential = physics.on("cpu-1", "munge", "--no-input").stdout
    for each, accepted in ((physics, True), (chemistry, False)):
        way = transport({"kind": "local", "stack": each.stack, "machine": "ctl"}, each.data)
        done = way.run(["unmunge"], stdin=credential, timeout_s=10)
        assert (done.exit_code == 0) is accepted, done


def test_the_other_slurm_cannot_be_asked(departments: tuple[Cluster, Cluster]) -> None:
    physics, chemistry = departments
    theirs = chemistry.on("ctl", "cat", "/etc/slurm/slurm.conf").stdout
    way = transport({"kind": "local", "stack": physics.stack, "machine": "cpu-1"}, physics.data)
    assert way.run(["tee", "/tmp/theirs.conf"], stdin=theirs, timeout_s=10).exit_code == 0
    asked = physics.on("cpu-1", "env", "SLURM_CONF=/tmp/theirs.conf", "scontrol", "show", "nodes")
    assert asked.exit_code != 0
    assert "chem-1" not in asked.stdout
    assert "cpu-1" in physics.on("cpu-1", "scontrol", "show", "nodes").stdout


def test_files_and_mounts_of_the_other_and_of_the_host_are_not_seen(
    departments: tuple[Cluster, Cluster],
) -> None:
    physics, chemistry = departments
    assert chemistry.on("login-1", "touch", "/home/researcher/of-chemistry").exit_code == 0
    assert "of-chemistry" not in physics.on("cpu-1", "ls", "/home/researcher").stdout
    mounts = physics.on("cpu-1", "cat", "/proc/self/mountinfo").stdout
    assert chemistry.stack not in mounts
    for path in (chemistry.data, physics.data, physics.folder):
        assert physics.on("cpu-1", "ls", str(path)).exit_code != 0
    processes = physics.on("cpu-1", "ps", "ax").stdout
    assert chemistry.stack not in processes
    assert "slurmctld" not in processes


def test_each_has_ssh_keys_of_its_own(departments: tuple[Cluster, Cluster]) -> None:
    keys = {each.on("ctl", "cat", "/etc/ssh/authorized_keys.d/root").stdout for each in departments}
    assert len(keys - {""}) == 2
