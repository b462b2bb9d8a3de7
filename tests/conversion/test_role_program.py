"""A real machine of a pool takes its roles and loses them: real slurmd, real kubelet, real pods, and nothing left behind."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.conversion.pool import Pool, machine_spec, running_pool, until
from tests.infrastructures.local.needs import needs_machines
from tests.machine_faults import pull_plug
from tidepool.clients.slurm import Completed, TimedOut, Transport
from tidepool.cluster.roles import (
    BOOTSTRAP,
    CONTAINERD_SOCKET,
    KUBECONFIG,
    KUBELET_PKI,
    MUNGE_KEY,
    ROLES,
    Role,
)
from tidepool.conversion.machine import RoleFile, RoleProgram
from tidepool.conversion.ports import ConversionError
from tidepool.infrastructures.local.kernel import create_machine

pytestmark = pytest.mark.slow

ONE, TWO = "shared-1", "shared-2"
_USER = ("setpriv", "--reuid=2000", "--regid=2000", "--clear-groups")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pool")


@pytest.fixture(scope="module")
def data(folder: Path) -> Path:
    """The data folder. Skips where this machine cannot make machines."""
    needs_machines(folder / "data")
    return folder / "data"


@pytest.fixture(scope="module")
def pool(data: Path, folder: Path) -> Iterator[Pool]:
    with running_pool(data, folder) as running:
        yield running


@pytest.fixture(autouse=True)
def without_roles(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test finds machines without a role, and what it leaves is no other's."""
    yield
    if "pool" not in request.fixturenames:
        return
    pool: Pool = request.getfixturevalue("pool")
    for node in (ONE, TWO):
        for role in pool.program(node).roles():
            pool.program(node).lose(role)
        with pool.client() as client:
            client.delete_node(node)


def _disk(pool: Pool, node: str = ONE) -> list[str]:
    """All that is on a machine's disk and in its /run, but for what containerd keeps, and logs.

    And but for libmount's folder: the first `umount` on a machine makes it, and a kubelet tries one as it begins, when
    it comes so far.
    """
    looked = pool.stack.run(
        "find",
        "/",
        "-xdev",
        "(",
        "-path",
        "/proc",
        "-o",
        "-path",
        "/tmp",
        ")",
        "-prune",
        "-o",
        "-print",
        on=node,
    ).stdout
    run = pool.stack.run("find", "/run", "-xdev", on=node).stdout
    return sorted({*looked.splitlines(), *run.splitlines()} - {"/run/mount"})


def _network(pool: Pool, node: str = ONE) -> str:
    return pool.stack.run(
        "sh", "-c", "ip -o link | cut -d: -f2; ip route; ip neigh | wc -l", on=node
    ).stdout.split("\n10.", 1)[0]


def _pid(pool: Pool, service: str, node: str = ONE) -> int:
    return next(each.pid for each in pool.stack.read(node).services if each.name == service)


def test_a_machine_that_was_made_has_no_role_and_nothing_of_one(pool: Pool) -> None:
    program = pool.program(ONE)
    assert program.roles() == frozenset()
    assert [program.left_behind(role) for role in ROLES] == [(), ()]
    for path in (MUNGE_KEY, BOOTSTRAP, KUBECONFIG):
        assert pool.stack.run("test", "-e", path, on=ONE).code == 1
    assert {each.state for each in pool.stack.read(ONE).services} == {"done", "off", "up"}


def test_it_serves_kubernetes_and_nothing_of_that_stays(pool: Pool) -> None:
    pool.join_kubernetes(ONE)  # the first time, containers are imported and folders are made: they stay
    pool.leave_kubernetes(ONE)
    disk, network = _disk(pool), _network(pool)
    program = pool.join_kubernetes(ONE)
    assert program.roles() == {"kubernetes"}
    with pool.client() as client:
        node = client.node(ONE)
    assert node is not None
    assert (node.labels["tidepool/pool"], node.labels["tidepool/stack"]) == ("shared", "pool")
    shape = pool.spec.pools[0].shape
    assert node.allocatable.cpu_milli == shape.cpus * 1000, "the machine's, not the host's"
    assert node.allocatable.memory_bytes == shape.memory_mib << 20
    scratch = {
        "volumes": [{"name": "memory", "emptyDir": {"medium": "Memory"}}, {"name": "disk", "emptyDir": {}}]
    }
    mounts = [{"name": "memory", "mountPath": "/memory"}, {"name": "disk", "mountPath": "/disk"}]
    seen = "grep -c ' /memory tmpfs' /proc/mounts && touch /disk/x && exec sleep 1000"
    pool.run_pod("stays", ONE, "sh", "-c", seen, mounts=mounts, automountServiceAccountToken=True, **scratch)
    pool.until_pod("stays", "Running")
    until(lambda: pool.pod_says("stays") == "1\n", "its volumes are not there")
    program.lose("kubernetes")
    assert program.roles() == frozenset()
    assert program.left_behind("kubernetes") == ()
    assert _disk(pool) == disk
    assert _network(pool) == network
    pool.ask("DELETE", "/api/v1/namespaces/default/pods/stays?gracePeriodSeconds=0")


def test_pods_of_two_machines_reach_each_other_and_are_asked_through_the_api(pool: Pool) -> None:
    for node in (ONE, TWO):
        pool.join_kubernetes(node)
    serves = "mkdir /www && hostname >/www/index.html && exec httpd -f -p 8080 -h /www"
    pool.run_pod("serves", ONE, "sh", "-c", serves)
    address = pool.until_pod("serves", "Running")["status"]["podIP"]
    ask = f"until wget -qO- http://{address}:8080/; do sleep 0.1; done"
    pool.run_pod("asks", TWO, "sh", "-c", ask, restartPolicy="Never")
    pool.until_pod("asks", "Succeeded")
    assert pool.pod_says("asks") == "serves\n"
    assert pool.in_pod("serves", "cat", "/www/index.html") == "serves\n"
    for name in ("serves", "asks"):
        pool.ask("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")


def test_pods_outlive_their_kubelet_and_their_containerd(pool: Pool) -> None:
    pool.join_kubernetes(ONE)
    pool.run_pod("lives", ONE, "sleep", "1000")
    pool.until_pod("lives", "Running")
    for service in ("kubelet", "containerd"):
        pid = _pid(pool, service)
        assert pool.stack.run("kill", "-9", str(pid), on=ONE).code == 0
        until(lambda old=pid, name=service: _pid(pool, name) not in (0, old), f"{service} is not back")  # type: ignore[misc]
    with pool.client() as client:
        until(lambda: (node := client.node(ONE)) is not None and node.takes_pods, "not ready again", 30)
    status = pool.pod("lives")["status"]["containerStatuses"][0]
    assert (status["restartCount"], "running" in status["state"]) == (0, True)
    pool.ask("DELETE", "/api/v1/namespaces/default/pods/lives?gracePeriodSeconds=0")


def test_taken_again_with_other_files_its_services_are_started_again_and_pods_go_on(pool: Pool) -> None:
    program = pool.join_kubernetes(ONE)
    pool.run_pod("goes-on", ONE, "sleep", "1000")
    pool.until_pod("goes-on", "Running")
    pids = [_pid(pool, name) for name in ("kubelet", "containerd")]
    program.take("kubernetes")
    assert [_pid(pool, name) for name in ("kubelet", "containerd")] == pids, "nothing changed"
    pool.program(ONE, "other.token").take("kubernetes")
    # One that gives up because the other is not there yet is started once more.
    until(
        lambda: not {_pid(pool, name) for name in ("kubelet", "containerd")} & {0, *pids},
        "they were not started again",
        30,
    )
    with pool.client() as client:
        renewed = client.lease(ONE)
        until(lambda: client.lease(ONE) != renewed, "its lease is not renewed", 30)
    status = pool.pod("goes-on")["status"]["containerStatuses"][0]
    assert (status["restartCount"], "running" in status["state"]) == (0, True)
    pool.ask("DELETE", "/api/v1/namespaces/default/pods/goes-on?gracePeriodSeconds=0")


def test_one_that_boots_again_is_the_same_node(pool: Pool, folder: Path) -> None:
    pool.join_kubernetes(ONE)
    with pool.client() as client:
        before = client.node(ONE)
        assert before is not None
        pull_plug(pool.stack.data, "pool", ONE)
        slot = pool.spec.pools[0].slots()[0]
        create_machine(pool.stack.data, machine_spec(pool, ONE, str(slot.address), folder / "home"))
        until(lambda: pool.program(ONE).roles() == {"kubernetes"}, "it has no role")
        until(lambda: _pid(pool, "kubelet") != 0, "no kubelet")
        # By the certificate that it has; nobody gave it a token.
        renewed = client.lease(ONE)
        until(lambda: client.lease(ONE) != renewed, "its lease is not renewed", 30)
        after = client.node(ONE)
    assert after is not None
    assert after.uid == before.uid


def test_it_serves_slurm_and_nothing_of_that_stays(pool: Pool) -> None:
    program = pool.program(ONE)
    program.take("slurm")
    program.lose("slurm")
    disk, network = _disk(pool), _network(pool)
    program.take("slurm")
    assert program.roles() == {"slurm"}
    until(lambda: "idle" in pool.slurm("sinfo", "-h", "-n", ONE, "-o", "%T"), "no node")
    assert pool.slurm(*_USER, "srun", "-w", ONE, "id", "-u").strip() == "2000"
    pool.slurm(*_USER, "sbatch", "--chdir=/tmp", "--output=/dev/null", "-w", ONE, "--wrap", "sleep 1000")
    until(lambda: pool.stack.run("pgrep", "-x", "sleep", on=ONE).code == 0, "no job")
    program.lose("slurm")
    assert pool.stack.run("pgrep", "-x", "sleep|slurmstepd|munged", on=ONE).code == 1
    assert program.left_behind("slurm") == ()
    assert _disk(pool) == disk
    assert _network(pool) == network
    pool.slurm("scancel", "-u", "researcher")
    pool.slurm("scontrol", "update", f"nodename={ONE}", "state=down", "reason=test")
    pool.slurm("scontrol", "update", f"nodename={ONE}", "state=future")


def test_who_has_a_role_takes_no_other(pool: Pool) -> None:
    program = pool.program(ONE)
    program.take("slurm")
    with pytest.raises(
        ConversionError, match="shared-1: it still has the role slurm, which it has to lose first"
    ):
        program.take("kubernetes")
    assert program.roles() == {"slurm"}
    assert pool.stack.run("test", "-e", BOOTSTRAP, on=ONE).code == 1
    # A key that was left over is enough.
    program.lose("slurm")
    assert pool.stack.run("sh", "-c", f"echo key >{MUNGE_KEY}", on=ONE).code == 0
    assert program.roles() == {"slurm"}
    assert program.left_behind("slurm") == (MUNGE_KEY,)
    with pytest.raises(ConversionError, match="it still has the role slurm"):
        program.take("kubernetes")


@dataclass(frozen=True)
class _Cut:
    """Kills a command after so long, with all that it started in its process group: who asked is gone."""

    inner: Transport
    after_s: float

    @property
    def where(self) -> str:
        return self.inner.where

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        return self.inner.run(argv, stdin=stdin, timeout_s=self.after_s)

    def close(self) -> None:
        pass


#: Into how many pieces a change is cut: from before the interpreter runs to just before its end.
_CUTS = 20


@pytest.mark.parametrize("role", ROLES)
def test_taking_and_losing_go_on_where_they_were_cut_off(pool: Pool, role: Role) -> None:
    program = pool.program(ONE)
    taking, losing = _Lasting(_lasts_s(program.take, role)), _Lasting(_lasts_s(program.lose, role))
    disk = _disk(pool)
    cuts = 0
    for number in range(1, _CUTS + 1):
        until = number / (_CUTS + 1)
        cuts += taking.is_cut_off(_cut(program, taking.seconds * until).take, role)
        if until > 0.5:  # then it is not wanted after all
            program.lose(role)
            assert program.left_behind(role) == ()
        program.take(role)
        assert program.roles() == {role}
        cuts += losing.is_cut_off(_cut(program, losing.seconds * until).lose, role)
        program.lose(role)
        assert program.left_behind(role) == ()
    assert cuts >= _CUTS / 2  # of twice as many
    assert _disk(pool) == disk


def _lasts_s(call: Callable[[Role], object], role: Role) -> float:
    started = time.monotonic()
    call(role)
    return time.monotonic() - started


def _cut(program: RoleProgram, after_s: float) -> RoleProgram:
    return replace(program, transport=_Cut(program.transport, after_s))


@dataclass
class _Lasting:
    """How long a change lasts, by the quickest that came to its end: the first of its kind is the slowest."""

    seconds: float

    def is_cut_off(self, call: Callable[[Role], object], role: Role) -> bool:
        try:
            self.seconds = min(self.seconds, _lasts_s(call, role))
        except ConversionError as error:
            if isinstance(error.__cause__, TimedOut):
                return True
            raise
        return False


def test_a_job_reads_no_credential_of_kubernetes_and_a_pod_none_of_slurm(pool: Pool) -> None:
    program = pool.join_kubernetes(ONE)
    # While the machine serves Kubernetes, who is logged in there is nobody to it.
    for path in (BOOTSTRAP, KUBECONFIG, f"{KUBELET_PKI}/kubelet-client-current.pem"):
        assert pool.stack.run("test", "-s", path, on=ONE).code == 0
        assert pool.stack.run(*_USER, "cat", path, on=ONE).code == 1
    connect = f"import socket; socket.socket(socket.AF_UNIX).connect('{CONTAINERD_SOCKET}')"
    assert "PermissionError" in pool.stack.run(*_USER, "python3", "-c", connect, on=ONE).stderr
    whole_host: dict[str, Any] = {
        "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
        "restartPolicy": "Never",
    }
    look = (
        f"exec 2>&1; ls /host{MUNGE_KEY} /host/run/munge/munge.socket.2; chroot /host true && ls /host/etc/hostname; "
        "find /host/run /host/etc -name '*munge*key*' | sed 's/^/found /'; "
        "echo looked at $(find /host/run /host/etc | wc -l)"
    )
    container = {
        "name": "c",
        "image": "tidepool/busybox:1",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", look],
        "volumeMounts": [{"name": "host", "mountPath": "/host"}],
    }
    pool.let_pods_ask_for("privileged")
    pool.run_pod("looks", ONE, containers=[container], **whole_host)
    pool.let_pods_ask_for("baseline")
    until(lambda: pool.pod("looks")["status"]["phase"] in ("Failed", "Succeeded"), "it looks on", 30)
    said = pool.pod_says("looks")
    assert said.count("No such file") == 2, "not even one that sees all of the machine"
    assert "\n/host/etc/hostname\n" in said, said
    assert "found" not in said, said
    assert int(said.rpartition("looked at ")[2]) > 50, said
    pool.ask("DELETE", "/api/v1/namespaces/default/pods/looks?gracePeriodSeconds=0")
    program.lose("kubernetes")
    program.take("slurm")
    for path in (BOOTSTRAP, KUBECONFIG, KUBELET_PKI, CONTAINERD_SOCKET):
        assert pool.stack.run("test", "-e", path, on=ONE).code == 1
    # That is what the pod looked for.
    there = pool.stack.run("find", "/run", "/etc", "-name", "*munge*key*", on=ONE).stdout
    assert there.split() == [MUNGE_KEY]


def test_what_was_secret_is_overwritten(pool: Pool, data: Path) -> None:
    program = pool.program(ONE)
    program.take("slurm")
    kept = data / "pool" / "machines" / ONE / "upper" / "etc" / "munge" / "munge.key"
    with kept.open("rb") as key:
        assert any(key.read())
        program.lose("slurm")
        key.seek(0)
        assert not any(key.read()), "who has the file open reads nothing of it"
    assert not kept.exists()


def test_errors_are_for_people(pool: Pool) -> None:
    program = pool.program(ONE)
    nobody = replace(program, files=lambda _: [RoleFile("/etc/x", b"", owner="nobody-here")])
    with pytest.raises(ConversionError, match=r"shared-1: .*nobody-here"):
        nobody.take("slurm")
    assert program.roles() == frozenset()
    assert set(program.left_behind("slurm")) == {"/var/lib/tidepool/roles/slurm.files"}
    program.lose("slurm")
    gone = replace(program, transport=_Gone())
    with pytest.raises(ConversionError, match="shared-1 cannot be asked: "):
        gone.roles()
    mute = replace(program, transport=_Mute())
    with pytest.raises(ConversionError, match="shared-1 did not come to the end of it: Killed"):
        mute.roles()


class _Gone:
    where = "nowhere"

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        raise TimedOut("no answer", where=self.where, remedy="wait")

    def close(self) -> None:
        pass


class _Mute(_Gone):
    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        return Completed(-signal.SIGKILL, "", "Killed\n")


def test_services_that_do_not_start_are_named(pool: Pool) -> None:
    program = replace(pool.program(ONE), start_s=0.3)
    nothing = replace(program, files=lambda _: [])
    with pytest.raises(
        ConversionError, match=r"the services of the role slurm did not start in 0.3 s: munged is"
    ):
        nothing.take("slurm")
    program.lose("slurm")
    assert program.left_behind("slurm") == ()
