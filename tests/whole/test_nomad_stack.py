"""The project's own stack of Nomad, whole: on hosts of this machine with real agents, with ACLs and TLS.

The hosts and the cluster are there for all tests of the file; each of these begins and ends without nodes.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.infrastructures.nomad.agents import SERVER, SHARED, Agents, agents
from tests.plugins.serving import search_path
from tests.toolchain import needs_nomad
from tests.whole.cluster import ROOT, summary, until
from tests.whole.elsewhere import Elsewhere, example
from tidepool.cli import errors
from tidepool.clients.slurm import JobState
from tidepool.toolchain import NOMAD

pytestmark = [
    pytest.mark.slow,
    needs_nomad,
    pytest.mark.runs("nomad", versions.built(NOMAD), versions.slurm("debian-12-cloud")),
]

PAGE = (ROOT / "docs/infrastructures/nomad.md").read_text()
#: The token's, as the page has it.
POLICY = PAGE.partition("```hcl\n")[2].partition("```")[0]
NAMESPACE = "physics"
OWN = {"ctl": "host-1", "login-1": "host-2"}
NODES = ("host-3", "host-4", "host-5")
HOSTS = (*OWN.values(), *NODES)
#: Longer than all may take on a busy machine.
UP_S = 600.0
LONG_S = 180.0


@pytest.fixture(scope="module")
def hosts(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agents]:
    addresses = {name: f"10.86.250.{number}" for number, name in enumerate((SERVER, *HOSTS), 1)}
    meta = {name: {"image": "debian-12"} for name in NODES}
    with agents(tmp_path_factory.mktemp("hosts"), "10.86.0.0/16", addresses, meta) as it:
        it.nomad("namespace", "apply", NAMESPACE)
        it.new_token("nomad", POLICY)
        for name in ("home", "slurmctld"):
            (it.shared / name).mkdir()
        yield it


@pytest.fixture(scope="module")
def cluster(hosts: Agents, images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    """The stack, which is up; nothing is left of it afterwards."""
    it = a_stack(hosts, images, tmp_path_factory.mktemp("cluster"))
    try:
        it.write_spec()
        it.tidepool("preview", timeout_s=UP_S)
        assert hosts.jobs(NAMESPACE) == []
        up(it)
        yield it
    finally:
        said = it.run("down", "--yes", "--force", "--purge", timeout_s=UP_S)
    assert said.returncode == 0, said
    assert (hosts.jobs(NAMESPACE), hosts.asked("vars", namespace=NAMESPACE)) == ([], [])
    # Nomad says that a job is gone some seconds before its processes are.
    until(lambda: not left_on(hosts) or None, "daemons and addresses of ours are gone", LONG_S, 1)


def a_stack(hosts: Agents, images: Path, folder: Path) -> Elsewhere:
    it = Elsewhere.make(folder, images, f"t{uuid.uuid4().hex[:8]}", **here(hosts))
    it.through, it.path = hosts.prefix, search_path(folder / "plugins", "nomad")
    return it


def here(hosts: Agents) -> dict[str, Any]:
    """The project's spec, with what is of this machine: addresses, hosts, files, small nodes, and times that are short."""
    spec = example("nomad")
    spec["controller"]["infrastructure"]["options"] |= {
        "address": hosts.address,
        "token_file": str(hosts.token_file),
        "ca_file": str(hosts.ca_file),
        "namespace": NAMESPACE,
        "hosts": dict(OWN),
        "volumes": {name: f"{SHARED}/{name}" for name in ("home", "slurmctld")},
    }
    (fleet,) = spec["fleets"]
    fleet |= {"max_nodes": len(NODES), "shape": {"cpus": 2, "memory": "256MiB"}, "idle_timeout_s": 1}
    return spec | {"slurm_conf": {"SlurmdTimeout": 10}}


def up(cluster: Elsewhere, *more: str) -> str:
    cluster.write_spec()
    return cluster.tidepool("up", "--yes", *more, timeout_s=UP_S)


def scale_until(cluster: Elsewhere, holds: Callable[[], bool], what: str) -> None:
    """Run the scaler, once and once again. One that cannot see the cluster for now says so, and the next one looks again."""

    def once() -> bool | None:
        done = cluster.run("scale", "--once", timeout_s=UP_S)
        assert done.returncode in (0, errors.NOT_THERE), done
        return holds() or None

    until(once, what, UP_S, 1)


def until_no_nodes(cluster: Elsewhere, hosts: Agents) -> None:
    """The scaler takes idle ones away."""
    scale_until(cluster, lambda: not hosts.machines(), "all nodes are gone")


def left_on(hosts: Agents) -> list[str]:
    """What hosts have of a cluster's: daemons, addresses, mounts."""
    daemons = "pgrep --list-name --exact 'munged|slurmd|slurmctld|sshd'"
    looks = f"{daemons}; ip -oneline -4 address show eth0 | grep -v 10.86.250; grep /run/tidepool /proc/mounts; true"
    return [line for host in HOSTS for line in hosts.run(host, "sh", "-c", looks).splitlines()]


def test_a_token_without_rights_is_told_with_the_rules_that_give_them(
    hosts: Agents, images: Path, tmp_path: Path
) -> None:
    stack = a_stack(hosts, images, tmp_path)
    token = hosts.new_token(
        "reader", f'namespace "{NAMESPACE}" {{ policy = "read" }}\nnode {{ policy = "read" }}\n'
    )
    stack.spec["controller"]["infrastructure"]["options"]["token_file"] = str(token)
    said = " ".join(stack.refused("preview").split())
    assert 'the token may not submit jobs: namespace "physics" { capabilities = ["submit-job"' in said
    assert "the token may not write variables: namespace" in said
    assert 'the token may not change what hosts say of themselves: node { policy = "write" }' in said


def test_up_makes_the_jobs_and_a_second_one_changes_nothing(cluster: Elsewhere, hosts: Agents) -> None:
    names = ("munge", "munge-cpu", "slurm-ctl", "slurm-login", "slurmd-cpu")
    assert hosts.jobs(NAMESPACE) == [f"{cluster.stack}-{name}" for name in names]
    assert set(summary(up(cluster, "--json"))["changes"]) == {"same"}


def test_the_queue_brings_hosts_and_they_are_given_back_when_it_is_empty(
    cluster: Elsewhere, hosts: Agents
) -> None:
    job = cluster.submit("srun hostname", nodes="2", output="where.out")
    scale_until(cluster, lambda: len(cluster.nodes()) == 2, "there are two nodes")
    assert set(hosts.machines().values()) == {"cpu-1", "cpu-2"}
    ended = cluster.until_job(job, JobState.COMPLETED, JobState.FAILED, timeout_s=LONG_S)
    assert ended.state is JobState.COMPLETED
    written = cluster.on("login-1", "cat", "/home/researcher/where.out").stdout
    assert sorted(written.split()) == ["cpu-1", "cpu-2"]
    until_no_nodes(cluster, hosts)
