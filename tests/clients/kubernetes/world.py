"""The worlds in which the contract is tried: the cluster in memory, and a real control plane with kubelets of paper."""

from __future__ import annotations

import base64
import contextlib
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from tests.clients.kubernetes.pki import asked
from tests.clients.kubernetes.real import ANY, RealKubernetes, kubeconfig
from tests.simulation.kubernetes.fake import FakeKubernetes
from tidepool.clients.kubernetes.client import KubernetesApi, connect
from tidepool.clients.kubernetes.contract import (
    KUBELET_SIGNER,
    Conflict,
    KubernetesClient,
    NotFound,
    Unauthorized,
)
from tidepool.clients.kubernetes.objects import BootstrapToken, Pod, Right, Taint
from tidepool.clients.kubernetes.requests import Requests, named

#: Of its own clock in memory; by the wall in a real world, on a machine that may have other work.
_SECONDS, _REAL_SECONDS = 15.0, 60.0


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 22, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class World(Protocol):
    """A cluster, and what others than the client do in it."""

    @property
    def client(self) -> KubernetesClient: ...

    def now(self) -> datetime: ...

    def until(self, holds: Callable[[], bool]) -> None:
        """Let time pass until it holds; 15 s at most, 60 s in a real one."""
        ...

    def add_node(
        self, name: str, labels: Mapping[str, str] | None = None, taints: tuple[Taint, ...] = ()
    ) -> None:
        """One that is ready, with 2 CPUs and 1 GiB; it takes pods."""
        ...

    def add_pod(self, name: str, **said: Any) -> Pod:
        """A pod; with ``runs=True`` it has begun to run. ``cpu_milli``, ``labels``, ``owner``, ``node_selector``, ``grace_s``."""
        ...

    def add_budget(self, name: str, match_labels: Mapping[str, str], min_available: int) -> None: ...

    def ask_for_certificate(self, node: str, token: BootstrapToken) -> None:
        """What the kubelet of ``node`` does with that token."""
        ...

    def cordon_by_hand(self, name: str) -> None: ...

    def cut_off(self, name: str) -> None:
        """The kubelet of a node is gone: pods there do not end any more."""
        ...

    def told(self) -> list[tuple[str, str, str]]:
        """All Events at pods: pod, reason, message."""
        ...


class FakeWorld:
    """In memory."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.client = FakeKubernetes(self.clock)

    def now(self) -> datetime:
        return self.clock()

    def until(self, holds: Callable[[], bool]) -> None:
        for _ in range(int(_SECONDS * 10)):
            if holds():
                return
            self.clock.forward(0.1)
        raise AssertionError("it did not come to pass")

    def add_node(
        self, name: str, labels: Mapping[str, str] | None = None, taints: tuple[Taint, ...] = ()
    ) -> None:
        self.client.add_node(name, labels=labels, taints=taints)

    def add_pod(self, name: str, *, runs: bool = False, **said: Any) -> Pod:
        self.client.add_pod(name, **said)
        if runs:
            self.until(lambda: any(pod.name == name and pod.phase == "Running" for pod in self.client.pods()))
        return next(pod for pod in self.client.pods() if pod.name == name)

    def add_budget(self, name: str, match_labels: Mapping[str, str], min_available: int) -> None:
        self.client.add_budget(name, match_labels, min_available)

    def ask_for_certificate(self, node: str, token: BootstrapToken) -> None:
        self.client.request_certificate(node, f"system:bootstrap:{token.id}")

    def cordon_by_hand(self, name: str) -> None:
        self.client.alter_node(name, unschedulable=True)

    def cut_off(self, name: str) -> None:
        self.client.stop_kubelet(name)

    def told(self) -> list[tuple[str, str, str]]:
        return [(one.pod, one.reason, one.message) for one in self.client.told]


class RealWorld:
    """A real control plane. What kubelets would say is said here, whenever time passes."""

    def __init__(self, real: RealKubernetes, page: int = 500) -> None:
        self.real = real
        self._raw = real.requests()
        self.client = KubernetesApi(real.requests(page=page))
        self._cut_off: set[str] = set()
        self._numbers = itertools.count()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + _REAL_SECONDS
        while True:
            self._kubelets()
            if holds():
                return
            assert time.monotonic() < end, "it did not come to pass"
            time.sleep(0.02)

    def add_node(
        self, name: str, labels: Mapping[str, str] | None = None, taints: tuple[Taint, ...] = ()
    ) -> None:
        written = [{"key": t.key, "value": t.value, "effect": t.effect} for t in taints]
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": dict(labels or {})},
            "spec": {"taints": written},
        }
        self._raw.post("/api/v1/nodes", node, ANY)
        now = self.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "it is",
            "lastHeartbeatTime": now,
        }
        room = {"cpu": "2", "memory": "1Gi", "pods": "110"}
        status = {
            "status": {
                "conditions": [ready],
                "allocatable": room,
                "capacity": room,
                "nodeInfo": {"bootID": "b"},
            }
        }
        self._raw.patch(f"/api/v1/nodes/{name}/status", status, ANY)
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name},
            "spec": {"holderIdentity": name, "renewTime": self.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")},
        }
        self._raw.post("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", lease, ANY)
        keys = {taint.key for taint in taints}
        self.until(
            lambda: any(n.name == name and {t.key for t in n.taints} == keys for n in self.client.nodes())
        )

    def add_pod(
        self,
        name: str,
        *,
        runs: bool = False,
        cpu_milli: int = 100,
        labels: Mapping[str, str] | None = None,
        owner: str = "",
        node_selector: Mapping[str, str] | None = None,
        grace_s: int = 30,
        is_static: bool = False,
        node: str = "",
        namespace: str = "default",
        finalizers: Sequence[str] = (),
        **more: Any,
    ) -> Pod:
        assert not more, f"not of paper: {more}"
        meta: dict[str, Any] = {"name": name, "labels": dict(labels or {}), "finalizers": list(finalizers)}
        kind, _, owned_by = owner.partition("/")
        if owner:
            # Of a kind that nobody collects here, with an owner that is not there.
            meta["ownerReferences"] = [
                {
                    "apiVersion": "apps/v1",
                    "kind": kind,
                    "name": owned_by,
                    "uid": self._owner(kind, owned_by),
                    "controller": True,
                }
            ]
        if is_static:
            meta["annotations"] = {"kubernetes.io/config.mirror": "x"}
        spec: dict[str, Any] = {
            "containers": [
                {"name": "c", "image": "none", "resources": {"requests": {"cpu": f"{cpu_milli}m"}}},
            ],
            "terminationGracePeriodSeconds": int(grace_s),
            "nodeSelector": dict(node_selector or {}),
        }
        if node:
            spec["nodeName"] = node
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        self._raw.post(f"/api/v1/namespaces/{namespace}/pods", pod, ANY)
        if runs:
            self.until(lambda: any(pod.name == name and pod.phase == "Running" for pod in self.client.pods()))
        return next(pod for pod in self.client.pods() if pod.name == name)

    def add_budget(self, name: str, match_labels: Mapping[str, str], min_available: int) -> None:
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {"minAvailable": min_available, "selector": {"matchLabels": dict(match_labels)}},
        }
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        self._raw.post(path, budget, ANY)
        self.until(
            lambda: self._raw.get(f"{path}/{name}", ANY).get("status", {}).get("observedGeneration") == 1
        )

    def ask_for_certificate(self, node: str, token: BootstrapToken) -> None:
        self.bind_bootstrappers()
        self.post_request(node, self.until_known(token))

    def until_known(self, token: BootstrapToken) -> str:
        """Its kubeconfig, when the API server has heard of it and of what it may: that is a little after both were written."""
        text = kubeconfig(self.real.port, self.real.authority.pair.certificate, token=token.text)
        right = Right("create", "certificatesigningrequests", "certificates.k8s.io")
        with connect(text) as kubelet:
            until_allowed(kubelet, right)
        return text

    def add_namespace(self, name: str) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        ensure(self._raw, "/api/v1/namespaces", namespace)

    def end_namespace(self, name: str) -> None:
        """Somebody takes it away; returns when nothing can be made in it."""
        self._raw.delete(f"/api/v1/namespaces/{name}", ANY)
        path = f"/api/v1/namespaces/{name}"
        self.until(lambda: self._raw.get(path, ANY)["status"]["phase"] == "Terminating")

    def unpin(self, name: str) -> None:
        """Whoever had a finalizer at a pod takes it away."""
        self._raw.patch(f"/api/v1/namespaces/default/pods/{name}", {"metadata": {"finalizers": None}}, ANY)

    def bind_bootstrappers(self) -> None:
        """What a control plane is told once: that tokens of ours may ask for certificates."""
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "tidepool-bootstrappers"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "system:node-bootstrapper",
            },
            "subjects": [
                {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "Group",
                    "name": "system:bootstrappers:tidepool",
                }
            ],
        }
        ensure(self._raw, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)

    def post_request(self, node: str, as_whom: str, *, pem: str = "", usages: tuple[str, ...] = ()) -> str:
        """A request for a certificate, of whom a kubeconfig says."""
        request = {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": f"csr-{next(self._numbers)}-{time.time_ns()}"},
            "spec": {
                "request": base64.b64encode((pem or asked(node)).encode()).decode(),
                "signerName": KUBELET_SIGNER,
                "usages": list(usages or ("digital signature", "client auth")),
            },
        }
        kubelet = self.real.requests(as_whom)
        try:
            made = kubelet.post("/apis/certificates.k8s.io/v1/certificatesigningrequests", request, ANY)
        finally:
            kubelet.close()
        return str(made["metadata"]["name"])

    def cordon_by_hand(self, name: str) -> None:
        self._raw.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}}, ANY)

    def cut_off(self, name: str) -> None:
        self._cut_off.add(name)

    def told(self) -> list[tuple[str, str, str]]:
        def read(event: Mapping[str, Any]) -> tuple[str, str, str]:
            about = event["involvedObject"]
            return f"{about['namespace']}/{about['name']}", event["reason"], event["message"]

        listed = self._raw.listed("/api/v1/events", ANY, "Event", lambda event: event)
        return [read(event) for event in listed if event["source"].get("component") == "tidepool"]

    def clear(self) -> None:
        """Take away all that tests made."""
        self._cut_off.clear()
        for pod in self.client.pods():
            self.client.delete_pod(pod, 0)
        for node in self.client.nodes():
            self.client.delete_node(node.name)
        for request in self.client.signing_requests():
            self.client.delete_signing_request(request.name)
        for collection, kind in (
            ("/apis/policy/v1/namespaces/default/poddisruptionbudgets", "PodDisruptionBudget"),
            ("/api/v1/namespaces/default/events", "Event"),
            ("/apis/apps/v1/namespaces/default/replicasets", "ReplicaSet"),
            ("/apis/apps/v1/namespaces/default/daemonsets", "DaemonSet"),
        ):
            for name in self._raw.listed(collection, ANY, kind, lambda one: str(one["metadata"]["name"])):
                self._raw.delete(named(collection, name), ANY)
        self.client.close()
        self._raw.close()

    def _owner(self, kind: str, name: str) -> str:
        """The uid of an owner that is really there, or the garbage collector takes its pods away."""
        collection = f"/apis/apps/v1/namespaces/default/{kind.lower()}s"
        template = {
            "metadata": {"labels": {"owner": name}},
            "spec": {"containers": [{"name": "c", "image": "none"}]},
        }
        thing = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"owner": name}}, "template": template},
        }
        ensure(self._raw, collection, thing)
        return str(self._raw.get(named(collection, name), ANY)["metadata"]["uid"])

    def _kubelets(self) -> None:
        """What kubelets do: pods run as soon as they are bound, and end as soon as they are told."""
        for pod in self.client.pods():
            if not pod.node or pod.node in self._cut_off:
                continue
            path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
            try:
                if pod.deleting_until:
                    self._raw.delete(path, ANY, uid=pod.uid, grace_s=0)
                elif pod.phase == "Pending":
                    ready = {"type": "Ready", "status": "True"}
                    scheduled = {"type": "PodScheduled", "status": "True"}
                    status = {"phase": "Running", "conditions": [scheduled, ready]}
                    self._raw.patch(f"{path}/status", {"status": status}, ANY)
            except NotFound:
                continue


def ensure(raw: Requests, collection: str, thing: Mapping[str, Any]) -> None:
    """Make an object if there is none yet."""
    with contextlib.suppress(Conflict):
        raw.post(collection, thing, ANY)


def until_allowed(client: KubernetesApi, right: Right) -> None:
    """Wait until the API server knows who asks, and that it may."""
    end = time.monotonic() + 20
    while True:
        with contextlib.suppress(Unauthorized):
            if not client.missing_rights([right]):
                return
        assert time.monotonic() < end, f"it still may not {right}"
        time.sleep(0.05)


def limited(real: RealKubernetes, name: str, rules: Sequence[Mapping[str, Any]]) -> KubernetesApi:
    """A client of a user that may only what ``rules`` of a ClusterRole say, from the first of them on."""
    raw = real.requests()
    group = "/apis/rbac.authorization.k8s.io/v1"
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": list(rules),
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
    }
    ensure(raw, f"{group}/clusterroles", role)
    ensure(raw, f"{group}/clusterrolebindings", binding)
    raw.close()
    client = connect(real.kubeconfig(name))
    try:
        first = rules[0]
        until_allowed(client, Right(first["verbs"][0], first["resources"][0], first["apiGroups"][0]))
    except BaseException:
        client.close()
        raise
    return client
