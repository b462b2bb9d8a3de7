"""Events in the fake without a client: machines' kubelets ask, register, and are missed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from tests.simulation.kubernetes.pods import FakePods
from tidepool.clients.kubernetes.contract import BOOTSTRAPPERS, KUBELET_SIGNER
from tidepool.clients.kubernetes.objects import (
    BootstrapToken,
    ClusterMachine,
    Lease,
    Namespace,
    Node,
    Pod,
    PoolMachine,
    Resources,
    Right,
    SigningRequest,
    Taint,
)
from tidepool.cluster.frozen import FrozenDict

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = Taint("node.kubernetes.io/unschedulable", "NoSchedule")


@dataclass(frozen=True, slots=True)
class PodEvent:
    """An Event at a pod."""

    pod: str
    uid: str
    reason: str
    message: str


@dataclass(slots=True)
class Kubelet:
    """One of a machine. With a certificate it needs no token any more."""

    name: str
    token: str
    labels: Mapping[str, str]
    allocatable: Resources
    taints: tuple[Taint, ...] = ()
    has_certificate: bool = False
    runs: bool = True


@dataclass(slots=True)
class FakeCluster(FakePods):
    """The cluster in memory, and what comes to pass in it by itself. See `FakeKubernetes`."""

    #: How long a kubelet takes to register, and then to be Ready.
    register_s: float = 0.5
    ready_s: float = 0.3
    #: After how long a node whose kubelet is gone is not Ready.
    grace_period_s: float = 12.0

    api: Literal["up", "down", "hanging", "unauthorized"] = "up"
    #: What the credential is not allowed to.
    denied: set[Right] = field(default_factory=set)
    #: All Events, in order.
    told: list[PodEvent] = field(default_factory=list)
    #: Names of nodes and keys of pods that were taken away by a client, in order, with how.
    log: list[tuple[str, str]] = field(default_factory=list)

    namespaces: dict[str, Namespace] = field(
        default_factory=lambda: {"default": Namespace("default", FrozenDict())}
    )
    #: Machines of Cluster API by namespace and name, and whether the API server knows such.
    machines: dict[tuple[str, str], ClusterMachine] = field(default_factory=dict)
    has_cluster_api: bool = True
    #: What was written of machines of pools, by their names, and whether the API server knows such.
    pool_machines_there: dict[str, PoolMachine] = field(default_factory=dict)
    has_pool_machines: bool = True

    _leases: dict[str, Lease] = field(default_factory=dict)
    _requests: dict[str, SigningRequest] = field(default_factory=dict)
    _tokens: dict[str, BootstrapToken] = field(default_factory=dict)
    _kubelets: dict[str, Kubelet] = field(default_factory=dict)

    def start_kubelet(
        self,
        name: str,
        token: str = "",
        *,
        labels: Mapping[str, str] | None = None,
        cpus: int = 2,
        memory_mib: int = 1024,
        extended: Mapping[str, int] | None = None,
        taints: tuple[Taint, ...] = (),
        has_certificate: bool = False,
    ) -> None:
        """A machine starts its kubelet, with a bootstrap token's text, or a certificate that it has already."""
        self.settle()
        room = Resources(cpus * 1000, memory_mib * 2**20, FrozenDict(extended or {}))
        kubelet = Kubelet(name, token, FrozenDict(labels or {}), room, taints, has_certificate)
        self._kubelets[name] = kubelet
        self._running.add(name)
        self._later(0, lambda: self._bootstrap(kubelet))
        self.settle()

    def stop_kubelet(self, name: str) -> None:
        """It is gone, and its machine with it or not; nobody tells the API."""
        self.settle()
        if kubelet := self._kubelets.pop(name, None):
            kubelet.runs = False
            self._running.discard(name)
            self._later(self.grace_period_s, lambda: self._missed(name))

    def add_node(self, name: str, **kubelet: Any) -> Node:
        """A node that serves at once, with a kubelet as `start_kubelet` describes it."""
        self.start_kubelet(name, has_certificate=True, **kubelet)
        self._register(self._kubelets[name])
        self._ready(self._kubelets[name])
        self.settle()
        return self._nodes[name]

    def alter_node(self, name: str, **changes: Any) -> None:
        """Change what somebody else may: ``unschedulable``, ``labels``, ``taints``."""
        self.settle()
        self._put(replace(self._nodes[name], **changes))
        self.settle()

    def add_cluster_machine(
        self, name: str, namespace: str = "default", *, labels: Mapping[str, str] | None = None, **more: Any
    ) -> ClusterMachine:
        """Somebody makes a Machine of Cluster API; ``more``: ``phase``, ``addresses``, ``why_not``, ``finalizers``."""
        self.settle()
        machine = ClusterMachine(
            namespace, name, f"uid-{next(self._numbers)}", FrozenDict(labels or {}), more.pop("phase", "Provisioned")
        )  # fmt: skip
        self.machines[(namespace, name)] = replace(machine, **more)
        return self.machines[(namespace, name)]

    def _end_machine(self, machine: ClusterMachine) -> None:
        """Its controllers take away what it stands for; with a hook, or finalizers of others, it stays."""
        if machine.finalizers or machine.is_held:
            self.machines[(machine.namespace, machine.name)] = replace(
                machine, is_ending=True, phase="Deleting"
            )
        else:
            del self.machines[(machine.namespace, machine.name)]

    def all_nodes(self) -> tuple[Node, ...]:
        """All of them as they are in truth, whether the API answers or not."""
        self.settle()
        return tuple(self._nodes.values())

    def all_pods(self) -> tuple[Pod, ...]:
        """The same of pods."""
        self.settle()
        return tuple(self._pods.values())

    def containers(self, node: str) -> frozenset[str]:
        """The uids of the pods whose containers run on a machine, whatever the API says."""
        self.settle()
        return frozenset(self._containers.get(node, ()))

    def wipe(self, node: str) -> None:
        """The machine ends all containers, as it does when it loses its role."""
        self.settle()
        self._containers.pop(node, None)

    def _bootstrap(self, kubelet: Kubelet) -> None:
        if not kubelet.runs:
            return
        if kubelet.has_certificate:
            self._later(self.register_s, lambda: self._register(kubelet))
            return
        token = self._tokens.get(kubelet.token.partition(".")[0])
        if token is None or token.text != kubelet.token or token.until <= self._at:
            self._later(1.0, lambda: self._bootstrap(kubelet))  # it knocks until it is let in
            return
        name = self.request_certificate(kubelet.name, requestor=f"system:bootstrap:{token.id}")
        self._later(0.05, lambda: self._signed(kubelet, name))

    def request_certificate(self, node: str, requestor: str, signer: str = KUBELET_SIGNER) -> str:
        """Somebody asks for a certificate; gives the request's name."""
        name = f"node-csr-{next(self._numbers)}"
        groups = ("system:bootstrappers", BOOTSTRAPPERS, "system:authenticated")
        self._requests[name] = SigningRequest(name, requestor, groups, signer, node, False, False, self._at)
        return name

    def _signed(self, kubelet: Kubelet, request: str) -> None:
        if not kubelet.runs:
            return
        seen = self._requests.get(request)
        if seen is not None and seen.is_approved:
            kubelet.has_certificate = True
            self._later(self.register_s, lambda: self._register(kubelet))
        elif seen is None:
            self._bootstrap(kubelet)
        else:
            self._later(0.05, lambda: self._signed(kubelet, request))

    def _register(self, kubelet: Kubelet) -> None:
        if not kubelet.runs:
            return
        there = self._nodes.get(kubelet.name)
        if there is None:
            taints = (*kubelet.taints, Taint(NOT_READY, "NoSchedule"))
            there = Node(
                kubelet.name, f"uid-{next(self._numbers)}", kubelet.labels, taints, False, False,
                "container runtime network not ready", kubelet.allocatable, self._at, boot_id="fake",
            )  # fmt: skip
        self._put(there)
        self._leases[kubelet.name] = Lease(kubelet.name, kubelet.name, self._at)
        for pod in self._pods.on(kubelet.name):
            self._take_up(pod)
        self._later(self.ready_s, lambda: self._ready(kubelet))

    def _ready(self, kubelet: Kubelet) -> None:
        node = self._nodes.get(kubelet.name)
        if kubelet.runs and node is not None:
            taints = tuple(taint for taint in node.taints if taint.key not in (NOT_READY, UNREACHABLE))
            self._put(replace(node, ready=True, message="kubelet is posting ready status", taints=taints))

    def _missed(self, name: str) -> None:
        node = self._nodes.get(name)
        if name not in self._kubelets and node is not None and node.ready:
            taints = (*node.taints, Taint(UNREACHABLE, "NoSchedule"))
            self._put(
                replace(node, ready=False, message="Kubelet stopped posting node status.", taints=taints)
            )

    def _put(self, node: Node) -> None:
        """Keep it, with the taint of a cordon where it is cordoned."""
        taints = tuple(taint for taint in node.taints if taint != UNSCHEDULABLE)
        self._nodes[node.name] = replace(
            node, taints=(*taints, UNSCHEDULABLE) if node.unschedulable else taints
        )
        self._is_stirred = True
