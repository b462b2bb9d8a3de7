"""A whole cluster of golden images: people log in, their jobs talk to each other across nodes, and are accounted."""

from __future__ import annotations

import base64
import secrets
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.specs import spec_mapping
from tests.golden import golden_image
from tests.infrastructures.local import golden
from tests.infrastructures.local.golden import Parts
from tests.infrastructures.local.stacks import CIDR, Stack, left_of
from tests.machine_faults import pull_plug
from tidepool.cluster.slurm_conf import configuration
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.local.kernel import (
    MachineSpec,
    NetworkSpec,
    create_machine,
    create_network,
    execute,
    read_network,
    wait_ready,
)

pytestmark = pytest.mark.slow

_PINGPONG = Path(__file__).parents[3] / "demo" / "jobs" / "pingpong.py"
_LOGIN = "10.77.0.16"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A controller, a login machine, two nodes and the accounting's machine; and the key that logs in."""

    stack: Stack
    key: Path
    machines: dict[str, MachineSpec]

    def run(self, *argv: str, on: str = "ctl") -> str:
        """What a command of root's says."""
        ended = self.stack.run(*argv, on=on)
        assert ended.code == 0, ended
        return ended.stdout

    def ssh(self, user: str, command: str, stdin: str = "") -> str:
        """What a command says that somebody gives who logged in."""
        network = read_network(self.stack.data, self.stack.name, "net")
        assert network is not None
        known = self.key.with_name("known_hosts")
        known.write_text(f"{_LOGIN} {self.host_key('login-1')}")
        options = [f"UserKnownHostsFile={known}", "StrictHostKeyChecking=yes", "BatchMode=yes"]
        login = ["ssh", "-F", "none", "-i", str(self.key), *(f"-o{option}" for option in options)]
        call = [*network.prefix, *login, f"{user}@{_LOGIN}", command]
        done = subprocess.run(call, input=stdin, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done
        return done.stdout

    def host_key(self, name: str) -> str:
        return self.run("cat", "/etc/ssh/ssh_host_ed25519_key.pub", on=name)

    def eventually(self, *argv: str, says: str, timeout_s: float = 30.0) -> None:
        """Wait until a command says a line."""
        deadline = time.monotonic() + timeout_s
        while says not in (said := self.run(*argv)).splitlines():
            assert time.monotonic() < deadline, said
            time.sleep(0.02)


def _kinds(home: Path, key: str, public_key: str) -> dict[str, Parts]:
    munged, sshd = golden.munged(key), golden.sshd(public_key)
    return {
        "dbd": munged + golden.slurmdbd(),
        "ctl": munged + golden.slurmctld() + sshd + golden.home(str(home)),
        "login": munged + sshd + golden.home(str(home)),
        "cpu": munged + golden.slurmd() + sshd + golden.home(str(home)),
    }


@pytest.fixture(scope="module")
def cluster(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    image = golden_image().root
    folder = tmp_path_factory.mktemp("golden")
    (folder / "home").mkdir()
    key = folder / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)], check=True)
    munge_key = base64.b64encode(secrets.token_bytes(128)).decode()
    kinds = _kinds(folder / "home", munge_key, key.with_suffix(".pub").read_text())
    mapping = spec_mapping(controller={"accounting": {}})
    mapping["fleets"], mapping["partitions"] = mapping["fleets"][:1], mapping["partitions"][:1]
    spec = ClusterSpec.model_validate(mapping)
    own = spec.own_addresses
    slots = [(slot.node_name, str(slot.address)) for slot in spec.fleets[0].slots()[:2]]
    places = [("dbd", str(own.accounting)), ("ctl", str(own.controller)), ("login-1", _LOGIN), *slots]
    stack = Stack(data, "golden", image)
    machines = {
        name: golden.machine("golden", str(image), name, address, kinds[name.split("-")[0]])
        for name, address in places
    }
    try:
        create_network(data, NetworkSpec("golden", "net", CIDR))
        for name in ("dbd", "ctl", "login-1"):
            create_machine(data, machines[name])
        for name in ("dbd", "login-1"):  # slurmctld wants to register itself
            wait_ready(data, "golden", name, 60)
        for name in ("ctl", "login-1"):
            _configure(stack, name, spec)
        wait_ready(data, "golden", "ctl", 30)
        made = Cluster(stack, key, machines)
        for name, _ in slots:
            create_machine(data, machines[name])
        made.eventually("sinfo", "-h", "-o", "%D %T", says="2 idle")
        yield made
    finally:
        stack.delete_all()
    assert left_of(stack) == []


def _configure(stack: Stack, name: str, spec: ClusterSpec) -> None:
    """As whoever makes a cluster does; slurm.conf comes last, for slurmctld waits for it."""
    for file, text in reversed(list(configuration(spec).items())):
        write = f"cat >/etc/slurm/{file}.new && mv /etc/slurm/{file}.new /etc/slurm/{file}"
        done = execute(stack.data, "golden", name, ["sh", "-c", write], stdin=text, timeout_s=10)
        assert done.code == 0, done


def test_a_person_logs_in_and_a_job_talks_across_nodes(cluster: Cluster) -> None:
    assert cluster.ssh("researcher", "id -un; hostname; pwd").split() == [
        "researcher",
        "login-1",
        "/home/researcher",
    ]
    cluster.ssh("researcher", "cat >pingpong.py", stdin=_PINGPONG.read_text())
    said = cluster.ssh("researcher", "srun -N2 -n2 --ntasks-per-node=1 --mpi=pmix python3 pingpong.py")
    told = [line.split(":")[0].split(" on ") for line in said.splitlines()]
    assert {rank for rank, _ in told} == {"rank 0", "rank 1"}
    assert {node for _, node in told} == {"cpu-1", "cpu-2"}
    job = cluster.ssh("researcher", "sbatch --parsable --wait -o out.txt --wrap 'id -un'").strip()
    assert cluster.ssh("researcher", "cat out.txt").strip() == "researcher"
    cluster.eventually("sacct", "-nXPj", job, "-o", "user,state", says="researcher|COMPLETED")


def test_each_machine_has_a_host_key_of_its_own_and_keeps_it(cluster: Cluster) -> None:
    keys = {name: cluster.host_key(name) for name in ("ctl", "login-1", "cpu-1", "cpu-2")}
    assert len(set(keys.values())) == 4
    pull_plug(cluster.stack.data, "golden", "login-1")
    create_machine(cluster.stack.data, cluster.machines["login-1"])
    wait_ready(cluster.stack.data, "golden", "login-1", 20)
    assert cluster.host_key("login-1") == keys["login-1"]


def test_accounting_lives_on_when_its_machine_was_switched_off(cluster: Cluster) -> None:
    cluster.run("sacctmgr", "-i", "add", "account", "physics")
    pull_plug(cluster.stack.data, "golden", "dbd")
    create_machine(cluster.stack.data, cluster.machines["dbd"])
    wait_ready(cluster.stack.data, "golden", "dbd", 60)
    cluster.eventually("sacctmgr", "-nP", "show", "account", "format=account", says="physics")


def test_no_service_died_on_the_way(cluster: Cluster) -> None:
    for name in cluster.machines:
        services = cluster.stack.read(name).services
        assert [(each.name, each.restarts) for each in services if each.restarts] == []
