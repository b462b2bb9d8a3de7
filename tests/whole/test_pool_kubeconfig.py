"""A pool whose Kubernetes somebody else runs: joined by a kubeconfig with just the rights of docs/kubernetes.md.

The control plane runs on this machine, beside the cluster, with a leg in the cluster's network: an interface that the test
plugs into its switch, as whoever runs one elsewhere would route there.
"""

from __future__ import annotations

import copy
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from demo.pods import manifest
from tests.clients.kubernetes.real import RealKubernetes
from tests.golden import CONVERGED, golden_store
from tests.infrastructures.local.stacks import Stack, left_of
from tests.toolchain import kubernetes_tools, needs_kubernetes
from tests.whole.cluster import ROOT, until
from tests.whole.pools import ANY, PODS, POOL, PoolCluster, spec
from tidepool.clients.kubernetes.requests import Requests
from tidepool.clients.slurm import JobState
from tidepool.cluster.names import CLUSTER_NETWORK
from tidepool.infrastructures.local import kernel

pytestmark = [pytest.mark.slow, needs_kubernetes]

#: In the cluster's network, where no machine of the cluster is.
SERVER: Final = "10.83.255.1"
LEG, PLUG = "tpkubeleg", "tpkubeplug"
PLURALS = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=30)


def unplug() -> None:
    """The leg goes, where it has not gone with the switch that it was plugged into."""
    subprocess.run(["ip", "link", "delete", LEG], check=False, capture_output=True, timeout=30)


@dataclass
class World:
    """A cluster, and the Kubernetes of others that its pool is to serve; ``admin`` is that one's administrator."""

    cluster: PoolCluster
    real: RealKubernetes
    admin: Requests

    def plug_in(self) -> None:
        """The server's leg, into the switch of the cluster's network."""
        network = kernel.read_network(self.cluster.data, self.cluster.stack, CLUSTER_NETWORK)
        assert network is not None
        ip("link", "set", PLUG, "netns", str(network.pid))
        for words in (("master", "switch"), ("up",)):
            subprocess.run([*network.prefix, "ip", "link", "set", PLUG, *words], check=True, timeout=30)

    def node(self, name: str) -> dict[str, Any] | None:
        found = self.admin.find(f"/api/v1/nodes/{name}", ANY, "Node")
        return dict(found) if found is not None else None


@pytest.fixture
def world(images: Path, tmp_path: Path) -> Iterator[World]:
    golden_store("debian-12", CONVERGED)
    # A run that was killed leaves it behind.
    unplug()
    ip("link", "add", LEG, "type", "veth", "peer", "name", PLUG)
    try:
        ip("addr", "add", f"{SERVER}/16", "dev", LEG)
        ip("link", "set", LEG, "up")
        (tmp_path / "kubernetes").mkdir()
        real = RealKubernetes(tmp_path / "kubernetes", kubernetes_tools(), SERVER)
        try:
            wanted = spec(2)
            wanted["pools"][0]["subnet"] = "10.83.2.0/24"
            cluster = PoolCluster.make(tmp_path, images, "tkubeconfig", **wanted, network="10.83.0.0/16")
            admin = real.requests()
            try:
                yield World(cluster, real, admin)
            finally:
                admin.close()
                cluster.down()
            assert left_of(Stack(cluster.data, cluster.stack, images)) == []
        finally:
            real.close()
    finally:
        unplug()


def objects() -> Sequence[dict[str, Any]]:
    """Those of the page for administrators."""
    text = (ROOT / "docs/kubernetes.md").read_text()
    return list(yaml.safe_load_all(text.partition("```yaml\n")[2].partition("```")[0]))


def apply(admin: Requests, thing: dict[str, Any]) -> None:
    """As `kubectl apply` does."""
    where = f"/namespaces/{space}" if (space := thing["metadata"].get("namespace")) else ""
    folder = f"/apis/rbac.authorization.k8s.io/v1{where}/{PLURALS[thing['kind']]}"
    path = f"{folder}/{thing['metadata']['name']}"
    if admin.find(path, ANY, thing["kind"]) is None:
        admin.post(folder, thing, ANY)
    else:
        admin.put(path, thing, ANY)


def without(thing: dict[str, Any], resource: str, *verbs: str) -> dict[str, Any]:
    """The same role without some of its rights."""
    less = copy.deepcopy(thing)
    for rule in less.get("rules", ()):
        if resource in rule["resources"]:
            rule["verbs"] = [verb for verb in rule["verbs"] if verb not in verbs] or ["watch"]
    return less


def test_a_machine_joins_and_leaves_a_kubernetes_of_others_with_no_more_rights_than_the_page_says(
    world: World, tmp_path: Path
) -> None:
    cluster, config = world.cluster, tmp_path / "kubeconfig"
    config.write_text(world.real.kubeconfig("tidepool"))
    cluster.spec["kubernetes"] = {"kubeconfig": str(config)}

    # A right that is missing is named, and only those; nothing is made.
    for thing in objects():
        apply(world.admin, without(without(thing, "nodes", "delete"), "leases", "get", "delete"))
    for verb in (("preview",), ("up", "--yes")):
        said = cluster.refused(*verb)
        missing = sorted(line.partition("right to ")[2] for line in said.splitlines() if "right to " in line)
        assert missing == [
            "delete leases.coordination.k8s.io in kube-node-lease",
            "delete nodes",
            "get leases.coordination.k8s.io in kube-node-lease",
        ], said
    assert kernel.list_machines(cluster.data, cluster.stack) == ()
    for thing in objects():
        apply(world.admin, thing)

    # Nor is a Node of the same name that is another cluster's.
    stranger = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "shared-2"}}
    world.admin.post("/api/v1/nodes", stranger, ANY)
    assert "a Node shared-2 already, of another cluster" in cluster.refused("up", "--yes")
    assert kernel.list_machines(cluster.data, cluster.stack) == ()
    world.admin.delete("/api/v1/nodes/shared-2", ANY)

    cluster.up()
    world.plug_in()
    assert {node: sight.state.takes_jobs for node, sight in cluster.nodes().items()} == {
        "shared-1": True,
        "shared-2": True,
    }
    # There, with a pod of those who run that Kubernetes ...
    (there,) = cluster.convert("shared-1", "--to", "kubernetes")
    assert there["phase"] == "done"
    node = world.node("shared-1")
    assert node is not None
    assert node["metadata"]["labels"]["tidepool/stack"] == cluster.stack
    world.admin.post(PODS, manifest("once", 'echo "$NODE"', pool=POOL), ANY)

    def ran() -> str | None:
        pod = world.admin.get(f"{PODS}/once", ANY)
        return pod["spec"]["nodeName"] if pod["status"].get("phase") == "Succeeded" else None

    assert until(ran, "the pod has run", 60) == "shared-1"
    # ... whose control plane says who else has a Node of that name ...
    world.admin.post("/api/v1/nodes", stranger, ANY)
    said = cluster.refused("convert", "shared-2", "--to", "kubernetes")
    assert "a Node shared-2 already, of another cluster" in said
    assert "nothing was changed" in said
    world.admin.delete("/api/v1/nodes/shared-2", ANY)
    # ... and which rights were taken away since.
    (role,) = (thing for thing in objects() if thing["kind"] == "ClusterRole")
    apply(world.admin, without(role, "pods/eviction", "create"))
    said = until(
        lambda: (
            done.stderr if (done := cluster.run("convert", "shared-1", "--to", "slurm")).returncode else None
        ),
        "it is refused",
        10,
    )
    assert "the right to create pods/eviction" in said, said
    apply(world.admin, role)

    # And back: nothing of it is left there.
    (back,) = cluster.convert("shared-1", "--to", "slurm")
    assert back["phase"] == "done"
    assert world.node("shared-1") is None
    job = cluster.submit("hostname", work_dir="/tmp", more=("--nodelist=shared-1",))
    assert cluster.until_job(job, JobState.COMPLETED).nodelist == "shared-1"
