"""A converged pool at AWS: its instances are Slurm's and Kubernetes' in turns, the control planes are of this machine.

Instances, routes and all else are moto's; behind each instance is a machine of this kernel, started by its own systemd and told by its
own cloud-init (`tests.infrastructures.kernel_vm`). The VPC's router has the routes of moto's table, so that who reaches a pod has come by them.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import versions
from tests.forking import fork_server
from tests.golden import golden_store
from tests.infrastructures.aws.cloud import VPC, Cloud, cloud
from tests.infrastructures.aws.specs import REGION, ZONE
from tests.plugins.aws import IMPORTED
from tests.plugins.serving import search_path
from tests.toolchain import needs_kubernetes
from tests.whole.cluster import LONG_S, SPEC, summary, until
from tests.whole.pools import POOL, PoolCluster, spec
from tidepool import toolchain
from tidepool.clients.slurm import JobState
from tidepool.cluster.hostlist import expand
from tidepool.cluster.names import CLUSTER_NETWORK, CONTROL_PLANE_HOST, CONTROLLER_HOST
from tidepool.infrastructures.local import kernel

pytest.importorskip("pulumi_aws", reason="pulumi-aws is not installed: scripts/setup installs it")

#: Of both roles, and of Slurm's alone.
IMAGE, SLURMS_IMAGE = "debian-12-cloud-converged", "debian-12-cloud"
#: The pool whose roles have an image each.
MIXED = "mixed"
UP_S = 600.0
#: Where the way to the VPC is in the cluster's network.
ROUTER = "10.78.255.253"
ROLES = {"slurm": {"munged", "slurmd"}, "kubernetes": {"containerd", "kubelet"}}
#: Asks metadata for what they give nobody without a token, and then for a token.
METADATA = r"""
wget -q -O - http://169.254.169.254/latest/meta-data/ 2>&1
ask='PUT /latest/api/token HTTP/1.0\r\nX-aws-ec2-metadata-token-ttl-seconds: 60\r\n\r\n'
{ printf "$ask" | timeout 3 nc 169.254.169.254 80; } 2>/dev/null || echo nothing
"""

pytestmark = [
    pytest.mark.slow,
    needs_kubernetes,
    pytest.mark.runs(
        "aws", versions.installed("moto"), versions.slurm(IMAGE), versions.built(toolchain.KUBERNETES)
    ),
]


@dataclass
class AtAws(PoolCluster):
    """With somebody's credentials, and AWS where the tests have it."""

    url: str = ""

    @property
    def environment(self) -> dict[str, str]:
        credentials = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        return {**super().environment, **credentials, "AWS_ENDPOINT_URL": self.url}

    def programs(self, node: str) -> set[str]:
        """Those of a role that run there."""
        of_roles = {name for names in ROLES.values() for name in names}
        return set(self.inside(node, "ps", "-e", "-o", "comm=").split()) & of_roles

    def inside(self, node: str, *argv: str) -> str:
        """What a command of root's says there."""
        return self.tidepool("exec", node, "--", *argv)

    def booted(self, nodes: Sequence[str]) -> dict[str, str]:
        """By machine when its first process began."""
        return {node: self.inside(node, "cut", "-d ", "-f22", "/proc/1/stat") for node in nodes}


@pytest.fixture(scope="module")
def aws(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with cloud(tmp_path_factory.mktemp("aws"), IMAGE, SLURMS_IMAGE) as it:
        yield it


@pytest.fixture(scope="module")
def pool(images: Path, aws: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AtAws]:
    """A cluster of this machine with three instances in two pools, and a way from its network to the VPC and back."""
    wanted = spec(2, image=IMAGE, deadline_s=600)
    later = {key: wanted.pop(key) for key in ("pools", "kubernetes")}
    (shared,) = later["pools"]
    shared["infrastructure"] = {"name": "aws", "options": {"instance_type": "c7i.xlarge"}}
    by_image = {"image": SLURMS_IMAGE, "images": {"kubernetes": IMAGE}}
    later["pools"].append({**shared, "name": MIXED, "subnet": "10.78.3.0/24", "machines": 1, **by_image})
    store = golden_store("debian-12", IMAGE, SLURMS_IMAGE)
    fork_server().import_ahead(*IMPORTED)
    folder = tmp_path_factory.mktemp("pool")
    cluster = AtAws.make(folder / "cluster", store, f"t{uuid.uuid4().hex[:8]}", **wanted)
    try:
        cluster.up()
        join(cluster, aws)
        lead(cluster, CONTROLLER_HOST, "login-1")
        cluster.through, cluster.url = aws.prefix, aws.url
        cluster.path = search_path(folder / "plugins", "aws")
        given = {"vpc": aws.vpc, "subnets": {ZONE: aws.subnet}, "route_table": aws.route_table}
        cluster.spec |= {**later, "infrastructures": {"aws": {"region": REGION, "given": given}}}
        cluster.up(timeout_s=UP_S)
        lead(cluster, CONTROL_PLANE_HOST)
        yield cluster
        cluster.down(UP_S)
        # Homes are people's.
        assert aws.left(cluster.stack) == [f"tidepool-{cluster.stack}-home"]
    finally:
        cluster.run("down", "--yes", "--force", "--purge", timeout_s=UP_S)


def join(cluster: PoolCluster, aws: Cloud) -> None:
    """A person's link between the network and the VPC: what is at AWS is answered for here, and the VPC's table leads to it."""
    own = kernel.read_network(cluster.data, cluster.stack, CLUSTER_NETWORK)
    assert own is not None
    prefixlen = SPEC["network"].partition("/")[2]
    for prefix, line in (
        (aws.prefix, f"ip link add site type veth peer name vpc netns {own.pid}"),
        (aws.prefix, f"ip addr add {ROUTER}/{prefixlen} dev site"),
        (aws.prefix, "ip link set site up"),
        (aws.prefix, "echo 1 >/proc/sys/net/ipv4/conf/site/proxy_arp"),
        (aws.prefix, "echo 0 >/proc/sys/net/ipv4/neigh/site/proxy_delay"),
        (own.prefix, "ip link set vpc master switch up"),
    ):
        subprocess.run([*prefix, "sh", "-ec", line], check=True)


def lead(cluster: PoolCluster, *machines: str) -> None:
    """The way back: machines at AWS call from addresses of the VPC."""
    for name in machines:
        machine = kernel.read_machine(cluster.data, cluster.stack, name)
        assert machine is not None
        inside = ("nsenter", f"--net=/proc/{machine.pid}/ns/net")
        subprocess.run([*inside, "ip", "route", "add", VPC, "via", ROUTER], check=True)


def test_two_instances_move_both_ways_in_place_and_their_pods_reach_each_other_by_the_vpc(
    pool: AtAws, aws: Cloud
) -> None:
    names = [name for name in pool.names if name.startswith(POOL)]
    instances, booted = aws.machines(), pool.booted(names)
    assert set(instances) == {*pool.names}
    for node in names:
        assert (pool.role_of(node), pool.programs(node)) == ("slurm", ROLES["slurm"])
    where = {"features": POOL, "work_dir": "/tmp", "output": "/tmp/where.out"}
    job = pool.submit("srun uname --nodename", nodes="2", **where)
    pool.until_job(job, JobState.COMPLETED, timeout_s=LONG_S)
    assert sorted(pool.inside(names[0], "cat", "/tmp/where.out").split()) == names

    # One leaves while the other has a job, which is waited for when that one's turn comes.
    stays = pool.submit("until test -e /tmp/go-on; do sleep 0.2; done", **where)
    (two,) = expand(pool.until_job(stays, JobState.RUNNING, timeout_s=LONG_S).nodelist)
    (one,) = set(names) - {two}
    (moved,) = pool.convert(one, "--to", "kubernetes")
    assert moved["phase"] == "done"
    pool.pod("serves", "mkdir /www; echo here >/www/index.html; exec httpd -f -p 8080 -h /www")
    assert pool.until_pod("serves", "Running", timeout_s=LONG_S).node == one
    assert pool.job(stays).state is JobState.RUNNING
    pool.inside(two, "touch", "/tmp/go-on")
    (moved,) = pool.convert(two, "--to", "kubernetes")
    assert (moved["phase"], pool.job(stays).state) == ("done", JobState.COMPLETED)
    for node in names:
        assert (pool.role_of(node), pool.programs(node)) == ("kubernetes", ROLES["kubernetes"])
        assert pool.inside(node, "ls", "-A", "/etc/munge") == ""
        assert "via" not in pool.inside(node, "cat", "/etc/kubernetes/routes")

    # From pod to pod over the VPC, and from the API server to a kubelet; and no pod gets at its machine's credentials.
    status = json.loads(pool.tidepool("kubectl", "get", "pod", "serves", "--output=json"))["status"]
    pool.pod("asks", f"wget -q -O - http://{status['podIP']}:8080/; {METADATA}", node=two)
    pool.until_pod("asks", "Succeeded", "Failed", timeout_s=LONG_S)
    said = until(lambda: pool.tidepool("kubectl", "logs", "asks"), "the kubelet says it", LONG_S)
    refused = "wget: server returned error: HTTP/1.1 401 Unauthorized"
    assert said.splitlines() == ["here", refused, "nothing"]
    assert status["hostIP"] == pool.spec["pools"][0]["subnet"].replace("0/24", one.rpartition("-")[2])

    for node in names:
        (moved,) = pool.convert(node, "--to", "slurm", "--force")
        assert moved["phase"] == "done"
        assert (pool.role_of(node), pool.programs(node)) == ("slurm", ROLES["slurm"])
    job = pool.submit("srun uname --nodename", nodes="2", **where)
    pool.until_job(job, JobState.COMPLETED, timeout_s=LONG_S)
    # All of it in place: no other instance, and no boot.
    assert (aws.machines(), pool.booted(names)) == (instances, booted)


def test_an_instance_moves_both_ways_by_an_image_for_each_role(pool: AtAws, aws: Cloud) -> None:
    node = f"{MIXED}-1"
    instances, (was,) = aws.machines(), pool.booted([node]).values()
    assert pool.run("exec", node, "--", "test", "-e", "/usr/bin/kubelet").returncode != 0
    assert (pool.role_of(node), pool.programs(node)) == ("slurm", ROLES["slurm"])

    (moved,) = pool.convert(node, "--to", "kubernetes")
    assert moved["phase"] == "done"
    assert "imaging/imaged" in pool.last(node).began
    assert (pool.role_of(node), pool.programs(node)) == ("kubernetes", ROLES["kubernetes"])
    assert pool.booted([node]) != {node: was}
    pool.pod("elsewhere", pool=MIXED)
    assert pool.until_pod("elsewhere", "Running", timeout_s=LONG_S).node == node

    # To AWS and to Pulumi it is the instance that it was, and what it was made from is nobody's difference.
    assert aws.machines() == instances
    changes = summary(pool.up("--refresh", "--json", timeout_s=UP_S))["changes"]
    assert {*changes} - {"refresh"} == {"same"}
    (moved,) = pool.convert(node, "--to", "slurm", "--force")
    assert moved["phase"] == "done"
    assert pool.run("exec", node, "--", "test", "-e", "/usr/bin/kubelet").returncode != 0
    assert (pool.role_of(node), pool.programs(node)) == ("slurm", ROLES["slurm"])
    assert aws.machines() == instances
