"""One fleet on two real infrastructures: machines of this machine first, emulated VMs of libvirt when those are sold out.

libvirtd runs in the namespace of the cluster's network, whose switch is the bridge that libvirt's options name; `tidepool`
runs there, too, as on a machine that is on that bridge. VMs boot the golden image, and mount the cluster's own homes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.golden import golden_store
from tests.infrastructures.libvirt.daemon import SOFTWARE, Host, missing
from tests.whole.breathing import completed, machines, scale_until
from tests.whole.cluster import Cluster
from tests.whole.conftest import a_cluster
from tests.whole.vms import BOOT_S, a_host_there, domains, emulated, place
from tidepool.clients.slurm import JobState
from tidepool.infrastructures.libvirt.ask import output_of, virsh

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing(file_server=True)), reason=missing(file_server=True)),
    pytest.mark.runs("libvirt", SOFTWARE, versions.slurm("debian-12-cloud")),
]

IMAGE = "debian-12-cloud"
#: No node without a job. Slots are for those that fail, too: their names are left alone.
FLEET: dict[str, Any] = {
    "name": "cpu",
    "subnet": "10.78.1.0/24",
    "max_nodes": 6,
    "shape": {"cpus": 1, "memory": "256MiB"},
    "idle_timeout_s": 1,
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
            # Whatever came of the test, as long as the host answers, and the network is there.
            cluster.down()
            cluster.through = ()


def spanning(host: Host, folder: Path, **options: Any) -> dict[str, Any]:
    """The parts of the spec that say where nodes come from."""
    first = {"name": "local", "max_nodes": 1}
    then = {"name": "libvirt", "image": IMAGE, "options": emulated(**options)}
    return {
        "infrastructures": {"libvirt": place(host, folder)},
        "fleets": [{**FLEET, "infrastructures": [first, then]}],
    }


def why(cluster: Cluster, what: str, name: str | int) -> str:
    return " ".join(cluster.tidepool("why", what, str(name)).split())


def begin(cluster: Cluster, name: str) -> int:
    """A job that takes a whole node, says where it runs, and runs until `end`."""
    script = f"hostname; uname --kernel-release; until test -e {name}; do sleep 0.5; done"
    return cluster.submit(script, output=f"{name}.out")


def runs(cluster: Cluster, job: int) -> bool:
    return cluster.job(job).state is JobState.RUNNING


def end(cluster: Cluster, name: str, job: int) -> tuple[str, str]:
    """The node that it ran on, and that one's kernel."""
    cluster.on("login-1", "touch", f"/home/researcher/{name}")
    completed(cluster, [job])
    node, kernel = cluster.on("login-1", "cat", f"/home/researcher/{name}.out").stdout.split()
    return node, kernel


def test_demand_moves_on_to_vms_when_this_machine_is_sold_out_and_comes_back(
    cluster: Cluster, host: Host, tmp_path: Path
) -> None:
    # It gives its VMs no time to boot.
    cluster.spec |= spanning(host, tmp_path / "pool", boot_timeout_s=3)
    cluster.up()
    here = begin(cluster, "here")
    scale_until(cluster, lambda: runs(cluster, here), "the first job runs", BOOT_S)
    assert machines(cluster) == ["cpu-1"]
    assert domains(host) == []

    # They are tried under three names, and left alone then. Those here are not: they are sold out.
    never = begin(cluster, "never")

    def left_alone() -> bool:
        # Those that were given up would go on to boot, and take the processors from all else.
        for running in output_of(virsh, host.uri, "list", "--state-running", "--name").split():
            output_of(virsh, host.uri, "suspend", running)
        return "libvirt is left alone until" in why(cluster, "job", never)

    scale_until(cluster, left_alone, "VMs do not boot", BOOT_S)
    told = why(cluster, "fleet", "cpu")
    assert "does not answer within 3 s" in told
    assert "local is left alone" not in told
    with cluster.slurm() as slurm:
        slurm.cancel(never)
    scale_until(cluster, lambda: domains(host) == [], "what did not boot is gone", BOOT_S)
    assert runs(cluster, here)

    # With time they boot, once the pause is over.
    cluster.spec |= spanning(host, tmp_path / "pool")
    cluster.up()
    there = begin(cluster, "there")
    scale_until(cluster, lambda: runs(cluster, there), "a VM boots, and the job runs there", BOOT_S)
    (domain,) = domains(host)
    vm = domain.removeprefix(f"{cluster.stack}-")
    assert "on libvirt, for local" in why(cluster, "node", vm)
    assert machines(cluster) == ["cpu-1"]
    node, kernel = end(cluster, "there", there)
    assert (node, "cloud" in kernel, kernel == os.uname().release) == (vm, True, False)
    assert end(cluster, "here", here) == ("cpu-1", os.uname().release)

    # Nobody needs them, and they go; the next job is here again.
    scale_until(cluster, lambda: not machines(cluster) and not domains(host), "all nodes are gone", BOOT_S)
    assert cluster.nodes() == {}
    again = begin(cluster, "again")
    scale_until(cluster, lambda: runs(cluster, again), "a job runs again", BOOT_S)
    assert (len(machines(cluster)), domains(host)) == (1, [])
    assert end(cluster, "again", again)[1] == os.uname().release
