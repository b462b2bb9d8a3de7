"""The project's own stack of existing hosts, whole: its controller and nodes are machines that somebody else installed.

They are of this machine, in a network of their own. One story: what a step leaves the next one begins with.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.infrastructures.local.stacks import Stack, left_of
from tests.playbooks.hosts import Host, Site, bare_image, site
from tests.playbooks.looks import differences, look
from tests.whole.breathing import launches, scale_until
from tests.whole.cluster import LONG_S, summary, until
from tests.whole.elsewhere import Elsewhere, example
from tidepool.clients.slurm import JobState
from tidepool.cluster.boot import Mount
from tidepool.infrastructures.local import kernel
from tidepool.infrastructures.local.kernel import NetworkSpec

pytestmark = [
    pytest.mark.slow,
    pytest.mark.runs(
        "ssh",
        versions.slurm(),
        "hosts of Debian 12 on this kernel, without systemd",
        versions.installed("ansible-core"),
    ),
]

SPEC = example("ssh")
HOSTS = {"head": "10.86.250.1", "alpha": "10.86.250.11", "beta": "10.86.250.12"}
NODES = {"cpu-1", "cpu-2"}
#: Runs once more when its node is lost.
AGAIN = 'test -n "$SLURM_RESTART_COUNT" || sleep 600; srun hostname'
#: Packages take long on a busy machine.
UP_S = 900.0


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory, images: Path) -> Iterator[Site]:
    """The hosts, in a network of their own; homes are mounted on all, and the head has a folder for slurmctld."""
    stack = Stack(tmp_path_factory.mktemp("data"), "hosts", bare_image())
    homes = tmp_path_factory.mktemp("homes")
    homes.chmod(0o755)
    kernel.create_network(stack.data, NetworkSpec(stack.name, "net", SPEC["network"]))
    try:
        mounted = Mount(str(homes), "/srv/home", read_only=False)
        with site(stack, tmp_path_factory.mktemp("site"), HOSTS, mounted) as it:
            host(it, "head").run("mkdir", "/srv/slurmctld")
            yield it
    finally:
        kernel.delete_network(stack.data, stack.name, "net")
    assert left_of(stack) == []


@pytest.fixture
def cluster(hosts: Site, images: Path, tmp_path: Path) -> Iterator[Elsewhere]:
    """The stack, which is not up yet; nothing is left of it afterwards, whatever came of the test."""
    it = Elsewhere.make(tmp_path, images, f"t{uuid.uuid4().hex[:8]}", **here(hosts))
    network = kernel.read_network(hosts.stack.data, hosts.stack.name, "net")
    assert network is not None
    it.through, it.login = network.prefix, "ctl"
    try:
        yield it
    finally:
        it.run("down", "--yes", "--force", "--purge", timeout_s=UP_S)


def here(hosts: Site) -> dict[str, Any]:
    """The project's spec, with what is of this machine: addresses, keys, folders, small nodes, and none without a job."""
    spec = example("ssh")
    spec["controller"]["infrastructure"]["options"] |= {
        "hosts": dict(HOSTS),
        "key": str(hosts.key),
        "known_hosts": str(hosts.known_hosts),
        "volumes": {"home": "/srv/home", "slurmctld": "/srv/slurmctld"},
    }
    (fleet,) = spec["fleets"]
    fleet |= {"min_nodes": 0, "shape": {"cpus": 2, "memory": "512MiB"}, "idle_timeout_s": 1}
    # Slurm gives a node up soon, so that its job is free to run again.
    return {**spec, "slurm_conf": {"SlurmdTimeout": 10}}


def host(hosts: Site, name: str) -> Host:
    return next(each for each in hosts.hosts if each.name == name)


def looks(hosts: Site) -> Mapping[str, dict[str, Any]]:
    """All that others can see of each host."""
    with ThreadPoolExecutor() as threads:
        return dict(zip(HOSTS, threads.map(look, hosts.hosts), strict=True))


def claims(hosts: Site) -> Mapping[str, str]:
    """Which machine of the cluster each host is, as the hosts have it."""
    said = {
        each.name: each.run("sh", "-c", "cat /var/lib/tidepool-node/claim.json 2>/dev/null || echo null")
        for each in hosts.hosts
    }
    found = {name: json.loads(text) for name, text in said.items()}
    return {name: claim["key"]["node"] for name, claim in found.items() if claim}


def changes(cluster: Elsewhere) -> set[str]:
    """All that `up` did, after it saw what is there."""
    return set(summary(cluster.up("--json", timeout_s=UP_S))["changes"])


def test_the_stack_of_the_project_comes_up_breathes_loses_a_host_changes_and_gives_all_hosts_back(
    cluster: Elsewhere, hosts: Site
) -> None:
    before = looks(hosts)
    cluster.write_spec()
    cluster.tidepool("preview", timeout_s=UP_S)
    assert claims(hosts) == {}
    cluster.up(timeout_s=UP_S)
    assert claims(hosts) == {"head": "ctl"}
    assert changes(cluster) == {"same"}

    # A job waits, and both nodes come for it.
    job = cluster.submit(AGAIN, nodes="2", output="where.out")
    cluster.tidepool("scale", "--once", timeout_s=UP_S)
    cluster.until_script(job, timeout_s=LONG_S)
    assert claims(hosts) == {"head": "ctl", "alpha": "cpu-1", "beta": "cpu-2"}
    a_host_dies_which_is_told_and_its_job_runs_once_more_when_it_is_back(cluster, hosts, job)
    written = cluster.on("ctl", "cat", "/home/researcher/where.out").stdout
    assert set(written.split()) == NODES
    assert re.search(r"Resources:\n +\d+ unchanged\n", cluster.refresh(UP_S))
    assert changes(cluster) == {"same"}

    # Nobody needs them any more, and one is to stay: the other is given back while the cluster runs.
    cluster.spec["fleets"][0]["min_nodes"] = 1
    cluster.up(timeout_s=UP_S)
    scale_until(cluster, lambda: len(claims(hosts)) == 2, "one of them goes", UP_S)
    (kept,) = cluster.nodes()
    assert {row["infrastructure"] for row in launches(cluster)} == {"ssh"}

    # Another shape is another node of that name on the same host.
    had = claims(hosts)
    cluster.spec["fleets"][0]["shape"]["memory"] = "640MiB"
    cluster.up(timeout_s=UP_S)
    assert claims(hosts) == had
    assert {name: node.memory_mib for name, node in cluster.nodes().items()} == {kept: 640}
    assert cluster.idle() == [kept]

    said = cluster.tidepool("down", "--yes", "--force", "--purge", timeout_s=UP_S)
    assert "given back, but" not in said
    after = looks(hosts)
    found = {name: differences(before[name], after[name]) for name in HOSTS}
    # It booted since, and its own sshd has another number.
    found["alpha"].pop("/run/sshd.pid", None)
    assert found == {name: {} for name in HOSTS}
    # What the cluster's people and its controller wrote is where they wrote it.
    assert host(hosts, "head").run("ls", "/srv/home/researcher").split() == ["where.out"]
    assert "job_state" in host(hosts, "head").run("ls", "/srv/slurmctld").split()


def a_host_dies_which_is_told_and_its_job_runs_once_more_when_it_is_back(
    cluster: Elsewhere, hosts: Site, job: int
) -> None:
    alpha = host(hosts, "alpha")
    alpha.pull_plug()
    # Everybody else's work goes on: `up`, and the scaler, which leaves the node alone.
    done = cluster.run("up", "--yes", timeout_s=UP_S)
    assert done.returncode == 0, done.stderr
    silent = f"the host alpha: nothing answers at {alpha.address}, port 22"
    assert silent in " ".join((done.stdout + done.stderr).split())
    cluster.until_job(job, JobState.PENDING, timeout_s=LONG_S)
    cluster.tidepool("scale", "--once", timeout_s=UP_S)
    unknown = f"it is not known how machine cpu-1 of ssh is: host alpha: nothing answers at {alpha.address}"

    def is_told() -> bool:
        # While a look at all hosts takes longer than a person is let wait, status says that of them together.
        problems = json.loads(cluster.run("status", "--json").stdout)["problems"]
        return any(unknown in each["what"] for each in problems)

    until(lambda: is_told() or None, "status tells of it", LONG_S, cluster.pause_s)
    assert {"cpu-1", "cpu-2"} <= set(cluster.nodes())
    # What the play wrote starts its node again.
    alpha.boot()
    assert cluster.until_job(job, JobState.COMPLETED, timeout_s=LONG_S).restarts == 1
    until(lambda: set(cluster.idle()) == NODES or None, "both are idle", LONG_S, cluster.pause_s)
