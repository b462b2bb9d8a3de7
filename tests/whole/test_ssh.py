"""Existing hosts for real: one joins a cluster by `tidepool up`, runs a job, and is given back as it was.

The cluster is one of this machine. The host is in its network, and has its own sshd, packages and people, and no systemd.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.infrastructures.local.stacks import Stack
from tests.playbooks.hosts import Host, Site, bare_image, site
from tests.playbooks.looks import differences, look
from tests.provider.calls import Calls
from tests.whole.cluster import Cluster, summary
from tests.whole.conftest import a_cluster
from tidepool.clients.slurm import JobState
from tidepool.cluster.boot import Mount
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.ssh.kinds import SshPlaybookKind
from tidepool.infrastructures.ssh.machines import machines_of
from tidepool.infrastructures.ssh.play import Play, run_play
from tidepool.infrastructures.ssh.resources import SshPlaybookModel
from tidepool.resources.kind import Home, Task
from tidepool.resources.reading import read

pytestmark = [
    pytest.mark.slow,
    pytest.mark.runs(
        "ssh",
        versions.slurm(),
        "hosts of Debian 12 on this kernel, without systemd",
        versions.installed("ansible-core"),
    ),
]

#: Of the cluster before the host comes: a controller, a login machine, and slots that nobody takes.
OWN: dict[str, Any] = {
    "name": "cpu",
    "subnet": "10.78.1.0/24",
    "min_nodes": 0,
    "max_nodes": 1,
    "shape": {"cpus": 1, "memory": "256MiB"},
}
RACK: dict[str, Any] = {
    **OWN,
    "name": "rack",
    "subnet": "10.78.2.0/24",
    "min_nodes": 1,
    "infrastructures": [{"name": "ssh", "options": {"hosts": ["alpha"]}}],
}
ROLES = ["chrony", "firewall", "node_health"]
INVENTORY, PLAYBOOK = "tidepool:infrastructure:Preflight", "tidepool:ssh:Playbook"


@pytest.fixture(scope="module")
def cluster(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with a_cluster(tmp_path_factory.mktemp("cluster"), images, fleets=[OWN]) as it:
        yield it


@pytest.fixture(scope="module")
def hosts(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A host in the cluster's network, which has the homes mounted where its people put them."""
    stack = Stack(cluster.data, cluster.stack, bare_image())
    homes = Mount(str(cluster.data / cluster.stack / "volumes" / "home"), "/srv/home", read_only=False)
    with site(stack, tmp_path_factory.mktemp("site"), {"alpha": "10.78.9.11"}, homes) as it:
        try:
            yield it
        finally:
            # While it can be, whatever came of the tests.
            give_back(cluster)


@pytest.fixture(scope="module")
def host(hosts: Site) -> Host:
    return hosts.hosts[0]


@pytest.fixture(scope="module")
def before(host: Host) -> dict[str, Any]:
    return look(host)


@pytest.fixture
def joined(cluster: Cluster, hosts: Site, before: dict[str, Any]) -> Cluster:
    """The cluster with the host as its node rack-1, which some tests give back."""
    join(cluster, hosts)
    return cluster


@pytest.fixture
def left(cluster: Cluster, hosts: Site, before: dict[str, Any]) -> Cluster:
    """The cluster without the host."""
    if "rack-1" in cluster.nodes():
        give_back(cluster)
    return cluster


@pytest.fixture(scope="module")
def play(cluster: Cluster, hosts: Site, before: dict[str, Any]) -> Play:
    """What the graph has Ansible do for rack-1."""
    join(cluster, hosts)
    plays: list[Play] = []

    def take(play: Play, task: Task, folder: Path) -> str:
        plays.append(play)
        return ""

    kind = SshPlaybookKind(Home(cluster.data, cluster.images), take)
    wanted = read(SshPlaybookModel, inputs_of(cluster, PLAYBOOK)).value
    kind.update("id", wanted, wanted, patient())
    return plays[0]


def place(hosts: Site, **more: Any) -> dict[str, Any]:
    """What a spec says of the hosts."""
    (alpha,) = hosts.hosts
    return {
        "hosts": {"alpha": {"address": "127.0.0.1", "port": alpha.port}, **more},
        "user": "admin",
        "key": str(hosts.key),
        "known_hosts": str(hosts.known_hosts),
        "volumes": {"home": "/srv/home"},
        "roles": ROLES,
        "variables": {"tidepool_health_checks": ["munge", "runs slurmd", "mounted /home"]},
    }


def up(cluster: Cluster, *more: str) -> str:
    """A play takes as long as packages do."""
    cluster.write_spec()
    return cluster.tidepool("up", "--yes", *more, timeout_s=1800)


def join(cluster: Cluster, hosts: Site) -> None:
    if "rack-1" not in cluster.nodes():
        cluster.spec |= {"fleets": [OWN, RACK], "infrastructures": {"ssh": place(hosts)}}
        up(cluster)


def give_back(cluster: Cluster) -> str:
    cluster.spec["fleets"] = [OWN]
    cluster.spec.pop("infrastructures", None)
    return up(cluster)


def inputs_of(cluster: Cluster, token: str) -> dict[str, Any]:
    """The inputs of the one resource of a type that the stack has."""
    (file,) = (cluster.data / "state").rglob(f"stacks/**/{cluster.stack}.json")
    resources = json.loads(file.read_text())["checkpoint"]["latest"]["resources"]
    (inputs,) = (each["inputs"] for each in resources if each["type"] == token)
    return {key: value for key, value in inputs.items() if not key.startswith("__")}


def changed(said: str) -> int:
    """In how many tasks Ansible changed something, or would have."""
    return int(re.search(r"PLAY RECAP.*changed=(\d+)", said, re.DOTALL)[1])  # type: ignore[index]


def patient() -> Task:
    return Task("urn", 1800, time.monotonic() + 1800, lambda _: None, lambda _: None, lambda _: None)


def test_a_host_of_another_cluster_and_one_that_refuses_are_told_of_before_anything_is_done(
    left: Cluster, hosts: Site, host: Host, before: dict[str, Any]
) -> None:
    # What there is of the other cluster: a process of that name.
    host.run("sh", "-c", "cp /bin/sleep /tmp/slurmd; setsid /tmp/slurmd 3600 >/dev/null 2>&1 & sleep 0.2")
    both = {**RACK, "max_nodes": 2, "infrastructures": ["ssh"]}
    closed = {"address": "127.0.0.1", "port": 1}
    left.spec |= {"fleets": [OWN, both], "infrastructures": {"ssh": place(hosts, beta=closed)}}
    said = " ".join(left.refused("preview").split())
    assert "fleets[1].infrastructures[0].options.hosts: the host alpha: slurmd runs there" in said
    assert "take it out of that cluster" in said
    assert "the host beta: nothing answers at 127.0.0.1, port 1" in said
    host.run("pkill", "-x", "slurmd")
    assert differences(before, look(host)) == {}


def test_it_becomes_a_node_of_the_cluster(joined: Cluster, host: Host) -> None:
    assert joined.idle() == ["rack-1"]
    # Beside the address and the name that it had.
    assert "10.78.2.1/16" in host.run("ip", "-oneline", "-4", "addr")
    assert host.run("cat", "/proc/sys/kernel/hostname").strip() == "alpha"
    spec = ClusterSpec.model_validate(joined.spec)
    (claimed,) = machines_of(spec, joined.stack, joined.data).list(joined.stack)
    assert (claimed.key.node, str(claimed.address), claimed.state) == ("rack-1", "10.78.2.1", "running")


def test_it_runs_a_job_at_the_clusters_home(joined: Cluster) -> None:
    job = joined.submit("hostname; id --user", output="where.out")
    hog = joined.submit("head -c 200M /dev/zero | tail", memory_mib=60, output="/dev/null")
    joined.until_job(job, JobState.COMPLETED)
    joined.until_job(hog, JobState.OUT_OF_MEMORY)
    assert joined.on("login-1", "cat", "/home/researcher/where.out").stdout.split() == ["rack-1", "2000"]


def test_a_second_up_changes_nothing_and_another_stack_does_not_get_it(joined: Cluster) -> None:
    assert set(summary(up(joined, "--json"))["changes"]) == {"same"}
    asked = Calls(joined.data, INVENTORY)
    inputs = inputs_of(joined, INVENTORY)
    others = {**inputs, "demands": {**inputs["demands"], "stack": "chemistry"}}
    (reason,) = asked.failures(others).values()
    assert f"the host alpha: it is the node rack-1 of the stack {joined.stack}" in reason


def test_the_same_play_again_changes_nothing(joined: Cluster, play: Play, tmp_path: Path) -> None:
    assert changed(run_play(play, patient(), tmp_path)) == 0


def test_given_back_it_is_as_it_was(joined: Cluster, host: Host, before: dict[str, Any]) -> None:
    assert "given back, but" not in give_back(joined)
    assert joined.nodes() == {}
    assert differences(before, look(host)) == {}
    assert len(before) > 5000


def test_a_look_at_what_a_play_would_change_tells_of_it_and_changes_nothing(
    play: Play, left: Cluster, host: Host, before: dict[str, Any], tmp_path: Path
) -> None:
    assert changed(run_play(play, patient(), tmp_path, check=True)) > 20
    assert differences(before, look(host)) == {}
