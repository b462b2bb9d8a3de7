"""A Kubernetes for clusters of pods: its nodes are machines of a converged pool, and so is its control plane one of this machine's.

As at a site, an administrator made what a stack finds there: volumes of a class, which all nodes have; the image in each
node's containerd; and a network that gives a pod the address that Calico's annotation asks for. Pods are on the switch of
the ground's network, where `tidepool` runs as well.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Final

from demo.pods import ADMIN
from tests.golden import CONVERGED, golden_image, golden_store
from tests.whole.pools import PoolCluster, a_pool_cluster
from tidepool.cluster.roles import CNI_CONFIG, CNI_PROGRAMS
from tidepool.images import Image, ImageStore, Machine, export
from tidepool.infrastructures.kubernetes_access import load_access
from tidepool.infrastructures.local.kernel import read_network

#: The class of volumes.
CLASS: Final = "shared"
#: Each node says that it has as many processors as this machine, two: room for as many pods.
NODES: Final = 3
_SIZE: Final = {"cpus": 2, "memory": "2GiB"}
_VOLUMES: Final = ("home", "slurmctld")
#: Gives a pod the address that its annotation asks for, in the network that the configuration names.
_ASKED: Final = r"""#!/bin/sh
# A program of CNI for addresses: containerd hands it a pod's annotations.
told=$(cat)
case $CNI_COMMAND in
ADD)
    address=$(echo "$told" | tr -d '\\' | sed -n 's|.*cni.projectcalico.org/ipAddrs":"\["\([0-9.]*\)"\]".*|\1|p')
    length=$(echo "$told" | sed -n 's|.*"length":\([0-9]*\).*|\1|p')
    [ "$address" ] || { echo '{"cniVersion": "0.4.0", "code": 100, "msg": "the pod asks for no address"}'; exit 1; }
    echo "{\"cniVersion\": \"0.4.0\", \"ips\": [{\"version\": \"4\", \"address\": \"$address/$length\"}]}" ;;
VERSION) echo '{"cniVersion": "0.4.0", "supportedVersions": ["0.4.0"]}' ;;
esac
"""


@dataclass(frozen=True, slots=True)
class Ground:
    """A Kubernetes whose administrator's kubeconfig is the file ``kubeconfig``, for a cluster in ``network``."""

    pool: PoolCluster
    kubeconfig: Path
    network: IPv4Network

    @property
    def prefix(self) -> Sequence[str]:
        """Put before a command, it runs where pods and the API server are reached."""
        switch = read_network(self.pool.data, self.pool.stack, "net")
        assert switch is not None
        return switch.prefix

    @property
    def address(self) -> str:
        """The address of what runs there, as pods see it: the last one that can be."""
        return str(self.network[-2])


@contextmanager
def a_ground(folder: Path, network: IPv4Network) -> Iterator[Ground]:
    """One that is up, with nothing left of it afterwards."""
    store = golden_store("debian-12", CONVERGED)
    image = golden_image()
    with a_pool_cluster(folder, store, NODES, kubernetes_min=NODES, shape=_SIZE) as pool:
        ground = Ground(pool, folder / "kubeconfig", network)
        ground.kubeconfig.touch(0o600)
        ground.kubeconfig.write_text(load_access(pool.data, pool.stack, ADMIN).kubeconfig)
        words = ["ip", "addr", "add", f"{ground.address}/{network.prefixlen}", "dev", "switch"]
        subprocess.run([*ground.prefix, *words], check=True)
        with ThreadPoolExecutor(NODES) as nodes:
            list(nodes.map(lambda node: _prepare(pool, node, image, network), pool.names))
        with pool.applying() as applying:
            for thing in _volumes(pool):
                applying.apply(thing)
        yield ground


def _prepare(pool: PoolCluster, node: str, image: Image, network: IPv4Network) -> None:
    load(pool, node, image)
    root = pool.root(node)
    program = root / CNI_PROGRAMS.lstrip("/") / "asked"
    program.write_text(_ASKED)
    program.chmod(0o755)
    plugin = {
        "type": "macvlan",
        "master": "eth0",
        "mode": "bridge",
        "capabilities": {"io.kubernetes.cri.pod-annotations": True},
        "ipam": {"type": "asked", "length": network.prefixlen},
    }
    config = {"cniVersion": "0.4.0", "name": "asked", "plugins": [plugin]}
    (root / CNI_CONFIG.lstrip("/")).write_text(json.dumps(config))


def load(pool: PoolCluster, node: str, image: Image) -> None:
    """The image in the node's containerd, as where there is no registry."""
    file = export(image, "oci", ImageStore(image.folder.parent), Machine(dict(os.environ))).path
    there = pool.root(node) / "var/lib/containerd/image.oci"
    shutil.copyfile(file, there)
    words = ("ctr", "--namespace", "k8s.io", "images", "import", "/var/lib/containerd/image.oci")
    done = pool.on(node, *words, timeout_s=300)
    assert done.exit_code == 0, done.stderr
    there.unlink()


def _volumes(pool: PoolCluster) -> Iterator[Mapping[str, Any]]:
    """A class of volumes, and those of it: folders of the homes, which all machines of this ground share."""
    storage = "storage.k8s.io/v1"
    yield {
        "apiVersion": storage,
        "kind": "StorageClass",
        "metadata": {"name": CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
    }
    for name in _VOLUMES:
        pool.on("ctl", "mkdir", "-p", f"/home/volumes/{name}")
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "capacity": {"storage": "1Gi"},
                "storageClassName": CLASS,
                "hostPath": {"path": f"/home/volumes/{name}", "type": "Directory"},
            },
        }
