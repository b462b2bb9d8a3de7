"""A Kubernetes in memory, with the promises of `contract`: for simulations, and for tests of what uses a client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Self

from tests.simulation.kubernetes.state import FakeCluster, PodEvent
from tidepool.clients.kubernetes.contract import (
    CLUSTER_API,
    KUBELET_SIGNER,
    NEEDED,
    Conflict,
    EvictionRefused,
    Forbidden,
    KubernetesError,
    NotFound,
    TimedOut,
    Unauthorized,
    Unreachable,
)
from tidepool.clients.kubernetes.objects import (
    POOL_LABEL,
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
    guards,
)
from tidepool.clients.kubernetes.pool_machines import RIGHTS
from tidepool.clients.kubernetes.signing import new_token, refuse_unless_of
from tidepool.cluster.frozen import FrozenDict

_CERTIFICATES: Final = "certificates.k8s.io"
_APPROVING: Final = (
    Right("get", "certificatesigningrequests", _CERTIFICATES),
    Right("update", "certificatesigningrequests/approval", _CERTIFICATES),
    Right("approve", "signers", _CERTIFICATES, name=KUBELET_SIGNER),
)


@dataclass(slots=True)
class FakeKubernetes(FakeCluster):
    """Nodes, pods, budgets, leases, requests and tokens in memory; kubelets, a scheduler and controllers beside them.

    Nothing happens by itself: what was to happen by ``now()`` happens when somebody looks; `next_moment` tells when
    there will be something.

    Beside the client's operations: `start_kubelet`, `stop_kubelet` and `add_node` are what machines do; `add_pod`,
    `add_budget`, `alter_node` and `request_certificate` what others do. ``api`` makes the API server ``up``, ``down``,
    ``hanging``, or not know who asks; ``denied`` holds rights that are missing. `fail` has the next call end with an
    error, `lose_answer` the next change be made and its answer be lost; ``at`` hears of every call, ``asked`` before and
    ``changed`` after a change was made, and what it raises is what the caller gets.
    """

    at: Callable[[str], None] = lambda _: None

    _failures: list[KubernetesError] = field(default_factory=list)
    _is_answer_lost: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fail(self, error: KubernetesError) -> None:
        """Have the next call end with it, and do nothing."""
        self._failures.append(error)

    def lose_answer(self) -> None:
        """Have the next change be made, and its caller not hear of it."""
        self._is_answer_lost = True

    # Looking

    def version(self) -> str:
        self._begin_call()
        return "v1.36.3"

    def missing_rights(self, rights: Iterable[Right] = NEEDED) -> tuple[Right, ...]:
        self._begin_call()
        return tuple(right for right in rights if right in self.denied)

    def nodes(self, pool: str | None = None) -> tuple[Node, ...]:
        self._begin_call(Right("list", "nodes"))
        return tuple(
            node for node in self._nodes.values() if pool is None or node.labels.get(POOL_LABEL) == pool
        )

    def node(self, name: str) -> Node | None:
        self._begin_call(Right("get", "nodes"))
        return self._nodes.get(name)

    def pods(self, node: str | None = None) -> tuple[Pod, ...]:
        self._begin_call(Right("list", "pods"))
        return tuple(self._pods.values()) if node is None else self._pods.on(node)

    def pods_in(self, namespace: str, labels: Mapping[str, str] | None = None) -> tuple[Pod, ...]:
        self._begin_call(Right("list", "pods", "", namespace))
        wanted = dict(labels or {}).items()
        return tuple(
            pod for pod in self.shown() if pod.namespace == namespace and wanted <= dict(pod.labels).items()
        )

    def namespace(self, name: str) -> Namespace | None:
        self._begin_call(Right("get", "namespaces", name=name))
        return self.namespaces.get(name)

    def cluster_machines(
        self, namespace: str, labels: Mapping[str, str] | None = None
    ) -> tuple[ClusterMachine, ...]:
        self._begin_call(Right("list", "machines", CLUSTER_API, namespace))
        if not self.has_cluster_api:
            raise NotFound("the API server knows no machines.cluster.x-k8s.io: install Cluster API")
        wanted = dict(labels or {}).items()
        return tuple(
            each
            for each in self.machines.values()
            if each.namespace == namespace and wanted <= dict(each.labels).items()
        )

    def pool_machines(self, stack: str) -> tuple[PoolMachine, ...]:
        self._begin_call(*(right for right in RIGHTS if right.verb == "list"))
        self._must_know_pool_machines()
        return tuple(each for each in self.pool_machines_there.values() if each.stack == stack)

    def _must_know_pool_machines(self) -> None:
        if not self.has_pool_machines:
            raise NotFound("the server could not find the requested resource")

    def budgets(self) -> tuple[Budget, ...]:
        self._begin_call(Right("list", "poddisruptionbudgets", "policy"))
        return tuple(map(self.counted, self._guards.values()))

    def lease(self, node: str) -> Lease | None:
        self._begin_call(Right("get", "leases", "coordination.k8s.io", "kube-node-lease"))
        kept = self._leases.get(node)
        return replace(kept, renewed=self._at) if kept and node in self._kubelets else kept

    def signing_requests(self) -> tuple[SigningRequest, ...]:
        self._begin_call(Right("list", "certificatesigningrequests", _CERTIFICATES))
        return tuple(self._requests.values())

    def close(self) -> None:
        return

    # Nodes

    def cordon(self, node: str, reason: str) -> None:
        self._begin_call(Right("get", "nodes"), Right("patch", "nodes"))
        seen = self._known(node)
        if not seen.unschedulable or seen.reason:
            self._put(replace(seen, unschedulable=True, reason=reason))
        self._changed()

    def uncordon(self, node: str) -> None:
        self._begin_call(Right("patch", "nodes"))
        self._put(replace(self._known(node), unschedulable=False, reason=""))
        self._changed()

    def label(self, node: str, labels: Mapping[str, str | None]) -> None:
        self._begin_call(Right("patch", "nodes"))
        both = {**self._known(node).labels, **labels}
        kept = FrozenDict({key: value for key, value in both.items() if value is not None})
        self._put(replace(self._known(node), labels=kept))
        self._changed()

    def delete_node(self, node: str, uid: str | None = None) -> None:
        lease = Right("delete", "leases", "coordination.k8s.io", "kube-node-lease")
        self._begin_call(Right("delete", "nodes"), lease)
        seen = self._nodes.get(node)
        if seen is not None and uid not in (None, seen.uid):
            raise Conflict(f"the node {node} is another one by now: its uid is {seen.uid}, not {uid}")
        if seen is not None:
            del self._nodes[node]
            self.log.append(("delete node", node))
            self._later(self.orphaned_s, lambda: self._orphaned(node))
            if kubelet := self._kubelets.get(node):
                self._later(self.register_s, lambda: self._register(kubelet))  # it registers again
        self._leases.pop(node, None)
        self._changed()

    # Pods

    def evict(self, pod: Pod) -> None:
        self._begin_call(Right("create", "pods/eviction"))
        seen = self._same(pod)
        if seen is not None and seen.phase == "Running" and seen.deleting_until is None:
            about = [guard.budget for guard in self._guards.values() if guards(guard.budget, seen)]
            if len(about) > 1:
                raise EvictionRefused(
                    f"{pod.key} has more than one budget: no eviction can be", about[0].name
                )
            if about and not self.counted(self._guards[f"{about[0].namespace}/{about[0].name}"]).allowed:
                raise EvictionRefused(
                    f"the budget {about[0].name} allows no eviction of {pod.key}", about[0].name
                )
        if seen is not None and seen.deleting_until is None:
            self.log.append(("evict", pod.key))
            self._delete(seen, None)
        self._changed()

    def delete_pod(self, pod: Pod, grace_s: int | None = None) -> None:
        self._begin_call(Right("delete", "pods"))
        if (seen := self._same(pod)) is not None:
            self.log.append(("delete pod", pod.key))
            self._delete(seen, grace_s)
        self._changed()

    def delete_cluster_machine(self, machine: ClusterMachine) -> None:
        self._begin_call(Right("delete", "machines", CLUSTER_API, machine.namespace))
        seen = self.machines.get((machine.namespace, machine.name))
        if seen is not None and seen.uid == machine.uid:
            self.log.append(("delete machine", f"{machine.namespace}/{machine.name}"))
            self._end_machine(seen)
        self._changed()

    def hold_cluster_machine(self, machine: ClusterMachine) -> None:
        self._hook(machine, True)

    def release_cluster_machine(self, machine: ClusterMachine) -> None:
        self._hook(machine, False)

    def _hook(self, machine: ClusterMachine, is_held: bool) -> None:
        self._begin_call(Right("patch", "machines", CLUSTER_API, machine.namespace))
        key = (machine.namespace, machine.name)
        seen = self.machines.get(key)
        if seen is not None and seen.uid == machine.uid:
            self.machines[key] = replace(seen, is_held=is_held)
            if seen.is_ending:
                self._end_machine(self.machines[key])
        self._changed()

    def put_pool_machine(self, machine: PoolMachine) -> None:
        self._begin_call(*(right for right in RIGHTS if right.verb == "patch"))
        self._must_know_pool_machines()
        self.pool_machines_there[machine.name] = machine
        self._changed()

    def delete_pool_machine(self, name: str) -> None:
        self._begin_call(*(right for right in RIGHTS if right.verb == "delete"))
        self.pool_machines_there.pop(name, None)
        self._changed()

    def tell(self, pod: Pod, reason: str, message: str) -> None:
        self._begin_call(Right("create", "events"))
        self.told.append(PodEvent(pod.key, pod.uid, reason, message))
        self._changed()

    # Joining

    def create_token(self, node: str, until: datetime, token_id: str = "") -> BootstrapToken:
        self._begin_call(Right("create", "secrets", "", "kube-system"))
        token = new_token(node, until, token_id)
        self._tokens[token.id] = token
        self._changed()
        return token

    def delete_token(self, token_id: str) -> None:
        self._begin_call(Right("delete", "secrets", "", "kube-system"))
        self._tokens.pop(token_id, None)
        self._changed()

    def approve(self, request: SigningRequest, node: str, token_id: str) -> None:
        self._begin_call(*_APPROVING)
        seen = self._requests.get(request.name)
        if seen is None:
            raise NotFound(f"there is no request {request.name}")
        refuse_unless_of(seen, node, token_id)
        self._requests[seen.name] = replace(seen, is_approved=True)
        self._changed()

    def delete_signing_request(self, name: str) -> None:
        self._begin_call(Right("delete", "certificatesigningrequests", _CERTIFICATES))
        self._requests.pop(name, None)
        self._changed()

    # What goes wrong

    def _known(self, name: str) -> Node:
        if name not in self._nodes:
            raise NotFound(f"there is no node {name}")
        return self._nodes[name]

    def _begin_call(self, *rights: Right) -> None:
        self.settle()
        self.at("asked")
        if self._failures:
            raise self._failures.pop(0)
        match self.api:
            case "down":
                raise Unreachable("the API server does not answer: connection refused")
            case "hanging":
                raise TimedOut("the API server does not answer within 15 s")
            case "unauthorized":
                raise Unauthorized("the API server does not know who asks")
        for right in rights:
            if right in self.denied:
                raise Forbidden(f"the credential may not {right}", str(right))

    def _changed(self) -> None:
        self._is_stirred = True
        self.settle()
        self.at("changed")
        if self._is_answer_lost:
            self._is_answer_lost = False
            raise TimedOut("no answer came: it may have been made")
