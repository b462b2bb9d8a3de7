"""A fleet of bare metal whose hosts boot: by firmware, GRUB and a kernel, from what their BMCs fetched of the stack's boot service.

BMCs are sushy-tools' with its driver of libvirt, hosts are emulated; the control plane is of this machine, in whose network they are.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.golden import golden_store
from tests.infrastructures.libvirt.daemon import SOFTWARE, a_host, missing
from tests.infrastructures.metal.bmcs import PASSWORD, USER
from tests.infrastructures.metal.emulated_hosts import EmulatedHosts, emulated_hosts, libvirt_of_debian
from tests.whole.breathing import scale_until
from tests.whole.cluster import SPEC, Cluster, until
from tests.whole.vms import BOOT_S
from tidepool.clients.slurm import JobState
from tidepool.cluster.names import CLUSTER_NETWORK
from tidepool.infrastructures.local.kernel import read_network

IMAGE = "debian-12-metal"
#: Three boots, and an image that is read and written by an emulated processor.
BY_HAND = "TIDEPOOL_TEST_DISKS"
pytestmark = [
    pytest.mark.slow,
    # sushy-tools leaves the ISOs that it reads to be closed by whoever collects them.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.skipif(bool(missing(file_server=True)), reason=missing(file_server=True)),
    pytest.mark.skipif(
        libvirt_of_debian() is None,
        reason="python3-libvirt is not installed: apt-get install python3-libvirt",
    ),
]

FLEET: dict[str, Any] = {
    "name": "cpu",
    "subnet": "10.78.1.0/24",
    "max_nodes": 1,
    "shape": {"cpus": 1, "memory": "256MiB"},
    "idle_timeout_s": 1,
}


@pytest.fixture
def cluster(images: Path, tmp_path: Path) -> Iterator[Cluster]:
    """A controller and a login machine of this machine."""
    assert golden_store("debian-12", IMAGE) == images
    it = Cluster.make(tmp_path / "cluster", images, f"t{uuid.uuid4().hex[:8]}", fleets=[FLEET])
    it.pause_s = 2.0
    try:
        it.up()
        yield it
    finally:
        it.through = ()
        it.down()


@pytest.fixture
def hosts(cluster: Cluster, tmp_path: Path) -> Iterator[EmulatedHosts]:
    """One host, in the cluster's network; nothing is left of the stack afterwards."""
    network = read_network(cluster.data, cluster.stack, CLUSTER_NETWORK)
    assert network is not None
    cluster.through = network.prefix
    home = cluster.data / cluster.stack / "volumes" / "home"
    switch = IPv4Network(SPEC["network"])[-2]
    with (
        a_host(tmp_path / "libvirt", network.prefix, {"home": home}) as libvirt,
        emulated_hosts(tmp_path / "hosts", libvirt, switch, "alpha") as it,
        it.serving(cluster.data),
    ):
        try:
            yield it
        finally:
            # As long as the network is there.
            if read_network(cluster.data, cluster.stack, CLUSTER_NETWORK) is not None:
                cluster.down(BOOT_S)


def on_metal(cluster: Cluster, hosts: EmulatedHosts, folder: Path, **offering: Any) -> None:
    """Have the fleet's machines be the hosts."""
    credentials = folder / "bmc"
    credentials.write_text(f"{USER}:{PASSWORD}\n")
    credentials.chmod(0o600)
    options = {
        "hosts": {"alpha": hosts.options("alpha")},
        "credentials": str(credentials),
        "boot_service": hosts.boot_service,
        "volumes": {"home": f"{hosts.address}:/home"},
    }
    entry = {"name": "metal", "image": IMAGE, "options": {"overhead": "1GiB", **offering}}
    cluster.spec |= {"infrastructures": {"metal": options}, "fleets": [{**FLEET, "infrastructures": [entry]}]}


def begin(cluster: Cluster, hosts: EmulatedHosts, name: str) -> int:
    """Have a host switched on for a job, which says on which kernel it runs, and then waits to be told."""
    script = "trap 'exit 0' USR1; uname --kernel-release; sleep infinity & wait"
    job = cluster.submit(script, output=f"{name}.out")
    try:
        scale_until(cluster, lambda: cluster.job(job).state is JobState.RUNNING, f"{name} runs", BOOT_S)
    except BaseException:
        print(hosts.console("alpha")[-6000:])  # noqa: T201 - what pytest shows of a test that failed
        raise
    assert hosts.on() == {"alpha"}
    until(lambda: said(cluster, name) or None, "its script runs", BOOT_S, 1)
    return job


def said(cluster: Cluster, name: str) -> str:
    """What a job has written, where the server has it: clients see what others made half a minute later."""
    return cluster.on("login-1", "cat", f"/home/researcher/{name}.out").stdout.strip()


def end(cluster: Cluster, hosts: EmulatedHosts, name: str, job: int) -> None:
    """Tell the job to end; nobody needs the host any more."""
    cluster.on("login-1", "scancel", "--batch", "--signal=USR1", str(job))
    cluster.until_job(job, JobState.COMPLETED, timeout_s=BOOT_S)
    assert said(cluster, name) != os.uname().release
    # Nobody needs the host: it is off and, where it wrote to a disk, on once more before it is nobody's.
    scale_until(cluster, lambda: {*hosts.bmcs.tags.values()} == {""}, "it is nobody's", BOOT_S)
    assert hosts.on() == set()


def on_node(cluster: Cluster, *command: str) -> str:
    return cluster.tidepool("exec", "cpu-1", "--", *command, timeout_s=BOOT_S).strip()


@pytest.mark.runs(
    "metal",
    versions.installed("sushy"),
    "Redfish of " + versions.installed("sushy-tools"),
    SOFTWARE,
    versions.slurm(IMAGE),
)
def test_a_host_boots_for_a_job_is_switched_off_when_idle_and_comes_back_for_the_next(
    cluster: Cluster, hosts: EmulatedHosts, tmp_path: Path
) -> None:
    on_metal(cluster, hosts, tmp_path)
    cluster.up(timeout_s=BOOT_S)
    assert (hosts.on(), {*hosts.bmcs.tags.values()}) == (set(), {""})
    one = begin(cluster, hosts, "one")
    assert on_node(cluster, "findmnt", "--noheadings", "--output=FSTYPE", "/") == "overlay"
    assert on_node(cluster, "systemctl", "--failed", "--quiet", "--no-legend") == ""
    # What its boot said is kept here.
    log = cluster.data / cluster.stack / "metal" / "logs" / "alpha.log"
    until(
        lambda: (log.exists() and "Reached target tidepool.target" in log.read_text()) or None,
        "its log",
        BOOT_S,
        1,
    )
    assert "Linux version" in log.read_text()
    end(cluster, hosts, "one", one)
    begin(cluster, hosts, "two")
    # With a job on it, it is given back all the same, as a person wants no more of the stack.
    cluster.down(BOOT_S)
    assert (hosts.on(), {*hosts.bmcs.tags.values()}) == (set(), {""})


@pytest.mark.skipif(
    not os.environ.get(BY_HAND), reason=f"a disk written in software takes minutes: {BY_HAND}=1"
)
def test_a_host_boots_from_its_disk_and_is_given_back_with_nothing_on_it(
    cluster: Cluster, hosts: EmulatedHosts, tmp_path: Path
) -> None:
    on_metal(cluster, hosts, tmp_path, root="disk")
    cluster.up(timeout_s=BOOT_S)
    job = begin(cluster, hosts, "one")
    mounted = on_node(cluster, "findmnt", "--noheadings", "--output=SOURCE,FSTYPE", "/").split()
    assert (mounted[0].startswith("/dev/sda"), mounted[1]) == (True, "ext4")
    assert on_node(cluster, "systemctl", "--failed", "--quiet", "--no-legend") == ""
    with hosts.disk("alpha").open("rb") as disk:
        assert any(disk.read(2**20))
    end(cluster, hosts, "one", job)
    with hosts.disk("alpha").open("rb") as disk:
        assert not any(any(chunk) for chunk in iter(lambda: disk.read(2**24), b""))
