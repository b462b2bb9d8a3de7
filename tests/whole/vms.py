"""Emulated VMs of libvirt on the network of a cluster of this machine, whose homes they mount."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Final

from tests.golden import golden_store
from tests.infrastructures.libvirt.daemon import Host, a_host
from tests.plugins.serving import search_path
from tests.whole.cluster import SPEC, Cluster
from tests.whole.pools import PoolCluster, spec
from tidepool.cluster.names import CLUSTER_NETWORK
from tidepool.infrastructures.libvirt.ask import output_of, virsh
from tidepool.infrastructures.local.kernel import read_network

#: Of the pool's VMs; and where the roles have an image each, of those that serve Kubernetes.
IMAGE: Final = "debian-12-vm-converged"
KUBERNETES_IMAGE: Final = "debian-13-vm-kubernetes"
#: The pool whose roles have an image each.
MIXED: Final = "mixed"
#: By the clock, where the emulator gets hardly anything of the processors.
BOOT_S: Final = 1200.0
_EMULATED: Final = {"virtualization": "qemu", "disk": "6GiB"}


@contextmanager
def a_host_there(cluster: Cluster, folder: Path) -> Iterator[Host]:
    """A host with libvirt on the cluster's network, and the cluster's homes by NFS; `tidepool` runs there, too, from now on."""
    network = read_network(cluster.data, cluster.stack, CLUSTER_NETWORK)
    assert network is not None
    cluster.through, cluster.path = network.prefix, search_path(folder / "plugins", "libvirt")
    home = cluster.data / cluster.stack / "volumes" / "home"
    with a_host(folder / "host", network.prefix, {"home": home}) as host:
        yield host


def place(host: Host, folder: Path) -> dict[str, Any]:
    """What a spec says of libvirt for the host; VMs' disks are in ``folder``."""
    # The switch's address, where the file server listens: the network's last.
    home = f"{IPv4Network(SPEC['network'])[-2]}:/home"
    return {"hosts": {"here": host.uri}, "bridge": "switch", "pool": str(folder), "volumes": {"home": home}}


def emulated(**options: Any) -> dict[str, Any]:
    """The options of a fleet or a pool of such VMs."""
    return {**_EMULATED, **options}


def domains(host: Host) -> list[str]:
    """The VMs that there are, in whatever state."""
    return output_of(virsh, host.uri, "list", "--all", "--name").split()


@contextmanager
def a_pool_of_vms(folder: Path, machines: int, by_image: int = 0, cpus: int = 2) -> Iterator[PoolCluster]:
    """A cluster of this machine, whose pool has VMs on the cluster's bridge; nothing is left of it afterwards.

    ``by_image`` are the machines of a second pool, `MIXED`, whose roles have an image each.
    """
    images = golden_store("debian-12", IMAGE, *([KUBERNETES_IMAGE] if by_image else []))
    wanted = spec(machines, image=IMAGE, deadline_s=600, shape={"cpus": cpus, "memory": "512MiB"})
    wanted["pools"] = [
        pool
        for pool in (
            wanted["pools"][0],
            {
                **wanted["pools"][0],
                "name": MIXED,
                "subnet": "10.78.3.0/24",
                "machines": by_image,
                "images": {"kubernetes": KUBERNETES_IMAGE},
            },
        )
        if pool["machines"]
    ]
    later = {key: wanted.pop(key) for key in ("pools", "kubernetes")}
    cluster = PoolCluster.make(folder / "cluster", images, f"t{uuid.uuid4().hex[:8]}", **wanted)
    try:
        cluster.up()
        with a_host_there(cluster, folder) as host:
            cluster.spec |= {**later, "infrastructures": {"libvirt": place(host, folder / "pool")}}
            for pool in cluster.spec["pools"]:
                pool["infrastructure"] = {"name": "libvirt", "options": emulated()}
            cluster.up(timeout_s=BOOT_S)
            try:
                yield cluster
            finally:
                # As long as the host answers, and the network is there.
                cluster.down(BOOT_S)
            assert domains(host) == []
    finally:
        cluster.through = ()
        cluster.down()
