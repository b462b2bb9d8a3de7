"""A real Kubernetes for tests: etcd, kube-apiserver, kube-controller-manager and kube-scheduler on the loopback.

They end with the test, however that ends: each is killed with the thread that started it. There is no kubelet; what
kubelets say of pods and nodes is said by `tests.clients.kubernetes.world`.
"""

from __future__ import annotations

import atexit
import base64
import functools
import json
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.clients.kubernetes.pki import Authority, Pair
from tests.toolchain import kubernetes_tools
from tidepool.clients.kubernetes.client import connect
from tidepool.clients.kubernetes.contract import KubernetesError, NotFound, Unreachable
from tidepool.clients.kubernetes.exchange import Exchange
from tidepool.clients.kubernetes.kubeconfig import read_kubeconfig
from tidepool.clients.kubernetes.objects import Right
from tidepool.clients.kubernetes.requests import Requests
from tidepool.toolchain import Toolchain

HOST = "127.0.0.1"
ANY = Right("*", "*", "*")
#: Just what the tests need, so that two cores have something left.
CONTROLLERS = (
    "disruption-controller",
    "node-lifecycle-controller",
    "garbage-collector-controller",
    "certificatesigningrequest-signing-controller",
    "namespace-controller",
    # Else a namespace with a claim never goes, and the others try each second.
    "persistentvolumeclaim-protection-controller",
    "token-cleaner-controller",
)


@functools.cache
def shared() -> RealKubernetes:
    """One for all tests of this process. Skips where the toolchain is not built."""
    tools = kubernetes_tools()
    folder = Path(tempfile.mkdtemp(prefix="tidepool-kubernetes-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    running = RealKubernetes(folder, tools)
    atexit.register(running.close)
    return running


def kubeconfig(port: int, authority: str, pair: Pair | None = None, token: str = "", host: str = HOST) -> str:
    """One for the server at that port."""
    user: dict[str, Any] = {"token": token} if token else {}
    if pair:
        user["client-certificate-data"] = base64.b64encode(pair.certificate.encode()).decode()
        user["client-key-data"] = base64.b64encode(pair.key.encode()).decode()
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "c",
                    "cluster": {
                        "server": f"https://{host}:{port}",
                        "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
                    },
                }
            ],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


class RealKubernetes:
    """A control plane in a folder. ``admin`` may everything; ``host`` is the address of its API server."""

    def __init__(self, folder: Path, tools: Toolchain, host: str = HOST) -> None:
        self.folder = folder
        self.host = host
        self._tools = tools
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.authority = Authority.made()
        self.port, self._etcd, self._etcd_peer, scheduler, manager = _ports(5)
        self.admin_kubeconfig = self.kubeconfig("admin", "system:masters")
        self._write("ca.crt", self.authority.pair.certificate)
        self._write("ca.key", self.authority.pair.key)
        self._write_pair("server", self.authority.sign("kube-apiserver", addresses=(host, "10.96.0.1")))
        self._write_pair("accounts", self.authority.sign("accounts"))
        try:
            self.start_etcd()
            self.start_apiserver()
            self._start_controllers(scheduler, manager)
            with connect(self.admin_kubeconfig) as client:
                # Its own rights come a moment after it answers.
                _until(
                    30, lambda: _answers(client.nodes) and _is_ready(self.requests()), "kube-apiserver", self
                )
        except BaseException:
            self.close()
            raise

    def kubeconfig(self, name: str, *groups: str) -> str:
        """Of a user, with a certificate."""
        pair = self.authority.sign(name, *groups)
        return kubeconfig(self.port, self.authority.pair.certificate, pair, host=self.host)

    def requests(self, text: str = "", page: int = 500, timeout_s: float = 15.0) -> Requests:
        """For what the client does not do."""
        access = read_kubeconfig(text or self.admin_kubeconfig)
        return Requests(Exchange(access, timeout_s=timeout_s), page)

    def start_etcd(self) -> None:
        url, peer = f"http://{HOST}:{self._etcd}", f"http://{HOST}:{self._etcd_peer}"
        self._start(
            "etcd",
            f"--data-dir={self.folder}/etcd", "--unsafe-no-fsync", "--name=only", "--log-level=error",
            f"--listen-client-urls={url}", f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=only={peer}",
        )  # fmt: skip

    def start_apiserver(self) -> None:
        folder = self.folder
        self._start(
            "kube-apiserver",
            f"--etcd-servers=http://{HOST}:{self._etcd}", f"--bind-address={self.host}", f"--advertise-address={self.host}",
            f"--secure-port={self.port}", f"--client-ca-file={folder}/ca.crt",
            f"--tls-cert-file={folder}/server.crt", f"--tls-private-key-file={folder}/server.key",
            "--service-account-issuer=https://tests", f"--service-account-key-file={folder}/accounts.crt",
            f"--service-account-signing-key-file={folder}/accounts.key", "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
            "--disable-admission-plugins=ServiceAccount", "--enable-bootstrap-token-auth",
            "--endpoint-reconciler-type=none",
        )  # fmt: skip
        with connect(self.admin_kubeconfig, timeout_s=2) as client:
            _until(60, lambda: _answers(client.version), "kube-apiserver", self)

    def _start_controllers(self, scheduler: int, manager: int) -> None:
        folder = self.folder
        self._write("manager.json", self.kubeconfig("system:kube-controller-manager"))
        self._write("scheduler.json", self.kubeconfig("system:kube-scheduler"))
        self._start(
            "kube-controller-manager",
            f"--kubeconfig={folder}/manager.json", f"--controllers={','.join(CONTROLLERS)}",
            f"--secure-port={manager}", f"--bind-address={HOST}", f"--cert-dir={folder}/manager",
            f"--cluster-signing-cert-file={folder}/ca.crt", f"--cluster-signing-key-file={folder}/ca.key",
            f"--service-account-private-key-file={folder}/accounts.key", f"--root-ca-file={folder}/ca.crt",
            "--use-service-account-credentials=true", "--leader-elect=false",
            # No kubelet renews a lease here.
            "--node-monitor-grace-period=1h", "--node-monitor-period=200ms",
        )  # fmt: skip
        self._start(
            "kube-scheduler",
            f"--kubeconfig={folder}/scheduler.json", f"--secure-port={scheduler}", f"--bind-address={HOST}",
            f"--cert-dir={folder}/scheduler", "--leader-elect=false",
        )  # fmt: skip

    def stop(self, program: str) -> None:
        """Have it hang; returns when each of its threads does."""
        process = self._processes[program]
        process.send_signal(signal.SIGSTOP)
        tasks = Path(f"/proc/{process.pid}/task")
        _until(10, lambda: {_state(task) for task in tasks.iterdir()} == {"T"}, program, self)

    def go_on(self, program: str) -> None:
        """End its hanging."""
        self._processes[program].send_signal(signal.SIGCONT)

    def kill(self, program: str) -> None:
        """End it at once, and wait until it is gone."""
        process = self._processes.pop(program)
        process.kill()
        process.wait()

    def tail(self, program: str) -> str:
        """What it said last."""
        return "".join((self.folder / f"{program}.log").read_text().splitlines(keepends=True)[-5:])

    def has_ended(self, program: str) -> bool:
        return program not in self._processes or self._processes[program].poll() is not None

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()

    def _start(self, program: str, *arguments: str) -> None:
        command = ["setpriv", "--pdeathsig", "KILL", str(self._tools.path(program)), *arguments]
        with (self.folder / f"{program}.log").open("ab") as log:
            self._processes[program] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )

    def _write_pair(self, name: str, pair: Pair) -> None:
        self._write(f"{name}.crt", pair.certificate)
        self._write(f"{name}.key", pair.key)

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.touch(0o600)
        path.write_text(text)


def _ports(count: int) -> Sequence[int]:
    """So many that were free a moment ago."""
    held = [socket.create_server((HOST, 0)) for _ in range(count)]
    found = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return found


def _state(task: Path) -> str:
    """The state of a thread, as one letter: proc(5)."""
    return (task / "stat").read_text().rpartition(")")[2].split()[0]


def _answers(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except Unreachable:
        return False
    return True


def _is_ready(requests: Requests) -> bool:
    """Whether what it makes by itself is there: what pods need, and what everybody may."""
    try:
        requests.get("/api/v1/namespaces/default", ANY)
        requests.get("/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical", ANY)
        requests.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node-bootstrapper", ANY)
        requests.get("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:basic-user", ANY)
    except (NotFound, KubernetesError):
        return False
    finally:
        requests.close()
    return True


def _until(seconds: float, holds: Callable[[], bool], program: str, real: RealKubernetes) -> None:
    end = time.monotonic() + seconds
    while not holds():
        if real.has_ended(program) or time.monotonic() > end:
            raise RuntimeError(f"{program} did not come up: {real.tail(program)}")
        time.sleep(0.05)
