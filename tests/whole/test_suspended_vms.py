"""A fleet that keeps an emulated VM suspended: it goes on for a job, which runs by the right time, and is suspended again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.golden import golden_store
from tests.infrastructures.libvirt.daemon import SOFTWARE, Host, missing
from tests.whole.breathing import Daemon, completed, killed_after, launches, scale_until
from tests.whole.cluster import Cluster, summary, until
from tests.whole.conftest import a_cluster
from tests.whole.vms import BOOT_S, a_host_there, domains, emulated, place
from tidepool.clients.slurm import JobState
from tidepool.infrastructures.libvirt.ask import output_of, virsh

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing(file_server=True)), reason=missing(file_server=True)),
    pytest.mark.runs("libvirt", SOFTWARE, versions.slurm("debian-12-vm")),
]

IMAGE = "debian-12-vm"
#: One machine, and no slot for another that would be prepared meanwhile.
FLEET: dict[str, Any] = {
    "name": "cpu",
    "subnet": "10.78.1.0/24",
    "max_nodes": 1,
    "shape": {"cpus": 1, "memory": "256MiB"},
    # It is suspended before that.
    "idle_timeout_s": 600,
}


@pytest.fixture(scope="module")
def cluster(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A controller and a login machine of this machine, and no node."""
    assert golden_store("debian-12", IMAGE) == images
    with a_cluster(tmp_path_factory.mktemp("cluster"), images, fleets=[FLEET]) as it:
        yield it


@pytest.fixture(scope="module")
def host(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with a_host_there(cluster, tmp_path_factory.mktemp("host")) as it:
        try:
            yield it
        finally:
            cluster.down(BOOT_S)
            cluster.through = ()
        # With the machine its memory goes.
        assert (domains(it), saved(it)) == ([], [])


def saved(host: Host) -> list[Path]:
    """The files of memory that the host has."""
    return sorted(host.folder.glob("lib/qemu/save/*.save"))


def phase(cluster: Cluster) -> str:
    """The phase of the fleet's node, as the daemon saw it."""
    return str(json.loads(cluster.tidepool("why", "node", "cpu-1", "--json"))["phase"])


def identity(cluster: Cluster, host: Host) -> str:
    return output_of(virsh, host.uri, "domuuid", f"{cluster.stack}-cpu-1").strip()


def test_a_vm_is_suspended_goes_on_for_a_job_and_is_suspended_again(
    cluster: Cluster, host: Host, tmp_path: Path
) -> None:
    offering = {"name": "libvirt", "image": IMAGE, "options": emulated()}
    warm = {"name": "warm", "fleet": "cpu", "nodes": 0, "suspended": 1}
    cluster.spec |= {
        "infrastructures": {"libvirt": place(host, tmp_path / "pool")},
        "fleets": [{**FLEET, "infrastructures": [offering]}],
        "scaling": {"boot_timeout_s": 600, "policies": ["queue", warm]},
    }
    cluster.up()
    scale_until(cluster, lambda: phase(cluster) == "suspended", "a machine is suspended", BOOT_S)
    (file,) = saved(host)
    assert file.stat().st_mode & 0o777 == 0o600
    was = identity(cluster, host)
    assert cluster.nodes() == {}
    # A person's `up`, which looks at all that there is, leaves it as it is.
    assert set(summary(cluster.up("--refresh", "--json"))["changes"]) == {"same"}
    assert output_of(virsh, host.uri, "domstate", f"{cluster.stack}-cpu-1").strip() == "shut off"
    assert json.loads(cluster.tidepool("status", "--json"))["problems"] == []

    # Its clock stood meanwhile, and is right when the job begins.
    script = "date +%s.%N; uptime --since; until test -e done; do sleep 0.5; done"
    job = cluster.submit(script, output="out")

    def is_recorded() -> bool:
        return cluster.job(job).state is JobState.RUNNING and len(launches(cluster, "slurmd")) == 2

    scale_until(cluster, is_recorded, "the job runs, and how long that took is recorded", BOOT_S)
    began = cluster.job(job).start_time
    assert began is not None
    assert saved(host) == []
    assert identity(cluster, host) == was
    said = until(lambda: cluster.on("login-1", "cat", "/home/researcher/out").stdout or None, "it says")
    assert abs(float(said.splitlines()[0]) - began.timestamp()) < 30
    looks = "systemctl is-active tidepool-munged tidepool-slurmd systemd-timesyncd; date +%s"
    *services, now = cluster.tidepool("exec", "cpu-1", "--", "sh", "-c", looks).split()
    assert services == ["active"] * 3
    assert abs(float(now) - time.time()) < 10
    first, then = launches(cluster, "slurmd")
    assert [bool(each["resuming_s"]) for each in (first, then)] == [False, True]
    assert float(then["total_s"]) < float(first["total_s"])
    print(f"boot: {first}\nresume: {then}")  # noqa: T201 - figures, for who runs it by hand

    # Whoever suspends it is killed once its memory is there, and before anybody wrote that down.
    cluster.on("login-1", "touch", "/home/researcher/done")
    with killed_after(Daemon.fork(cluster, "killed")):
        until(lambda: saved(host) or None, "its memory is being saved", BOOT_S, 0.05)
    completed(cluster, [job])
    scale_until(cluster, lambda: phase(cluster) == "suspended", "it is suspended", BOOT_S)
    assert identity(cluster, host) == was
