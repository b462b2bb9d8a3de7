"""A fleet of pods for real: the graph's own pod runs by a real kubelet as a node of a cluster of this machine's machines.

The kubelet is that of a converged pool's machine, whose network is told to give pods the one address that is asked for, as
Calico would be by the pod's annotation. `home` is a claim, which here is the cluster's own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.golden import CONVERGED, golden_image, golden_store
from tests.infrastructures.kubernetes.graph import applied, registered
from tests.provider.calls import Calls, plainly
from tests.toolchain import needs_kubernetes
from tests.whole.cluster import SPEC, until
from tests.whole.pools import ANY, PoolCluster, a_pool_cluster
from tidepool.clients.kubernetes.contract import EvictionRefused
from tidepool.clients.slurm import JobState
from tidepool.clients.transport import Completed
from tidepool.cluster.roles import CNI_CONFIG
from tidepool.cluster.spec import ClusterSpec
from tidepool.images import Image, ImageStore, Machine, export
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.connection import transport
from tidepool.infrastructures.kubernetes.machines import KubernetesMachines
from tidepool.testing import Graph
from tidepool.toolchain import KUBERNETES

pytestmark = [
    pytest.mark.slow,
    needs_kubernetes,
    pytest.mark.runs("kubernetes", versions.built(KUBERNETES), versions.slurm()),
]

#: Of the program that the graph is of.
STACK = "dev"
NAMESPACE = "fleets"
KUBELET = "shared-1"
KEY = MachineKey(STACK, "cpu-1")
ADDRESS = IPv4Address("10.78.1.1")
FLEET: dict[str, Any] = {
    "name": "cpu",
    "subnet": "10.78.1.0/24",
    "min_nodes": 0,
    "max_nodes": 2,
    "shape": {"cpus": 1, "memory": "256MiB"},
}
#: As the page says of pods: what daemons need to become other users, and no more.
CAPABILITIES = "00000000200404fb"
Keys = Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="module")
def cluster(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolCluster]:
    """A controller, a login machine, slots that nobody has taken, and a machine that serves Kubernetes."""
    golden_store("debian-12", CONVERGED)
    with a_pool_cluster(tmp_path_factory.mktemp("cluster"), images, 1, fleets=[FLEET]) as it:
        it.to("kubernetes", KUBELET)
        yield it


def test_a_pod_joins_a_local_cluster_is_kept_while_it_runs_a_job_and_is_given_back(
    cluster: PoolCluster,
) -> None:
    image = golden_image()
    load(cluster, image)
    give_addresses(cluster)
    keys = keys_of(cluster)
    graph = graph_of(cluster, image, keys)
    with cluster.applying() as applying:
        for thing in administrators():
            applying.apply(thing)
        applied(applying, graph)
    until(lambda: cluster.idle() == ["cpu-1"] or None, "the pod is a node that waits for jobs", 120)

    machines = KubernetesMachines(cluster.kubernetes, NAMESPACE)
    made = machines.read(KEY)
    assert made is not None
    assert (made.state, made.address) == ("running", ADDRESS)
    assert machines.list(STACK) == (made,)
    said = by_ssh(cluster, keys, "hostname; grep CapEff /proc/1/status; getent hosts dbd")
    # It knows who may come, as here slurmdbd's machine: a pod's names are never others.
    assert said.split() == ["cpu-1", "CapEff:", CAPABILITIES, "10.78.0.4", "dbd"]
    membership = Calls(cluster.data, "tidepool:slurm:Node")
    node = membership.create(
        {
            "controller": {"kind": "local", "stack": cluster.stack, "machine": "ctl"},
            "node": "cpu-1",
            "machine": {"kind": "ssh", "stack": STACK, "address": str(ADDRESS), "user": "root"},
            "slots": "cpu",
        }
    )

    # It ends when somebody says so in the home that all machines share.
    job = cluster.submit("hostname; until test -e go; do sleep 0.2; done", more=("--nodelist=cpu-1",))
    cluster.until_job(job, JobState.RUNNING)
    with closing(cluster.kubernetes()) as kubernetes:
        (pod,) = kubernetes.pods_in(NAMESPACE)
        until(lambda: busy(cluster) == 1 or None, "the pod counts as busy")
        with pytest.raises(EvictionRefused, match="busy-cpu"):
            kubernetes.evict(pod)
    cluster.on("login-1", "touch", "/home/researcher/go")
    assert cluster.until_job(job, JobState.COMPLETED, JobState.FAILED).state is JobState.COMPLETED
    written = cluster.on("login-1", "cat", f"/home/researcher/slurm-{job}.out").stdout
    assert written.split() == ["cpu-1"]

    assert node.resource_id is not None
    membership.delete(node.resource_id, node.properties or {})
    assert cluster.nodes() == {}
    machines.delete(KEY)
    assert machines.list(STACK) == ()
    assert "slurmd" not in cluster.processes(KUBELET)


def load(cluster: PoolCluster, image: Image) -> None:
    """The image in the node's containerd, as where there is no registry."""
    file = export(image, "oci", ImageStore(image.folder.parent), Machine(dict(os.environ))).path
    there = cluster.root(KUBELET) / "var/lib/containerd/image.oci"
    shutil.copyfile(file, there)
    words = ("ctr", "--namespace", "k8s.io", "images", "import", "/var/lib/containerd/image.oci")
    done = cluster.on(KUBELET, *words, timeout_s=120)
    assert done.exit_code == 0, done.stderr
    there.unlink()


def give_addresses(cluster: PoolCluster) -> None:
    """The network of the node's pods: it gives the slot's address alone, and the node answers for it."""
    path = cluster.root(KUBELET) / CNI_CONFIG.lstrip("/")
    config = json.loads(path.read_text())
    gateway = str(IPv4Network(FLEET["subnet"])[-2])
    one = {"rangeStart": str(ADDRESS), "rangeEnd": str(ADDRESS), "gateway": gateway}
    config["plugins"][0]["ipam"]["ranges"] = [[{"subnet": FLEET["subnet"], **one}]]
    path.write_text(json.dumps(config))
    # What it starts has its name for a moment.
    pid = min(pid for pid, name in cluster.pids(KUBELET).items() if name == "kubelet")
    settings = ("net.ipv4.conf.eth0.proxy_arp=1", "net.ipv4.ip_forward=1")
    subprocess.run(["nsenter", f"--net=/proc/{pid}/ns/net", "sysctl", "--quiet", *settings], check=True)


def keys_of(cluster: PoolCluster) -> Keys:
    """An administrator's key, and the one that machines show, by the resource that makes them."""
    make = Calls(cluster.data, "tidepool:keys:SshKey")
    return {whose: plainly(make.create({}).properties) for whose in ("administrator", "machines")}


def graph_of(cluster: PoolCluster, image: Image, keys: Keys) -> Graph:
    """The cluster's, with its fleet as pods."""
    place = {
        "namespace": NAMESPACE,
        "own_namespace": False,
        "pull": "Never",
        "volumes": {"home": {"claim": "home"}},
    }
    pods = {"name": "kubernetes", "options": {"overhead": "64MiB"}}
    mapping = {
        **SPEC,
        "name": cluster.stack,
        "infrastructures": {"kubernetes": place},
        "fleets": [{**FLEET, "infrastructures": [pods]}],
    }
    return registered(
        ClusterSpec.model_validate(mapping),
        {"cpu": "cpu-1"},
        digest=image.folder.name,
        munge_key=cluster.on("ctl", "base64", "--wrap=0", "/etc/munge/munge.key").stdout,
        known={f"tidepool:keys:SshKey ssh@{whose}": key for whose, key in keys.items()},
    )


def administrators() -> tuple[Mapping[str, Any], ...]:
    """What an administrator makes: the namespace, and in it a home, which is the node's own here."""
    labels = {"tidepool/stack": STACK, "pod-security.kubernetes.io/enforce": "baseline"}
    space: dict[str, Any] = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
    }
    return (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "home"},
            "spec": {
                **space,
                "capacity": {"storage": "1Gi"},
                "hostPath": {"path": "/home", "type": "Directory"},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "home", "namespace": NAMESPACE},
            "spec": {**space, "volumeName": "home", "resources": {"requests": {"storage": "1Gi"}}},
        },
    )


def by_ssh(cluster: PoolCluster, keys: Keys, script: str) -> str:
    """What the pod says to who has the stack's key, and knows the one that machines show."""
    controller = transport({"kind": "local", "stack": cluster.stack, "machine": "ctl"}, cluster.data)
    shown = " ".join(keys["machines"]["publicKey"].split()[:2])
    for path, text in (("key", keys["administrator"]["privateKey"]), ("known", f"{ADDRESS} {shown}\n")):
        controller.run(["sh", "-c", f"umask 077; cat >/root/{path}"], stdin=text, timeout_s=10)
    options = (
        "-o",
        "UserKnownHostsFile=/root/known",
        "-o",
        "StrictHostKeyChecking=yes",
        "-o",
        "BatchMode=yes",
    )
    words = ("ssh", "-i", "/root/key", *options, f"root@{ADDRESS}", script)

    def reached() -> Completed | None:
        done = controller.run(words, timeout_s=30)
        # sshd starts after slurmd, by which the node is there.
        return None if done.stderr.strip().endswith("Connection refused") else done

    done = until(reached, "sshd answers")
    assert done.exit_code == 0, done.stderr
    return done.stdout


def busy(cluster: PoolCluster) -> int:
    """How many pods the fleet's budget counts as busy."""
    with cluster.pods() as pods:
        path = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/busy-cpu"
        counted: int = pods.requests.get(path, ANY).get("status", {}).get("currentHealthy", 0)
        return counted
