"""The project's own stack of Nomad, whole: on hosts of this machine with real agents, with ACLs and TLS.

The hosts and the cluster, which has a backup controller and accounting besides, are there for all tests of the file. These are
one story, from top to bottom: what runs where, growth, a host that dies, one that comes to another fleet, a shape that changes,
a roll-out, and one that goes wrong. Before and after each of them the fleet `cpu` has its two nodes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.infrastructures.nomad.agents import SERVER, SHARED, Agents, agents
from tests.plugins.serving import search_path
from tests.toolchain import needs_nomad
from tests.whole.breathing import launches, scale_until
from tests.whole.cluster import ROOT, summary, until
from tests.whole.elsewhere import UNTIL_TOLD, Elsewhere, example
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
OWN = {"ctl": "host-1", "ctlbackup": "host-2", "dbd": "host-3", "login-1": "host-4"}
NODES = ("host-5", "host-6", "host-7")
VOLUMES = ("home", "slurmctld", "database")
HOSTS = (*OWN.values(), *NODES)
#: In the stack's program, another version of the fleet's job: its slurmd is another file.
VERSION = """
def version(args):
    if args.name == "slurmd-cpu" and args.type_ == "nomad:index/job:Job":
        spec = pulumi.Output.from_input(args.props["jobspec"])
        args.props["jobspec"] = spec.apply(lambda told: told.replace("/usr/sbin/slurmd", "SLURMD"))
        return pulumi.ResourceTransformationResult(args.props, args.opts)


pulumi.runtime.register_stack_transformation(version)
"""
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
        for name in VOLUMES:
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
        "volumes": {name: f"{SHARED}/{name}" for name in VOLUMES},
        "roll_out": {"min_healthy_s": 1},
    }
    spec["controller"] |= {"backup": True, "accounting": {}}
    (fleet,) = spec["fleets"]
    fleet |= {
        "min_nodes": 2,
        "max_nodes": len(NODES),
        "shape": {"cpus": 2, "memory": "256MiB"},
        "idle_timeout_s": 1,
    }
    fleet["infrastructures"][0]["options"]["roll_out"] = {
        "max_parallel": 2,
        "canary_percent": 50,
        "min_healthy_s": 1,
        "healthy_deadline_s": 15,
    }
    return spec | {"slurm_conf": {"SlurmdTimeout": 10}}


def up(cluster: Elsewhere, *more: str) -> str:
    cluster.write_spec()
    return cluster.tidepool("up", "--yes", *more, timeout_s=UP_S)


def until_two_nodes(cluster: Elsewhere, hosts: Agents) -> None:
    """The scaler takes idle ones away."""
    scale_until(
        cluster, lambda: len(hosts.machines()) == len(cluster.idle()) == 2, "there are two nodes", UP_S
    )


def host_of(hosts: Agents, node: str) -> str:
    (host,) = (host for host, its in hosts.machines().items() if its == node)
    return host


def free(hosts: Agents) -> list[str]:
    """The hosts that are no nodes, and could be."""
    return sorted(set(NODES) & hosts.ready() - set(hosts.machines()))


def allocations(cluster: Elsewhere, hosts: Agents, job: str) -> dict[str, dict[str, Any]]:
    """What runs of a job, by hosts: no host has two of it."""
    found = hosts.running(NAMESPACE, f"{cluster.stack}-{job}")
    by_host = {each["NodeName"]: dict(each) for each in found}
    assert len(by_host) == len(found)
    return by_host


def slurmctld(cluster: Elsewhere, hosts: Agents) -> tuple[str, int, str]:
    """Its allocation, how often it was started anew there, and its process."""
    running = allocations(cluster, hosts, "slurm-ctl")[OWN["ctl"]]
    process = hosts.run(OWN["ctl"], "pgrep", "--exact", "slurmctld").strip()
    return running["ID"], running["TaskStates"]["slurmctld"]["Restarts"], process


def write_program(cluster: Elsewhere, slurmd: str = "") -> None:
    """The project's own program; with ``slurmd``, the path of one, that of another version of the fleet's job."""
    text = (ROOT / "__main__.py").read_text()
    if slurmd:
        text = text.replace("import pulumi\n", f"import pulumi\n{VERSION.replace('SLURMD', slurmd)}")
    program = cluster.folder / "__main__.py"
    program.unlink()
    program.write_text(text)


def last_deployment(cluster: Elsewhere, hosts: Agents) -> dict[str, Any]:
    """That of the fleet's job."""
    found = hosts.asked(f"job/{cluster.stack}-slurmd-cpu/deployments", namespace=NAMESPACE)
    last: dict[str, Any] = max(found, key=lambda each: each["JobVersion"])
    return last


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
    names = ("munge", "munge-cpu", "slurm-ctl", "slurm-dbd", "slurm-login", "slurmd-cpu")
    assert hosts.jobs(NAMESPACE) == [f"{cluster.stack}-{name}" for name in names]
    assert set(summary(up(cluster, "--json"))["changes"]) == {"same"}


def test_each_of_the_clusters_own_machines_is_on_its_host_and_at_its_port(
    cluster: Elsewhere, hosts: Agents
) -> None:
    placed = {
        each["TaskGroup"]: host
        for job in ("slurm-ctl", "slurm-dbd", "slurm-login")
        for host, each in allocations(cluster, hosts, job).items()
    }
    assert placed == OWN
    for name, port in (("ctl", 6817), ("ctlbackup", 6817), ("dbd", 6819), ("login-1", 2222)):
        assert hosts.run(OWN[name], "ss", "-Hltn", f"sport = :{port}"), name
    ping = cluster.on("login-1", "scontrol", "ping").stdout
    assert (ping.count("is UP"), "is DOWN" in ping) == (2, False)
    assert "nomad" in cluster.on("login-1", "sacctmgr", "--noheader", "show", "cluster").stdout


def test_munged_is_on_each_host_before_what_needs_it(cluster: Elsewhere, hosts: Agents) -> None:
    for munge, job, daemon in (("munge", "slurm-ctl", "slurmctld"), ("munge-cpu", "slurmd-cpu", "slurmd")):
        munged = allocations(cluster, hosts, munge)
        there = allocations(cluster, hosts, job)
        assert there
        for host, each in there.items():
            tasks, beside = each["TaskStates"], munged[host]["TaskStates"]["munged"]
            # In a form whose order is that of time.
            waited = tasks["after-munged"]["FinishedAt"]
            assert beside["StartedAt"] < waited < tasks[daemon]["StartedAt"], host


def test_the_queue_brings_hosts_and_they_are_given_back_when_it_is_empty(
    cluster: Elsewhere, hosts: Agents
) -> None:
    job = cluster.submit(f"srun hostname; {UNTIL_TOLD}", nodes="3", output="where.out")
    scale_until(cluster, lambda: len(cluster.nodes()) == 3, "there are three nodes", UP_S)
    assert set(hosts.machines().values()) == {"cpu-1", "cpu-2", "cpu-3"}
    cluster.tell()
    ended = cluster.until_job(job, JobState.COMPLETED, JobState.FAILED, timeout_s=LONG_S)
    assert ended.state is JobState.COMPLETED
    written = cluster.on("login-1", "cat", "/home/researcher/where.out").stdout
    assert sorted(written.split()) == ["cpu-1", "cpu-2", "cpu-3"]
    until_two_nodes(cluster, hosts)
    assert {row["infrastructure"] for row in launches(cluster)} == {"nomad"}
    said = ("sacct", "--noheader", "--allocations", "--format=State", f"--jobs={job}")
    assert cluster.on("login-1", *said).stdout.split() == ["COMPLETED"]


def test_a_host_dies_its_job_runs_elsewhere_and_it_serves_again_when_it_is_back(
    cluster: Elsewhere, hosts: Agents
) -> None:
    before = set(hosts.machines().values())
    (another,) = free(hosts)
    again = 'test -n "$SLURM_RESTART_COUNT" || sleep 600; srun hostname'
    job = cluster.submit(again, nodes="2", output="again.out")
    cluster.until_script(job, timeout_s=LONG_S)
    lost = min(before)
    dead = host_of(hosts, lost)
    hosts.pull_plug(dead)
    until(lambda: dead not in hosts.ready() or None, "Nomad tells of it", LONG_S, 1)
    # A person is told; the scaler takes the free one.
    assert f"its host {dead} is down: start that" in " ".join(cluster.refused("up", "--yes").split())
    scale_until(cluster, lambda: cluster.job(job).state is JobState.COMPLETED, "the job has run again", UP_S)
    assert cluster.job(job).restarts == 1
    written = cluster.on("login-1", "cat", "/home/researcher/again.out").stdout.split()
    assert lost not in written
    assert before - {lost} < set(written)
    assert hosts.machines()[another] in written
    hosts.start(dead)
    until(lambda: dead in hosts.ready() or None, "it is back", LONG_S, 1)
    # It may be the node again that it was: then the one that was taken in its place goes.
    until_two_nodes(cluster, hosts)


def test_a_host_comes_to_another_fleet_by_what_it_says_of_itself_and_slurmctlds_allocation_stays(
    cluster: Elsewhere, hosts: Agents
) -> None:
    before = slurmctld(cluster, hosts)
    (host,) = free(hosts)
    (cpu,) = cluster.spec["fleets"]
    racked = {"name": "nomad", "options": {"attributes": {"rack": "r2"}}}
    big = {
        "name": "big",
        "subnet": "10.86.2.0/24",
        "max_nodes": 1,
        "min_nodes": 1,
        "infrastructures": [racked],
    }
    cluster.spec["fleets"] = [cpu, {**cpu, **big}]
    cluster.spec["partitions"] = [
        {"name": "main", "fleets": ["cpu"], "default": True},
        {"name": "debug", "fleets": ["big"]},
    ]
    said = " ".join(cluster.refused("preview").split())
    assert "no client has ${meta.rack} = r2" in said
    assert "`nomad node meta apply -node-id ID KEY=VALUE` gives it" in said
    hosts.nomad("node", "meta", "apply", f"-node-id={hosts.nodes()[host]['ID']}", "rack=r2")
    until(lambda: hosts.nodes()[host]["Meta"].get("rack"), "the servers know it", LONG_S, 1)
    up(cluster)
    assert hosts.machines()[host] == "big-1"
    in_debug = cluster.on("login-1", "sinfo", "--noheader", "--partition=debug", "--format=%N %t").stdout
    assert in_debug.split() == ["big-1", "idle"]
    # It read the partition from Nomad's template, and started anew in its task for the slots.
    assert slurmctld(cluster, hosts)[:2] == before[:2]


def test_a_changed_shape_is_a_new_node_on_the_host_and_others_are_not_touched(
    cluster: Elsewhere, hosts: Agents
) -> None:
    cpus = allocations(cluster, hosts, "slurmd-cpu")
    host = host_of(hosts, "big-1")
    cluster.spec["fleets"][1]["shape"] = {"cpus": 1, "memory": "320MiB"}
    up(cluster)
    assert host_of(hosts, "big-1") == host
    told = cluster.on("login-1", "sinfo", "--noheader", "--nodes=big-1", "--format=%c %m %t").stdout
    assert told.split() == ["1", "320", "idle"]
    now = allocations(cluster, hosts, "slurmd-cpu")
    assert {each["ID"] for each in now.values()} == {each["ID"] for each in cpus.values()}


def test_a_new_version_comes_to_one_host_and_to_the_other_when_it_is_promoted(
    cluster: Elsewhere, hosts: Agents
) -> None:
    before = {each["ID"] for each in allocations(cluster, hosts, "slurmd-cpu").values()}
    nodes = set(cluster.nodes())

    def kept() -> int:
        return len(before & {each["ID"] for each in allocations(cluster, hosts, "slurmd-cpu").values()})

    write_program(cluster, "/usr/sbin/../sbin/slurmd")
    up(cluster)

    def is_well() -> bool | None:
        (canary,) = last_deployment(cluster, hosts)["TaskGroups"].values()
        return canary["HealthyAllocs"] == 1 or None

    until(is_well, "the canary is well", LONG_S, 1)
    waits = last_deployment(cluster, hosts)
    assert (waits["Status"], kept()) == ("running", 1)
    hosts.nomad("deployment", "promote", "-detach", f"-namespace={NAMESPACE}", waits["ID"])
    until(
        lambda: last_deployment(cluster, hosts)["Status"] == "successful" or None, "both have it", LONG_S, 1
    )
    assert kept() == 0
    until(lambda: set(cluster.idle()) == nodes or None, "Slurm has all nodes", LONG_S, 1)


def test_a_version_that_does_not_start_is_taken_back_by_nomad_and_no_other_comes_until_that_is_mended(
    cluster: Elsewhere, hosts: Agents
) -> None:
    job = f"{cluster.stack}-slurmd-cpu"
    before, nodes = allocations(cluster, hosts, "slurmd-cpu"), set(cluster.nodes())
    write_program(cluster, "/opt/slurm-99/sbin/slurmd")
    up(cluster)

    def failed() -> str | None:
        last = last_deployment(cluster, hosts)
        return last["StatusDescription"] if last["Status"] == "failed" else None

    assert "rolling back to job version" in until(failed, "Nomad gives it up", LONG_S, 1)

    def both_run() -> bool | None:
        # Slurm may not have seen that slurmd was away.
        is_there = allocations(cluster, hosts, "slurmd-cpu").keys() == before.keys()
        return (is_there and set(cluster.idle()) == nodes) or None

    until(both_run, "slurmd is back on the canary", LONG_S, 1)
    now = allocations(cluster, hosts, "slurmd-cpu")
    # One of the two was the canary.
    assert len({each["ID"] for each in now.values()} & {each["ID"] for each in before.values()}) == 1

    said = " ".join(cluster.refused("up", "--yes").split())
    assert f"{job}: the roll-out of its version" in said
    assert f"`nomad job stop -purge -namespace {NAMESPACE} {job}`, and `tidepool up` at once" in said
    assert allocations(cluster, hosts, "slurmd-cpu").keys() == now.keys()

    write_program(cluster)
    cluster.spec["fleets"][0]["infrastructures"][0]["options"]["roll_out"]["healthy_deadline_s"] = 180
    hosts.nomad("job", "stop", "-purge", f"-namespace={NAMESPACE}", job)
    up(cluster)
    until(both_run, "all nodes are back", LONG_S, 1)
