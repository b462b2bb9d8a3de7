"""What pods, jobs and departments cannot reach of each other's; and where no secret stands."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from demo.pods import Pods
from tests.golden import CONVERGED, golden_store
from tests.toolchain import needs_kubernetes
from tests.whole.cluster import until
from tests.whole.conftest import a_cluster
from tests.whole.pools import ANY, NAMESPACE, PODS, POOL, PoolCluster, a_pool_cluster
from tidepool.clients.kubernetes.contract import Forbidden, Invalid
from tidepool.clients.slurm import JobState
from tidepool.cluster.roles import BOOTSTRAP, KUBECONFIG, KUBELET_PKI, MUNGE_KEY
from tidepool.infrastructures.kubernetes_access import load_access
from tidepool.infrastructures.local.kernel.layout import machine_paths

pytestmark = [pytest.mark.slow, needs_kubernetes]

#: The machine that moves; another stays in each role.
MOVES, SLURM, KUBERNETES = f"{POOL}-1", f"{POOL}-2", f"{POOL}-3"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolCluster]:
    """Three machines, two of which serve Kubernetes: one of them served Slurm before, and no other did."""
    images = golden_store("debian-12", CONVERGED)
    with a_pool_cluster(tmp_path_factory.mktemp("secrets"), images, 3) as it:
        it.convert(MOVES, KUBERNETES, "--to", "kubernetes")
        yield it


def _munge_key(pool: PoolCluster) -> bytes:
    return (pool.root("ctl") / MUNGE_KEY.lstrip("/")).read_bytes()


def _privileged(thing: dict[str, Any]) -> dict[str, Any]:
    (container,) = thing["spec"]["containers"]
    return {
        **thing,
        "spec": {**thing["spec"], "containers": [{**container, "securityContext": {"privileged": True}}]},
    }


def _let_pods_ask_for(pods: Pods, level: str | None) -> None:
    """As an administrator does: how much pods of the namespace may ask of their machines; None: the default."""
    labels = {"pod-security.kubernetes.io/enforce": level}
    pods.requests.patch(NAMESPACE, {"metadata": {"labels": labels}}, ANY)


def _kubelet_files(pool: PoolCluster, node: str) -> dict[str, bytes]:
    """Those of the kubelet's certificates and keys that there are, by path in the machine."""
    pki = pool.root(node) / KUBELET_PKI.lstrip("/")
    files = [path for path in pki.iterdir() if path.is_file() and not path.is_symlink()]
    return {f"{KUBELET_PKI}/{path.name}": path.read_bytes() for path in files}


def _kubelet_keys(pool: PoolCluster, node: str) -> list[bytes]:
    """The lines of the kubelet's private keys, by any of which a copy would be found."""
    key = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\n(.+?)\n-----END", re.DOTALL)
    bodies = [body for content in _kubelet_files(pool, node).values() for body in key.findall(content)]
    assert bodies
    return [line for body in bodies for line in body.splitlines() if len(line) >= 32]


def _disk(pool: PoolCluster, node: str) -> Path:
    """What was written to a machine's disk: all that is not of the image."""
    return machine_paths(pool.data, pool.stack, node).upper


def _holds(folder: Path, secrets: list[bytes]) -> list[str]:
    """The files below ``folder`` that hold one of ``secrets``."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            found += [str(path) for secret in secrets if secret in content]
    return found


def test_a_pod_cannot_use_slurm_even_with_all_of_its_machine(pool: PoolCluster) -> None:
    """A pod that an administrator lets have the machine's whole disk and its network; privileges it is never given.

    What it may do there shows that it is Slurm that it cannot reach, and not the machine.
    """
    script = (
        "chroot /host true; echo chroot $?; ls /host/etc/hostname; echo disk $?; "
        "chroot /host sh -c 'command -v squeue munge sbatch'; echo programs $?; "
        "chroot /host squeue; echo squeue $?; chroot /host munge --no-input; echo munge $?; "
        f"ls /host{MUNGE_KEY}; echo key $?; chroot /host sbatch --wrap true; echo sbatch $?"
    )
    thing = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "greedy"},
        "spec": {
            "nodeName": MOVES,
            "hostNetwork": True,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
            "containers": [
                {
                    "name": "it",
                    "image": "tidepool/busybox:1",
                    "imagePullPolicy": "Never",
                    "command": ["/bin/sh", "-c", f"({script}) > /dev/termination-log 2>&1"],
                    "volumeMounts": [{"name": "host", "mountPath": "/host"}],
                }
            ],
        },
    }
    with pool.pods() as pods:
        with pytest.raises(Forbidden, match="PodSecurity"):
            pods.requests.post(PODS, thing, ANY)
        _let_pods_ask_for(pods, "privileged")
        with pytest.raises(Invalid, match="privileged"):
            pods.requests.post(PODS, _privileged(thing), ANY)
        until(lambda: _let_in(pods, thing), "the API server has heard what pods may ask for")
        _let_pods_ask_for(pods, None)
    pool.until_pod("greedy", "Succeeded", "Failed", timeout_s=60)
    with pool.pods() as pods:
        said = next(pod.said for pod in pods.records() if pod.name == "greedy")
    codes = dict(
        line.split() for line in said.splitlines() if len(line.split()) == 2 and line.split()[1].isdigit()
    )
    assert set(codes) == {"chroot", "disk", "programs", "squeue", "munge", "key", "sbatch"}, said
    assert {name for name, code in codes.items() if code == "0"} == {"chroot", "disk", "programs"}, said
    with pool.slurm() as slurm:
        assert slurm.jobs() == ()


def _let_in(pods: Pods, thing: Mapping[str, Any]) -> bool | None:
    """Its admission hears of labels a little later than who has written them."""
    try:
        pods.requests.post(PODS, thing, ANY)
        return True
    except Forbidden:
        return None


def test_a_machine_that_serves_kubernetes_holds_nothing_of_munges_key(pool: PoolCluster) -> None:
    key = _munge_key(pool)
    secrets = [key, base64.b64encode(key)]
    assert _holds(_disk(pool, SLURM), secrets) != []
    for node in (MOVES, KUBERNETES):
        assert _holds(_disk(pool, node), secrets) == []


def test_a_job_cannot_reach_the_kubelets_credentials(pool: PoolCluster) -> None:
    """On a machine that served Kubernetes before: neither there, nor on its disk, nor at the API server."""
    keys = _kubelet_keys(pool, MOVES)
    paths = [*_kubelet_files(pool, MOVES), KUBECONFIG, BOOTSTRAP]
    assert [key for key in keys if not _holds(_disk(pool, MOVES), [key])] == []
    find = "find / -xdev -name '*kubelet*' -path '*pki*'"
    assert KUBELET_PKI in pool.on(MOVES, "sh", "-c", find).stdout
    pool.convert(MOVES, "--to", "slurm")
    server = json.loads(pool.tidepool("status", "--json"))
    assert server["reached"]
    with pool.pods() as pods:
        where = pods.requests.where.rpartition(" ")[2]
    script = (
        f"ls -la {KUBELET_PKI} {KUBECONFIG} {BOOTSTRAP} /etc/kubernetes /run/containerd; "
        f"cat /etc/hostname; for path in {' '.join(paths)}; do cat $path || echo not read; done; "
        f"{find} 2>/dev/null | sed 's/^/found /'; "
        f'python3 -c "import ssl,urllib.request as u;'
        f"print(u.urlopen('https://{where}/api/v1/secrets',context=ssl._create_unverified_context()).status)\"; "
        "exit 0"
    )
    job = pool.submit(script, work_dir="/tmp", output="/home/researcher/looks", more=(f"--nodelist={MOVES}",))
    pool.until_job(job, JobState.COMPLETED)
    said = pool.on("login-1", "cat", "/home/researcher/looks").stdout
    assert f"\n{MOVES}\n" in said, said
    assert said.count("\nnot read\n") == len(paths), said
    assert "found /" not in said, said
    assert "PRIVATE" not in said
    assert [key for key in keys if key.decode() in said] == []
    assert "HTTP Error 40" in said, said
    assert _holds(_disk(pool, MOVES), keys) == []
    pool.convert(MOVES, "--to", "kubernetes")


def test_another_department_does_not_reach_this_kubernetes(
    pool: PoolCluster, images: Path, tmp_path: Path
) -> None:
    with pool.pods() as pods:
        host, _, port = pods.requests.where.rpartition(" ")[2].partition(":")
    reach = ("python3", "-c", f"import socket; socket.create_connection(({host!r}, {port}), 3)")
    assert pool.on("login-1", *reach).exit_code == 0
    with a_cluster(tmp_path, images, network="10.79.0.0/16", fleets=[]) as other:
        assert other.on("login-1", *reach).exit_code != 0
    admin = load_access(pool.data, pool.stack, "kubernetes-admin")
    assert admin.machine is not None


def test_no_secret_stands_in_state_logs_or_command_lines(pool: PoolCluster) -> None:
    pool.convert(SLURM, "--to", "kubernetes")
    key = _munge_key(pool)
    kept = [path.read_text() for path in (pool.data / pool.stack / "kubernetes").glob("*.kubeconfig")]
    texts = [
        text.encode() for each in kept for text in re.findall(r'client-key-data": "([A-Za-z0-9+/=]+)', each)
    ]
    assert texts
    kubelet = _kubelet_keys(pool, SLURM)
    secrets = [key, base64.b64encode(key), *texts, *(base64.b64decode(text) for text in texts), *kubelet]
    stack = pool.data / pool.stack
    logs = [path for path in stack.rglob("*.log") if path.is_file()]
    assert any(path.name == "convert.log" for path in logs)
    for path in (*logs, *(pool.data / "state").rglob("*"), *stack.glob("conversions.db*")):
        if path.is_file():
            content = path.read_bytes()
            assert [secret[:8] for secret in secrets if secret in content] == [], path
            assert b"PRIVATE KEY" not in content, path
    for machine in ("kube", "ctl", *pool.names):
        for pid in pool.pids(machine):
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                continue  # it ended
            assert [secret[:8] for secret in secrets if secret in line] == [], line.split(b"\0")[0]


def test_accesses_are_for_root_alone(pool: PoolCluster) -> None:
    for path in (pool.data / pool.stack / "kubernetes").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert (pool.data / pool.stack / "conversions.db").stat().st_mode & 0o077 == 0
