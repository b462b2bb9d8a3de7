"""libvirt for real: the golden image boots as the machine that the graph says, on the network of a local cluster.

Its controller is a machine of this machine. libvirtd runs in the namespace of that cluster's network, where the switch
is the bridge that libvirt's options name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.golden import golden_image
from tests.infrastructures.libvirt.daemon import Host, a_host, missing
from tests.infrastructures.libvirt.graph import FILE, registered
from tests.infrastructures.libvirt.plugin import Plugin
from tests.patience import until_booted
from tests.provider.calls import Calls
from tests.whole.cluster import SPEC, Cluster, until
from tests.whole.conftest import a_cluster
from tidepool.clients.slurm import JobState
from tidepool.cluster.spec import ClusterSpec
from tidepool.images import ImageStore, Machine, export
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.libvirt.ask import output_of, virsh
from tidepool.infrastructures.libvirt.domain import pool_of
from tidepool.infrastructures.libvirt.machines import machines_of
from tidepool.infrastructures.local.kernel import read_network
from tidepool.resources.kind import Refusal

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing(file_server=True)), reason=missing(file_server=True)),
    pytest.mark.runs(
        "libvirt", "libvirt and QEMU of Debian 12, in software", versions.slurm("debian-12-cloud")
    ),
]

#: Of the program that the graph is of.
STACK = "dev"
KEY = MachineKey(STACK, "cpu-1")
IMAGE = "debian-12-cloud"
FLEET: dict[str, Any] = {
    "name": "cpu",
    "subnet": "10.78.1.0/24",
    "min_nodes": 0,
    "max_nodes": 2,
    "shape": {"cpus": 1, "memory": "256MiB"},
}


@pytest.fixture(scope="module")
def disk() -> Path:
    """The golden image as the graph uploads it."""
    image = golden_image(IMAGE)
    return export(image, "disk.qcow2", ImageStore(image.folder.parent), Machine(dict(os.environ))).path


@pytest.fixture(scope="module")
def cluster(disk: Path, images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A controller and a login machine, and slots that nobody has taken."""
    with a_cluster(tmp_path_factory.mktemp("cluster"), images, fleets=[FLEET]) as it:
        yield it


@pytest.fixture(scope="module")
def host(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    network = read_network(cluster.data, cluster.stack, "net")
    assert network is not None
    home = cluster.data / cluster.stack / "volumes" / "home"
    with a_host(tmp_path_factory.mktemp("host") / "h", network.prefix, {"home": home}) as it:
        yield it


def test_a_machine_of_libvirt_joins_a_local_cluster_runs_a_job_and_is_given_back(
    cluster: Cluster, host: Host, disk: Path, tmp_path: Path
) -> None:
    spec = spec_of(cluster, host, tmp_path)
    graph = registered(
        spec,
        {"cpu": "cpu-1"},
        munge_key=cluster.on("ctl", "base64", "--wrap=0", "/etc/munge/munge.key").stdout,
        known={FILE: {"path": str(disk)}},
    )
    Plugin(host.uri, tmp_path).make(graph, "cpu-1")
    machines = machines_of(spec, STACK, cluster.data)
    made = machines.read(KEY)
    assert made is not None
    assert (made.state, str(made.address)) == ("running", "10.78.1.1")
    assert machines.list(STACK) == (made,)

    membership = Calls(cluster.data, "tidepool:slurm:Node")
    with host.console(f"{STACK}-cpu-1"):
        until_booted(lambda: cluster.idle() == ["cpu-1"], lambda: cpu_s_of(host), host.said)
    node = membership.create(
        {
            "controller": {"kind": "local", "stack": cluster.stack, "machine": "ctl"},
            "node": "cpu-1",
            "machine": {"kind": "ssh", "stack": STACK, "address": str(made.address), "user": "root"},
            "slots": "cpu",
        }
    )

    job = cluster.submit("hostname; uname --kernel-release")
    assert (
        cluster.until_job(job, JobState.COMPLETED, JobState.FAILED, timeout_s=300).state is JobState.COMPLETED
    )
    written = cluster.on("login-1", "cat", f"/home/researcher/slurm-{job}.out").stdout.split()
    # Its own kernel, and the home of all the others.
    assert written[0] == "cpu-1"
    assert written[1] != os.uname().release
    assert "cloud" in written[1]

    # It does not go while it runs a job, and goes on as it was.
    assert node.resource_id is not None
    busy = cluster.submit("until test -e go-on; do sleep 0.2; done")
    cluster.until_job(busy, JobState.RUNNING, timeout_s=120)
    with pytest.raises(Refusal, match=rf"\b{busy}\b"):
        membership.delete(node.resource_id, node.properties or {})
    assert not cluster.nodes()["cpu-1"].state.is_draining
    # Drained, its job comes to its end, and no other begins.
    with cluster.slurm() as slurm:
        slurm.drain("cpu-1", "it goes back")
    waits = cluster.submit("hostname")
    cluster.on("login-1", "touch", "/home/researcher/go-on")
    assert cluster.until_job(busy, JobState.COMPLETED, JobState.FAILED, timeout_s=120).restarts == 0
    assert cluster.job(busy).state is JobState.COMPLETED

    def is_drained() -> bool | None:
        state = cluster.nodes()["cpu-1"].state
        return (state.is_draining and not state.runs_jobs) or None

    until(is_drained, "it is drained", timeout_s=60)
    assert cluster.job(waits).state is JobState.PENDING
    membership.delete(node.resource_id, node.properties or {})
    assert cluster.nodes() == {}
    machines.delete(KEY)
    assert machines.list(STACK) == ()
    left = output_of(virsh, host.uri, "list", "--all", "--name") + output_of(
        virsh, host.uri, "vol-list", pool_of(STACK)
    )
    assert "cpu-1" not in left
    assert "cpu-seed.iso" in left


def spec_of(cluster: Cluster, host: Host, folder: Path) -> ClusterSpec:
    """The cluster's, with its fleet on libvirt."""
    # The switch's address, where the file server listens: the network's last.
    home = f"{IPv4Network(SPEC['network'])[-2]}:/home"
    place = {
        "hosts": {"here": host.uri},
        "bridge": "switch",
        "pool": f"{folder}/pool",
        "volumes": {"home": home},
    }
    options = {"virtualization": "qemu", "disk": "6GiB"}
    libvirt = {"name": "libvirt", "image": IMAGE, "options": options}
    mapping = {
        **SPEC,
        **cluster.spec,
        "infrastructures": {"libvirt": place},
        "fleets": [{**FLEET, "infrastructures": [libvirt]}],
    }
    return ClusterSpec.model_validate(mapping)


def cpu_s_of(host: Host) -> float:
    """How many seconds of a processor its emulator has had."""
    told = output_of(virsh, host.uri, "dominfo", f"{STACK}-cpu-1")
    return float(re.search(r"CPU time:\s+([0-9.]+)s", told)[1])  # type: ignore[index]
