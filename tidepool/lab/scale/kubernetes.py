"""`SimulatedKubernetes`: etcd, the API server and a scheduler as they are, with nodes that kwok plays: no process runs on them."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import urlencode

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tidepool.clients.kubernetes.contract import KubernetesError
from tidepool.clients.kubernetes.exchange import Exchange
from tidepool.clients.kubernetes.kubeconfig import read_kubeconfig
from tidepool.lab.errors import SchedulerFailed
from tidepool.lab.scale import kubernetes_objects as objects
from tidepool.lab.scale.cluster import Times, Waits, alive, pids_of, spawn, wait_for
from tidepool.lab.scale.kubernetes_watch import PodTimes
from tidepool.lab.scale.namespaces import ADDRESS, FOLDER
from tidepool.lab.scale.plan import Choice
from tidepool.lab.schedulers.kubernetes.definitions import definitions
from tidepool.toolchain import KUBERNETES, KWOK, VOLCANO, Module, ToolchainError, find

_KUBECONFIG: Final = FOLDER / "kubeconfig"
_ETCD: Final = "http://127.0.0.1:2379"
_API_PORT: Final = 6443
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_GROUPS: Final = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{objects.NAMESPACE}/podgroups"
_QUEUE: Final = "/apis/scheduling.volcano.sh/v1beta1/queues/default"
#: More than can be used: that a program asks seldom is a setting, not what its scheduling takes.
_NO_LIMITS: Final = ("--kube-api-qps=5000", "--kube-api-burst=10000")
_SCHEDULER_CONF: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
#: That of queues, and that which makes groups of pods. Those of flows wait for ever for kinds that are not defined here.
_CONTROLLERS: Final = "+queue-controller,+pg-controller"
_CONNECTIONS: Final = 8
_ANSWER_S: Final = 60.0
_PAGE: Final = 500


def _private_key() -> bytes:
    """Return a new key, by which the API server signs tokens of accounts."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _modules(choice: Choice) -> Sequence[Module]:
    return (KUBERNETES, KWOK, *((VOLCANO,) if choice.volcano else ()))


def lacking(choice: Choice) -> tuple[str, ...]:
    """Return what is not built here, each with the target of make that builds it."""
    found = []
    for module in _modules(choice):
        try:
            find(os.environ, module)
        except ToolchainError as error:
            found.append(str(error))
    return tuple(found)


class SimulatedKubernetes:
    """A `SimulatedCluster`; in `namespaces` of its own."""

    def __init__(self, nodes: int, choice: Choice, waits: Waits) -> None:
        self._nodes = nodes
        self._choice = choice
        self._waits = waits
        self._tools = {module.name: find(os.environ, module) for module in _modules(choice)}
        self._scheduler = "volcano" if choice.volcano else "default-scheduler"
        self._queued = 0
        self._bursts = 0
        self._api: Exchange
        self._times: PodTimes

    def start(self) -> None:
        self._start_api()
        with ThreadPoolExecutor(_CONNECTIONS) as several:
            list(
                several.map(
                    lambda number: self._ask("POST", objects.NODES, objects.node(number)),
                    range(self._nodes + 1),
                )
            )
        kwok = (
            "--manage-all-nodes=true",
            f"--node-ip={ADDRESS}",
            "--cidr=10.0.0.0/8",
            "--server-address=127.0.0.1:10247",
        )
        self._spawn("kwok", "kwok", f"--kubeconfig={_KUBECONFIG}", *kwok)
        self._start_scheduler()
        wait_for(
            self.ready,
            lambda ready: ready == self._nodes,
            self._waits.ready_s,
            f"{self._nodes} nodes are ready",
            0.3,
        )
        self._watch()
        self._make_pods("taken", 1, objects.FULL)
        wait_for(self._is_full, bool, 60, "the full node is taken", 0.1)

    def ready(self) -> int:
        things = self._pages(objects.NODES, labelSelector=f"{objects.LABEL}={objects.MANY}")
        return sum(map(objects.is_ready, things))

    def queue(self, count: int) -> None:
        if count > self._queued:
            self._make_pods(f"waits-{self._queued}", count - self._queued, objects.FULL)
            self._queued = count

    def launch(self, count: int) -> Sequence[Times]:
        self._bursts += 1
        submitted = self._make_pods(f"job-{self._bursts}", count, objects.MANY)
        names, limit_s = submitted.keys(), self._waits.launch_s
        self._wait(lambda: self._times.running.keys() & names, len(names), limit_s, f"{count} pods run")
        found = [
            Times(at_s, self._times.decided[name], self._times.running[name])
            for name, at_s in submitted.items()
        ]
        which = urlencode({"labelSelector": f"{objects.LABEL}={objects.MANY}", "gracePeriodSeconds": 0})
        self._ask("DELETE", f"{objects.PODS}?{which}")
        self._wait(lambda: self._times.gone & names, len(names), limit_s, f"{count} pods are gone")
        if self._choice.volcano:
            self._delete_groups()
        return found

    def scheduler_pids(self) -> Iterable[int]:
        return pids_of("etcd", "kube-apiserver", "kube-scheduler", "vc-scheduler", "vc-controllers")

    def node_pids(self) -> Iterable[int]:
        return pids_of("kwok")

    def versions(self) -> Mapping[str, str]:
        return {name: tools.version for name, tools in self._tools.items()}

    def settings(self) -> Mapping[str, str]:
        limits = {} if self._choice.has_limits else dict(flag.lstrip("-").split("=") for flag in _NO_LIMITS)
        return {**limits, "etcd": "on tmpfs", "kwok": "stages pod-fast, node-fast"}

    def _start_api(self) -> None:
        etcd = (f"--listen-client-urls={_ETCD}", f"--advertise-client-urls={_ETCD}", "--log-level=error")
        peer = ("--listen-peer-urls=http://127.0.0.1:2380",)
        self._spawn("kubernetes", "etcd", f"--data-dir={FOLDER}/etcd", *etcd, *peer)
        token = secrets.token_hex(16)
        tokens = FOLDER / "tokens.csv"
        tokens.touch(0o600)
        tokens.write_text(f"{token},scale,scale,system:masters\n")
        accounts = FOLDER / "accounts.key"
        accounts.touch(0o600)
        accounts.write_bytes(_private_key())
        log = FOLDER / "kube-apiserver.log"
        server = self._spawn(
            "kubernetes",
            "kube-apiserver",
            *(f"--etcd-servers={_ETCD}", f"--bind-address={ADDRESS}", f"--advertise-address={ADDRESS}"),
            *(
                f"--secure-port={_API_PORT}",
                f"--cert-dir={FOLDER}/certificates",
                f"--token-auth-file={tokens}",
            ),
            *(f"--service-account-key-file={accounts}", f"--service-account-signing-key-file={accounts}"),
            *("--service-account-issuer=https://scale", "--service-cluster-ip-range=10.96.0.0/16"),
            # No controllers run: none would give pods their accounts, nor take away what marks nodes as new.
            *(
                "--authorization-mode=RBAC",
                "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            ),
            "--endpoint-reconciler-type=none",
        )
        certificate = FOLDER / "certificates" / "apiserver.crt"

        def is_written() -> bool:
            alive(server, log)
            return certificate.exists()

        wait_for(is_written, bool, 60, "the API server has its certificate", 0.05)
        way = objects.kubeconfig(f"https://{ADDRESS}:{_API_PORT}", str(certificate), token)
        _KUBECONFIG.touch(0o600)
        _KUBECONFIG.write_text(json.dumps(way))
        self._api = Exchange(read_kubeconfig(_KUBECONFIG.read_text()), timeout_s=_ANSWER_S)

        def answers() -> bool:
            alive(server, log)
            try:
                return self._api.ask("GET", "/readyz").status == 200
            except KubernetesError:
                return False

        wait_for(answers, bool, 120, "the API server is ready", 0.1)

    def _start_scheduler(self) -> None:
        limits = () if self._choice.has_limits else _NO_LIMITS
        common = (f"--kubeconfig={_KUBECONFIG}", "--leader-elect=false", *limits)
        if not self._choice.volcano:
            self._spawn("kubernetes", "kube-scheduler", *common, "--bind-address=127.0.0.1")
            return
        for definition in definitions(self._tools["volcano"]):
            self._ask("POST", _DEFINITIONS, definition)
        conf = FOLDER / "volcano-scheduler.conf"
        conf.write_text(_SCHEDULER_CONF)
        wait_for(
            lambda: self._api.ask("GET", _GROUPS).status,
            lambda status: status == 200,
            60,
            "Volcano's kinds",
            0.1,
        )
        self._spawn("volcano", "vc-controllers", *common, f"--controllers={_CONTROLLERS}")
        self._spawn("volcano", "vc-scheduler", *common, f"--scheduler-conf={conf}", "--cache-dumper=false")
        wait_for(self._queue_state, lambda state: state == "Open", 60, "Volcano's queue is open", 0.1)

    def _queue_state(self) -> str:
        answer = self._api.ask("GET", _QUEUE)
        return (
            str(json.loads(answer.body).get("status", {}).get("state"))
            if answer.status == 200
            else "not there"
        )

    def _watch(self) -> None:
        version = json.loads(self._ask("GET", f"{objects.PODS}?limit=1"))["metadata"]["resourceVersion"]
        self._times = PodTimes(self._api, objects.PODS, f"{objects.LABEL}={objects.MANY}", version)

    def _wait(self, seen: Callable[[], set[str]], count: int, limit_s: float, what: str) -> None:
        def number() -> int:
            self._times.check()
            return len(seen())

        wait_for(number, lambda there: there == count, limit_s, what)

    def _is_full(self) -> bool:
        thing = json.loads(self._ask("GET", f"{objects.PODS}/taken-0"))
        return bool(thing["spec"].get("nodeName"))

    def _make_pods(self, prefix: str, count: int, value: str) -> Mapping[str, float]:
        """Make pods side by side; returns by name when each began to be."""

        def make(number: int) -> tuple[str, float]:
            name = f"{prefix}-{number}"
            at_s = time.time()
            self._ask("POST", objects.PODS, objects.pod(name, value, self._scheduler))
            return name, at_s

        with ThreadPoolExecutor(_CONNECTIONS) as several:
            return dict(several.map(make, range(count)))

    def _delete_groups(self) -> None:
        """Take away what Volcano made for pods that are gone: the collector of garbage is one of the controllers that do not run."""
        for group in self._pages(_GROUPS):
            owners = {owner["name"] for owner in group["metadata"].get("ownerReferences", ())}
            if owners & self._times.gone:
                self._ask("DELETE", f"{_GROUPS}/{group['metadata']['name']}")

    def _pages(self, collection: str, **asked: str) -> Sequence[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        more = ""
        while True:
            query = urlencode({**asked, "limit": _PAGE, **({"continue": more} if more else {})})
            page = json.loads(self._ask("GET", f"{collection}?{query}"))
            found += page["items"]
            more = page["metadata"].get("continue", "")
            if not more:
                return found

    def _ask(self, method: str, path: str, thing: Mapping[str, Any] | None = None) -> bytes:
        body = json.dumps(thing).encode() if thing else b""
        content = "application/json" if thing else ""
        try:
            answer = self._api.ask(method, path, body, content=content, changes=method != "GET")
        except KubernetesError as error:
            raise SchedulerFailed(str(error)) from error
        if not 200 <= answer.status < 300:
            raise SchedulerFailed(
                f"{method} {path}: {answer.status}: {answer.body.decode(errors='replace')[:500]}"
            )
        return answer.body

    def _spawn(self, module: str, program: str, *flags: str) -> subprocess.Popen[bytes]:
        environment = {"PATH": os.environ["PATH"], "HOME": str(FOLDER)}
        return spawn((str(self._tools[module].path(program)), *flags), FOLDER / f"{program}.log", environment)
