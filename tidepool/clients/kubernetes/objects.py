"""Frozen values of what Kubernetes knows: nodes, pods, budgets, leases. Quantities are whole: milli-CPUs, bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from tidepool.cluster.frozen import FrozenDict

_NOTHING: Final[FrozenDict[Any, Any]] = FrozenDict()

#: Who made a node: labels that every node of a pool of ours has.
POOL_LABEL: Final = "tidepool/pool"
STACK_LABEL: Final = "tidepool/stack"
#: Why we cordoned a node. A node that is cordoned without it was cordoned by somebody else.
REASON_ANNOTATION: Final = "tidepool/reason"

#: With this annotation a Machine of Cluster API that somebody deletes stays until it is taken away. The hook before draining
#: would not do: it is looked at for machines alone that are nodes of Kubernetes.
DELETION_HOOK: Final = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/tidepool"

Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


@dataclass(frozen=True, slots=True)
class Taint:
    """Keeps pods that do not tolerate it away."""

    key: str
    effect: Effect
    value: str = ""


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's leave to be where a taint is. ``key`` empty: every taint; ``effect`` empty: each of it."""

    key: str = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: Effect | Literal[""] = ""


@dataclass(frozen=True, slots=True)
class Resources:
    """An amount of what nodes have and pods ask for. ``extended`` is the rest by name: ``nvidia.com/gpu``."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    extended: Mapping[str, int] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True)
class Node:
    """A Node object. ``uid`` tells one from a later one of the same name."""

    name: str
    uid: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    #: Cordoned.
    unschedulable: bool
    #: The condition Ready is True.
    ready: bool
    #: Why it is what it is, in the kubelet's words or the node controller's.
    message: str
    allocatable: Resources
    created: datetime
    #: Of the machine's boot, by which one that booted again is known.
    boot_id: str = ""
    #: Why we cordoned it (annotation ``tidepool/reason``); empty where somebody else did, or nobody.
    reason: str = ""

    @property
    def takes_pods(self) -> bool:
        """Ready, not cordoned, and without a taint that keeps an ordinary pod away."""
        return (
            self.ready and not self.unschedulable and all(t.effect == "PreferNoSchedule" for t in self.taints)
        )


PodPhase = Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One match expression of a required node affinity: ``key`` In ``values``, Exists, Gt ..."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod. ``owner`` is the kind and name of its controller (``ReplicaSet/web``), empty for one that nobody remakes."""

    namespace: str
    name: str
    uid: str
    phase: PodPhase
    node: str
    labels: Mapping[str, str]
    requests: Resources
    node_selector: Mapping[str, str]
    #: Required node affinity: one of the terms must hold, each with all of its requirements. Empty: none asked for.
    affinity: tuple[tuple[Requirement, ...], ...]
    tolerations: tuple[Toleration, ...]
    owner: str
    priority: int
    created: datetime
    #: Deletion has begun, and when it is to be over.
    deleting_until: datetime | None
    #: The scheduler said that no node has room for it (condition PodScheduled False, Unschedulable), in its words.
    unschedulable: str
    #: Of the kubelet's own file system: no API removes it.
    is_static: bool = False
    is_daemon: bool = False
    #: What keeps it from being scheduled by choice (scheduling gates), or another scheduler's name than the default one.
    is_held: bool = False
    #: Its own, once it has one.
    address: str = ""
    #: Why its containers do not run, in the kubelet's words: ``ImagePullBackOff: ...``; empty while they do.
    waiting: str = ""
    #: What keeps it in the API after its end, until whoever put them there takes them away.
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def has_ended(self) -> bool:
        """Its containers ran to their end."""
        return self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace. One that ``is_ending`` takes nothing new."""

    name: str
    labels: Mapping[str, str]
    is_ending: bool = False


@dataclass(frozen=True, slots=True)
class ClusterMachine:
    """A Machine of Cluster API. ``why_not`` says in its controllers' words what keeps it from being provisioned."""

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    #: ``Pending``, ``Provisioning``, ``Provisioned``, ``Running``, ``Deleting``, ``Failed``; empty at first.
    phase: str
    addresses: tuple[str, ...] = ()
    why_not: str = ""
    is_ending: bool = False
    finalizers: tuple[str, ...] = ()
    created: datetime | None = None
    #: Whether its deletion waits for us (`DELETION_HOOK`).
    is_held: bool = False


@dataclass(frozen=True, slots=True)
class PoolMachine:
    """A machine of a converged pool, for people who look at Kubernetes alone. All are texts; ``since`` is of RFC 3339, in UTC."""

    name: str
    stack: str
    pool: str = ""
    #: ``Slurm``, ``Kubernetes``, ``None``.
    role: str = ""
    #: ``Absent``, ``Held``, ``NotReady``, ``Ready``, ``Unknown``.
    node: str = ""
    jobs: str = ""
    since: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Budget:
    """A pod disruption budget, and how many evictions it allows now."""

    namespace: str
    name: str
    selector: Mapping[str, Any]
    allowed: int


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease that a kubelet renews (namespace kube-node-lease)."""

    name: str
    holder: str
    renewed: datetime | None


@dataclass(frozen=True, slots=True)
class SigningRequest:
    """A CertificateSigningRequest. ``node`` is the one whose kubelet the certificate would be of, read from the request.

    It is empty where the request is for anything else than a kubelet's client certificate.
    """

    name: str
    requestor: str
    groups: tuple[str, ...]
    signer: str
    node: str
    is_approved: bool
    is_denied: bool
    created: datetime


@dataclass(frozen=True, slots=True)
class BootstrapToken:
    """A token by which one kubelet may ask for one certificate, until ``until``. ``secret`` is never shown."""

    id: str
    secret: str = field(repr=False)
    until: datetime
    node: str

    @property
    def text(self) -> str:
        """As a kubelet's kubeconfig has it."""
        return f"{self.id}.{self.secret}"


@dataclass(frozen=True, slots=True)
class Right:
    """A right that a credential must have: ``verb`` on ``resource`` (``pods``, ``pods/eviction``) of ``group``."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    #: The one object that it is about; empty for all of them.
    name: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        name = f" {self.name}" if self.name else ""
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}{name}{where}"


def guards(budget: Budget, pod: Pod) -> bool:
    """Return whether a pod counts for a disruption budget."""
    return budget.namespace == pod.namespace and selects(budget.selector, pod.labels)


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a label selector (``matchLabels``, ``matchExpressions``) holds for ``labels``; an empty one always does."""
    expressions = (
        Requirement(said["key"], said["operator"], tuple(said.get("values") or ()))
        for said in selector.get("matchExpressions") or ()
    )
    return all(
        labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items()
    ) and all(holds(expression, labels) for expression in expressions)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether a toleration allows to be where a taint is."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Return whether a match expression holds for ``labels``."""
    there = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return there is not None and there in requirement.values
        case "NotIn":
            return there is None or there not in requirement.values
        case "Exists":
            return there is not None
        case "DoesNotExist":
            return there is None
        case "Gt" | "Lt":
            return _compares(requirement, there)


def _compares(requirement: Requirement, there: str | None) -> bool:
    try:
        mine, bound = int(there or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return mine > bound if requirement.operator == "Gt" else mine < bound
