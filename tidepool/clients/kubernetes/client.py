"""The client of Kubernetes over HTTP: what `contract` promises, by the API's own objects."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from tidepool.clients.kubernetes import pool_machines, reading
from tidepool.clients.kubernetes.contract import (
    BOOTSTRAPPERS,
    CLUSTER_API,
    NEEDED,
    Conflict,
    Malformed,
    NotFound,
)
from tidepool.clients.kubernetes.exchange import Dial, Exchange, dial_here
from tidepool.clients.kubernetes.kubeconfig import read_kubeconfig
from tidepool.clients.kubernetes.objects import (
    DELETION_HOOK,
    POOL_LABEL,
    REASON_ANNOTATION,
    STACK_LABEL,
    BootstrapToken,
    Budget,
    ClusterMachine,
    Lease,
    Namespace,
    Node,
    Pod,
    PoolMachine,
    Right,
    SigningRequest,
)
from tidepool.clients.kubernetes.requests import Json, Requests, named
from tidepool.clients.kubernetes.signing import new_token, refuse_unless_of, signing_request

_NODES: Final = "/api/v1/nodes"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_REQUESTS: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_SECRETS: Final = "/api/v1/namespaces/kube-system/secrets"
_MACHINES: Final = f"/apis/{CLUSTER_API}/v1beta2"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
#: So many reviews at once: together they take as long as a few.
_AT_ONCE: Final = 6
_TRIES: Final = 5

_LIST_PODS: Final = Right("list", "pods")
_PATCH_NODES: Final = Right("patch", "nodes")
_APPROVE: Final = Right("update", "certificatesigningrequests/approval", "certificates.k8s.io")


def connect(
    kubeconfig: str, *, folder: Path = Path(), dial: Dial = dial_here, timeout_s: float = 15.0
) -> KubernetesApi:
    """A client of the API server that the current context of a kubeconfig's text names. Nothing is asked yet.

    ``folder`` is where relative paths in it begin; ``dial`` opens connections, where the server is not reached from here.
    Each request has its answer within ``timeout_s``, or ends.

    Raises:
        ValueError: the kubeconfig is none, or leads nowhere safe; says what.
    """
    return KubernetesApi(Requests(Exchange(read_kubeconfig(kubeconfig, folder), dial, timeout_s)))


class KubernetesApi:
    """A `KubernetesClient` over HTTP, for several threads at once."""

    def __init__(self, requests: Requests) -> None:
        self._api = requests
        self.where = requests.where

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._api.close()

    # Looking

    def version(self) -> str:
        said = self._api.get("/version", Right("get", "/version")).get("gitVersion")
        if not isinstance(said, str) or not said:
            raise Malformed(f"{self.where} does not tell its version: see whether it is an API server")
        return said

    def missing_rights(self, rights: Iterable[Right] = NEEDED) -> tuple[Right, ...]:
        wanted = tuple(rights)
        with ThreadPoolExecutor(_AT_ONCE, "rights") as threads:
            allowed = tuple(threads.map(self._may, wanted))
        return tuple(right for right, may in zip(wanted, allowed, strict=True) if not may)

    def nodes(self, pool: str | None = None) -> tuple[Node, ...]:
        only = {} if pool is None else {"labelSelector": f"{POOL_LABEL}={pool}"}
        return self._api.listed(_NODES, Right("list", "nodes"), "Node", reading.node, only)

    def node(self, name: str) -> Node | None:
        return self._api.one(named(_NODES, name), Right("get", "nodes"), "Node", reading.node)

    def pods(self, node: str | None = None) -> tuple[Pod, ...]:
        only = {} if node is None else {"fieldSelector": f"spec.nodeName={node}"}
        return self._api.listed("/api/v1/pods", _LIST_PODS, "Pod", reading.pod, only)

    def pods_in(self, namespace: str, labels: Mapping[str, str] | None = None) -> tuple[Pod, ...]:
        right = Right("list", "pods", "", namespace)
        return self._api.listed(_in("/api/v1", namespace, "pods"), right, "Pod", reading.pod, _with(labels))

    def namespace(self, name: str) -> Namespace | None:
        right = Right("get", "namespaces", name=name)
        return self._api.one(named("/api/v1/namespaces", name), right, "Namespace", reading.namespace)

    def cluster_machines(
        self, namespace: str, labels: Mapping[str, str] | None = None
    ) -> tuple[ClusterMachine, ...]:
        right = Right("list", "machines", CLUSTER_API, namespace)
        path = _in(_MACHINES, namespace, "machines")
        return self._api.listed(path, right, "Machine", reading.cluster_machine, _with(labels))

    def pool_machines(self, stack: str) -> tuple[PoolMachine, ...]:
        right = Right("list", pool_machines.PLURAL, pool_machines.GROUP)
        labels = _with({STACK_LABEL: stack})
        read = pool_machines.read_pool_machine
        return self._api.listed(pool_machines.PATH, right, pool_machines.KIND, read, labels)

    def budgets(self) -> tuple[Budget, ...]:
        right = Right("list", "poddisruptionbudgets", "policy")
        path = "/apis/policy/v1/poddisruptionbudgets"
        return self._api.listed(path, right, "PodDisruptionBudget", reading.budget)

    def lease(self, node: str) -> Lease | None:
        right = Right("get", "leases", "coordination.k8s.io", "kube-node-lease")
        return self._api.one(named(_LEASES, node), right, "Lease", reading.lease)

    def signing_requests(self) -> tuple[SigningRequest, ...]:
        right = Right("list", "certificatesigningrequests", "certificates.k8s.io")
        return self._api.listed(_REQUESTS, right, "CertificateSigningRequest", signing_request)

    # Nodes

    def cordon(self, node: str, reason: str) -> None:
        def change(seen: Json) -> Json | None:
            there = self._api.read(_PATCH_NODES, reading.node, seen)
            if there.unschedulable and there.reason in ("", reason):
                return None
            return {"spec": {"unschedulable": True}, "metadata": {"annotations": {REASON_ANNOTATION: reason}}}

        self._api.alter(named(_NODES, node), _PATCH_NODES, "Node", change)

    def uncordon(self, node: str) -> None:
        changes = {"spec": {"unschedulable": None}, "metadata": {"annotations": {REASON_ANNOTATION: None}}}
        self._api.patch(named(_NODES, node), changes, _PATCH_NODES)

    def label(self, node: str, labels: Mapping[str, str | None]) -> None:
        self._api.patch(named(_NODES, node), {"metadata": {"labels": dict(labels)}}, _PATCH_NODES)

    def delete_node(self, node: str, uid: str | None = None) -> None:
        self._api.delete(named(_NODES, node), Right("delete", "nodes"), uid=uid)
        lease = Right("delete", "leases", "coordination.k8s.io", "kube-node-lease")
        self._api.delete(named(_LEASES, node), lease)

    # Pods

    def evict(self, pod: Pod) -> None:
        asked = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        try:
            self._api.post(f"{_path(pod)}/eviction", asked, Right("create", "pods/eviction"))
        except NotFound:
            return
        except Conflict:
            self._unless_another(pod)

    def delete_pod(self, pod: Pod, grace_s: int | None = None) -> None:
        try:
            self._api.delete(_path(pod), Right("delete", "pods"), uid=pod.uid, grace_s=grace_s)
        except Conflict:
            self._unless_another(pod)

    def delete_cluster_machine(self, machine: ClusterMachine) -> None:
        right = Right("delete", "machines", CLUSTER_API, machine.namespace)
        path = named(_in(_MACHINES, machine.namespace, "machines"), machine.name)
        # One of another uid has only its name.
        with contextlib.suppress(Conflict):
            self._api.delete(path, right, uid=machine.uid)

    def hold_cluster_machine(self, machine: ClusterMachine) -> None:
        self._hook(machine, "tidepool")

    def release_cluster_machine(self, machine: ClusterMachine) -> None:
        self._hook(machine, None)

    def _hook(self, machine: ClusterMachine, owner: str | None) -> None:
        right = Right("patch", "machines", CLUSTER_API, machine.namespace)
        path = named(_in(_MACHINES, machine.namespace, "machines"), machine.name)

        def change(seen: Json) -> Json | None:
            there = self._api.read(right, reading.cluster_machine, seen)
            # One of another uid has only its name.
            if there.uid != machine.uid or there.is_held == bool(owner):
                return None
            return {"metadata": {"annotations": {DELETION_HOOK: owner}}}

        with contextlib.suppress(NotFound):
            self._api.alter(path, right, "Machine", change)

    def put_pool_machine(self, machine: PoolMachine) -> None:
        right = Right("patch", pool_machines.PLURAL, pool_machines.GROUP)
        self._api.apply(named(pool_machines.PATH, machine.name), pool_machines.body_of(machine), right)

    def delete_pool_machine(self, name: str) -> None:
        right = Right("delete", pool_machines.PLURAL, pool_machines.GROUP)
        self._api.delete(named(pool_machines.PATH, name), right)

    def tell(self, pod: Pod, reason: str, message: str) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{pod.name[:230]}.{secrets.token_hex(8)}", "namespace": pod.namespace},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid,
            },
            "type": "Warning",
            "reason": reason,
            # More is refused.
            "message": message[:1024],
            "source": {"component": "tidepool"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }  # fmt: skip
        with contextlib.suppress(NotFound):
            self._api.post(f"/api/v1/namespaces/{pod.namespace}/events", event, Right("create", "events"))

    # Joining

    def create_token(self, node: str, until: datetime, token_id: str = "") -> BootstrapToken:
        token = new_token(node, until, token_id)
        right = Right("create", "secrets", "", "kube-system")
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": _secret(token.id), "labels": {"tidepool/node": node}},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": token.id,
                "token-secret": token.secret,
                "description": f"for the kubelet of {node}, by tidepool",
                "expiration": until.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "usage-bootstrap-authentication": "true",
                "auth-extra-groups": BOOTSTRAPPERS,
            },
        }
        if token_id:
            self.delete_token(token_id)
        self._api.post(_SECRETS, secret, right)
        return token

    def delete_token(self, token_id: str) -> None:
        self._api.delete(named(_SECRETS, _secret(token_id)), Right("delete", "secrets", "", "kube-system"))

    def approve(self, request: SigningRequest, node: str, token_id: str) -> None:
        path = named(_REQUESTS, request.name)
        for _ in range(_TRIES):
            # What is approved is what is read here: nothing can come between, by its version.
            read = self._api.get(path, Right("get", "certificatesigningrequests", "certificates.k8s.io"))
            seen = self._api.read(_APPROVE, signing_request, read)
            refuse_unless_of(seen, node, token_id)
            if seen.is_approved:
                return
            condition = {
                "type": "Approved",
                "status": "True",
                "reason": "Tidepool",
                "message": f"the kubelet of {node} asks for it with the token that was made for it",
            }
            status = dict(read.get("status") or {})
            status["conditions"] = [*(status.get("conditions") or ()), condition]
            try:
                self._api.put(f"{path}/approval", {**read, "status": status}, _APPROVE)
            except Conflict:
                continue
            return
        raise Conflict(f"{self.where}: others change the request {request.name} all the time")

    def delete_signing_request(self, name: str) -> None:
        right = Right("delete", "certificatesigningrequests", "certificates.k8s.io")
        self._api.delete(named(_REQUESTS, name), right)

    def _may(self, right: Right) -> bool:
        resource, _, part = right.resource.partition("/")
        attributes = {
            "verb": right.verb, "resource": resource, "subresource": part, "group": right.group,
            "namespace": right.namespace, "name": right.name,
        }  # fmt: skip
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        asked = Right("create", "selfsubjectaccessreviews", "authorization.k8s.io")
        status = self._api.post(_REVIEWS, review, asked, changes=False).get("status")
        allowed = status.get("allowed") if isinstance(status, dict) else None
        if not isinstance(allowed, bool):
            raise Malformed(f"{self.where} does not tell whether the credential may {right}")
        return allowed

    def _unless_another(self, pod: Pod) -> None:
        """A conflict is none where the pod is gone, or another one has its name; else it is raised again."""
        seen = self._api.one(_path(pod), Right("get", "pods"), "Pod", reading.pod)
        if seen is not None and seen.uid == pod.uid:
            raise Conflict(f"{self.where}: the pod {pod.key} was changed meanwhile; ask again")


def _in(group: str, namespace: str, resource: str) -> str:
    return f"{named(f'{group}/namespaces', namespace)}/{resource}"


def _with(labels: Mapping[str, str] | None) -> dict[str, str]:
    """Return the query that selects objects with all these labels."""
    told = ",".join(f"{key}={value}" for key, value in (labels or {}).items())
    return {"labelSelector": told} if told else {}


def _path(pod: Pod) -> str:
    return named(named("/api/v1/namespaces", pod.namespace) + "/pods", pod.name)


def _secret(token_id: str) -> str:
    return f"bootstrap-token-{token_id}"
