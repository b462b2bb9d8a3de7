"""Two departments on one machine that share a slurmdbd: each in its own cluster, and nothing of the other's in reach."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.forking import fork_server
from tests.infrastructures.local.stacks import Stack, left_of
from tests.whole.cluster import LONG_S, SPEC, Cluster, summary, until
from tidepool.clients.slurm import JobState
from tidepool.cluster.names import CLUSTER_NETWORK
from tidepool.infrastructures.local.kernel import read_network

pytestmark = [pytest.mark.slow, pytest.mark.runs("local", versions.slurm())]

SMALL: dict[str, Any] = {"cpus": 1, "memory": "512MiB"}
DBD = "10.78.0.4"
USERS = [{"name": "researcher", "uid": 2000}, {"name": "grace", "uid": 3002}]
#: Both have an account of this name, each its own.
TEACHING = {"name": "teaching", "description": "of physics", "limits": {"GrpTRES": "cpu=4"}}
BIOLOGY: dict[str, Any] = {
    "network": "10.79.0.0/16",
    "controller": {"shape": SMALL, "accounting": {"host": DBD}},
    "fleets": [
        {"name": "bio", "subnet": "10.79.1.0/24", "min_nodes": 1, "max_nodes": 2, "shape": {"cpus": 2, "memory": "256MiB"}}
    ],
    "users": USERS,
    "accounts": [
        {"name": "teaching", "description": "of biology", "limits": {"GrpTRES": "cpu=1"}, "users": ["researcher"]},
        {"name": "genomics", "shares": 3, "users": ["grace"]},
    ],
    "qos": [{"name": "nightly", "limits": {"Priority": 10}}],
}  # fmt: skip
#: Says a line to an address and a port; nothing where nobody listens, or nothing gets there.
ASK = "exec 3<>/dev/tcp/$0/$1 && echo reached"


def engine(cluster: Cluster, *words: str, stdin: str = "") -> str:
    """What the engine answers, as `pulumi` would."""
    environment = json.loads(cluster.tidepool("env", "--json"))
    done = fork_server().run(
        ["-m", "tidepool.engine", *words, "--stack", cluster.stack],
        cluster.folder,
        {**cluster.environment, **environment},
        stdin=stdin,
        timeout_s=LONG_S,
    )
    assert done.returncode == 0, done
    return done.stdout


def made(folder: Path, images: Path, name: str, data: Path, **changes: Any) -> Cluster:
    cluster = Cluster.make(folder / name, images, name, **changes)
    cluster.data = data
    return cluster


@dataclass(frozen=True)
class Departments:
    """Physics, which has slurmdbd, and biology, which uses it; ``job`` is one of physics that began before it was shared."""

    physics: Cluster
    biology: Cluster
    job: int
    key: str


@pytest.fixture(scope="module")
def departments(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Departments]:
    folder = tmp_path_factory.mktemp("departments")
    physics = made(
        folder, images, "physics", folder / "data",
        controller={"shape": SMALL, "accounting": {"shape": SMALL}},
        users=USERS,
        accounts=[{**TEACHING, "users": ["researcher", "grace"]}],
        qos=[{"name": "urgent", "limits": {"Priority": 100}}],
    )  # fmt: skip
    biology = made(folder, images, "biology", folder / "data", **BIOLOGY)
    try:
        physics.up()
        job = physics.submit("sleep 3600", memory_mib=20, output="/dev/null")
        physics.until_script(job)
        physics.spec["controller"]["accounting"]["shared_with"] = [
            {"cluster": "biology", "network": BIOLOGY["network"]}
        ]
        physics.up()
        key = json.loads(engine(physics, "stack", "output", "--json", "--show-secrets"))["accountingKey"]
        biology.config["cluster:accountingKey"] = key
        biology.up()
        yield Departments(physics, biology, job, key)
    finally:
        for each in (biology, physics):
            each.down()
    assert [
        left for each in (biology, physics) for left in left_of(Stack(each.data, each.stack, images))
    ] == []


def sacctmgr(cluster: Cluster, *words: str) -> list[str]:
    """What sacctmgr lists, as root of the cluster."""
    done = cluster.on("ctl", "sacctmgr", "--parsable2", "--noheader", *words)
    assert done.exit_code == 0, done
    return sorted(done.stdout.splitlines())


def associations(cluster: Cluster) -> list[str]:
    return sacctmgr(
        cluster, "show", "assoc", f"cluster={cluster.stack}", "format=Account,User,GrpTRES,Share,QOS"
    )


def slurmctld(cluster: Cluster) -> str:
    return cluster.on("ctl", "pidof", "slurmctld").stdout


def test_what_runs_is_recorded_in_its_own_cluster_and_no_key_of_either_stands_in_a_state(
    departments: Departments,
) -> None:
    physics, biology, job = departments.physics, departments.biology, departments.job
    assert physics.job(job).state is JobState.RUNNING, "it ran on while slurmdbd came to be shared"
    ran = biology.submit("true", memory_mib=20, output="/dev/null", account="teaching")
    biology.until_job(ran, JobState.COMPLETED)
    listed = ("sacct", "-M", "physics,biology", "-a", "-X", "-n", "-P", "-o", "Cluster,JobID,Account,State")
    wanted = {f"physics|{job}|teaching|RUNNING", f"biology|{ran}|teaching|COMPLETED"}

    def has_both(each: Cluster) -> bool | None:
        return wanted <= set(each.on("login-1", *listed).stdout.split()) or None

    for each in (physics, biology):
        until(partial(has_both, each), f"slurmdbd tells {each.stack} of both")
    assert sacctmgr(biology, "show", "cluster", "format=Cluster") == ["biology", "physics"]
    # A person of one department sees no jobs of the other, nor of anybody else.
    asked = ("sacct", "-M", "physics,biology", "-a", "-X", "-n", "-P", "-o", "Cluster,User")
    seen = biology.on("login-1", "setpriv", "--reuid=3002", "--regid=3002", "--clear-groups", *asked)
    assert (seen.exit_code, seen.stdout) == (0, ""), seen
    told = json.loads(biology.tidepool("report", "--json", "--by", "fleet"))
    assert "cpu" not in {row["fleet"] for row in told["rows"]}, "what physics used is no part of it"
    for each in (physics, biology):
        assert departments.key not in engine(each, "stack", "export")
    # As a person gives it: encrypted.
    biology.write_spec()
    engine(biology, "config", "set", "--secret", "cluster:accountingKey", departments.key)
    assert departments.key not in biology.file.read_text()
    assert set(summary(biology.tidepool("preview", "--json"))["changes"]) == {"same"}


def test_a_limit_that_one_changes_is_in_force_at_once_and_nothing_of_the_others(
    departments: Departments,
) -> None:
    physics, biology = departments.physics, departments.biology
    theirs, process = associations(physics), slurmctld(biology)
    shares = biology.on("ctl", "sshare", "-P", "-n", "-a", "-o", "Account,User,RawShares").stdout.split()
    assert {"genomics||3", "teaching||1", "genomics|grace|1"} <= set(shares)
    assert "teaching|grace|1" not in shares
    jobs = [
        biology.submit("sleep 600", memory_mib=20, cpus_per_task=1, output="/dev/null", account="teaching")
        for _ in range(2)
    ]
    biology.until_job(jobs[0], JobState.RUNNING)
    until(lambda: biology.job(jobs[1]).reason == "AssocGrpCpuLimit" or None, "the limit holds it")
    teaching = biology.spec["accounts"][0]
    teaching["limits"], teaching["description"] = {"GrpTRES": "cpu=2"}, "of biology, still"
    biology.up()
    biology.until_job(jobs[1], JobState.RUNNING)
    assert slurmctld(biology) == process, "slurmdbd told it"
    assert associations(physics) == theirs
    assert "teaching|of physics" in sacctmgr(physics, "show", "account", "format=Account,Descr")
    assert set(summary(physics.up("--json"))["changes"]) == {"same"}
    for job in jobs:
        biology.on("ctl", "scancel", str(job))


def reached(cluster: Cluster, machine: str, address: str, port: int) -> bool:
    return "reached" in cluster.on(machine, "timeout", "4", "bash", "-c", ASK, address, str(port)).stdout


def test_machines_reach_slurmdbd_and_it_their_slurmctld_and_nothing_else(departments: Departments) -> None:
    physics, biology = departments.physics, departments.biology
    for machine in ("ctl", "login-1"):
        assert reached(biology, machine, DBD, 6819), machine
    assert reached(physics, "dbd", "10.79.0.2", 6817)
    of_physics = [("10.78.0.2", 22), ("10.78.0.2", 6817), (DBD, 22), ("10.78.0.16", 22), ("10.78.1.1", 6818)]
    of_biology = [("10.79.0.2", 22), ("10.79.0.16", 22), ("10.79.1.1", 6818), ("10.79.1.1", 22)]
    for one, machines, other in (
        (biology, ("ctl", "login-1", "bio-1"), of_physics),
        (physics, ("ctl", "login-1", "cpu-1", "dbd"), of_biology),
    ):
        for machine in machines:
            for address, port in other:
                assert not reached(one, machine, address, port), (machine, address, port)
    assert not reached(biology, "bio-1", DBD, 6819)
    for machine in ("ctl", "login-1", "cpu-1"):
        assert not reached(physics, machine, "10.79.0.2", 6817), machine
    # What runs where jobs run has no key by which slurmdbd is asked.
    assert biology.on("bio-1", "ls", "/etc/munge").stdout.split() == ["munge.key"]


def test_what_cannot_be_shared_is_told_by_a_preview(departments: Departments) -> None:
    physics, biology = departments.physics, departments.biology
    for spoiled in ({}, {"cluster": "chemistry", "network": "10.90.0.0/16"}):
        kept = physics.spec["controller"]["accounting"].pop("shared_with")
        physics.spec["controller"]["accounting"]["shared_with"] = [spoiled] if spoiled else []
        assert "is used by biology" in physics.refused("preview")
        physics.spec["controller"]["accounting"]["shared_with"] = kept
    assert "is used by biology" in physics.refused("down", "--yes")
    physics.write_spec()
    wrong = base64.b64encode(bytes(128)).decode()
    asks = made(biology.folder.parents[1], biology.images, "asks", biology.data, **BIOLOGY)
    asks.config["cluster:accountingKey"] = wrong
    for changes, key, told in (
        ({}, wrong, "the key is not that of the slurmdbd of physics"),
        ({}, departments.key, "the stack biology on this machine uses the slurmdbd of physics in 10.79.0.0/16"),
        ({}, "", "the key of the slurmdbd there is missing"),
        ({}, "none", "is none, which is 32 bytes in base64"),
        ({"name": "physics"}, departments.key, "physics shares its slurmdbd with biology, and this cluster is physics"),
        ({"qos": [{"name": "urgent"}]}, departments.key, "the quality of service urgent is another cluster's"),
        ({"network": "10.90.0.0/16", "fleets": []}, departments.key, "no stack on this machine shares a slurmdbd"),
        ({"controller": {"accounting": {"host": "10.78.0.9"}}}, departments.key, "shares a slurmdbd at 10.78.0.9"),
    ):  # fmt: skip
        asks.spec = {**BIOLOGY, "name": "biology", "partitions": SPEC["partitions"], **changes}
        asks.config = {"cluster:accountingKey": key} if key else {}
        said = " ".join(asks.refused("preview").split())
        assert told in said, said
        assert len(key) < len(wrong) or key not in said
    # A key that is exchanged is looked at before a machine boots with it.
    biology.config["cluster:accountingKey"] = wrong
    assert "the key is not that of the slurmdbd of physics" in " ".join(biology.refused("preview").split())
    biology.config["cluster:accountingKey"] = departments.key
    biology.write_spec()


def test_one_that_goes_leaves_the_other_as_it_was_and_comes_back_to_its_records(
    departments: Departments,
) -> None:
    physics, biology = departments.physics, departments.biology
    theirs, own = associations(physics), associations(biology)
    jobs = ("sacct", "-M", "biology", "-a", "-X", "-n", "-P", "-S", "now-1day", "-o", "JobID")
    ran = biology.submit("true", memory_mib=20, output="/dev/null", account="teaching")
    biology.until_job(ran, JobState.COMPLETED)
    # What slurmctld has not told by then goes with it.
    until(lambda: str(ran) in physics.on("ctl", *jobs).stdout.split() or None, "slurmdbd knows of it")
    biology.tidepool("down", "--yes", "--force")
    assert associations(physics) == theirs
    assert str(ran) in physics.on("ctl", *jobs).stdout.split()
    assert physics.job(departments.job).state is JobState.RUNNING
    # Nobody uses it: a preview of less is none that is refused; and no cable is left.
    listed = subprocess.run(
        [*physics_prefix(physics), "ip", "-o", "link", "show"], capture_output=True, text=True, check=True
    )
    assert "peer" not in listed.stdout
    assert set(summary(physics.up("--json"))["changes"]) == {"same"}
    biology.up()
    assert (
        sacctmgr(biology, "show", "assoc", "cluster=biology", "format=Account,User,GrpTRES,Share,QOS") == own
    )
    assert str(ran) in biology.on("ctl", *jobs).stdout.split()


def physics_prefix(physics: Cluster) -> tuple[str, ...]:
    network = read_network(physics.data, physics.stack, CLUSTER_NETWORK)
    assert network is not None
    return network.prefix
