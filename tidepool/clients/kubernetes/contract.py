"""Contract of a client of Kubernetes, and its errors.

`KubernetesApi` does it over HTTP, `FakeKubernetes` in memory; one suite of tests holds both to it:

- A call comes back within its time-out, with an answer or with a `KubernetesError`.
- A list is the whole list, however many pages it came in. What cannot be known is an error: never an empty list.
- What is returned is frozen. Deleting what is gone succeeds where the docstring says so.
- `TimedOut` after a change means that it may have been made: look again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, Protocol

from tidepool.clients.kubernetes.objects import (
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


class KubernetesError(Exception):
    """Kubernetes could not do what was asked. The text is for a person: what, where, and the remedy.

    ``symptom`` is what the server did, in words that follow its name; empty where the text names no server.
    """

    def __init__(self, message: str, symptom: str = "") -> None:
        super().__init__(message)
        self.symptom = symptom


class Unreachable(KubernetesError):
    """The API server does not answer: not there, hanging, or not with its own certificate. Nothing is known."""


class TimedOut(Unreachable):
    """No answer in time. After a change: it may have been made, look again."""


class Unauthorized(KubernetesError):
    """It does not know who asks: a credential that is wrong, or has ended."""


class Forbidden(KubernetesError):
    """The asker lacks a right. ``right`` says which: ``create pods/eviction``."""

    def __init__(self, message: str, right: str = "") -> None:
        super().__init__(message)
        self.right = right


class NotFound(KubernetesError):
    """There is no such object."""


class Conflict(KubernetesError):
    """It is there already, or somebody changed it meanwhile."""


class Invalid(KubernetesError):
    """The API server refuses what was asked, as it is not what it should be."""


class EvictionRefused(KubernetesError):
    """A pod disruption budget does not allow the eviction now. ``budget`` is its name, where the API told it."""

    def __init__(self, message: str, budget: str = "") -> None:
        super().__init__(message)
        self.budget = budget


class Malformed(KubernetesError):
    """An answer that cannot be understood."""


#: Who signs the certificates by which kubelets are known.
KUBELET_SIGNER: Final = "kubernetes.io/kube-apiserver-client-kubelet"
#: In which group the tokens are by which kubelets ask for their first certificate.
BOOTSTRAPPERS: Final = "system:bootstrappers:tidepool"

#: The group of Cluster API's objects.
CLUSTER_API: Final = "cluster.x-k8s.io"

#: What a conversion and the scaler do, and so what a credential must be allowed to.
NEEDED: Final[tuple[Right, ...]] = (
    *(Right(verb, "nodes") for verb in ("get", "list", "patch", "delete")),
    *(Right(verb, "pods") for verb in ("get", "list", "delete")),
    Right("create", "pods/eviction"),
    Right("list", "poddisruptionbudgets", "policy"),
    *(Right(verb, "leases", "coordination.k8s.io", "kube-node-lease") for verb in ("get", "delete")),
    *(Right(verb, "certificatesigningrequests", "certificates.k8s.io") for verb in ("get", "list", "delete")),
    Right("update", "certificatesigningrequests/approval", "certificates.k8s.io"),
    Right("approve", "signers", "certificates.k8s.io", name=KUBELET_SIGNER),
    *(Right(verb, "secrets", "", "kube-system") for verb in ("create", "delete")),
    Right("create", "events"),
)


class KubernetesReader(Protocol):
    """Looks, and changes nothing."""

    def version(self) -> str:
        """The API server's: ``v1.36.3``."""

    def missing_rights(self, rights: Iterable[Right] = NEEDED) -> tuple[Right, ...]:
        """Return the rights that the credential lacks, by SelfSubjectAccessReview."""

    def nodes(self, pool: str | None = None) -> tuple[Node, ...]:
        """All nodes, or those of a pool, by its label."""

    def node(self, name: str) -> Node | None:
        """One; None where the API says that there is none."""

    def pods(self, node: str | None = None) -> tuple[Pod, ...]:
        """All pods of all namespaces, or those that are bound to a node; ended ones too."""

    def pods_in(self, namespace: str, labels: Mapping[str, str] | None = None) -> tuple[Pod, ...]:
        """The pods of one namespace, all or those with these labels: of it alone the right is needed."""

    def namespace(self, name: str) -> Namespace | None:
        """A namespace; None where the API says that there is none."""

    def cluster_machines(
        self, namespace: str, labels: Mapping[str, str] | None = None
    ) -> tuple[ClusterMachine, ...]:
        """The Machines of Cluster API in a namespace, all or those with these labels.

        Raises:
            NotFound: the API server knows no such kind: Cluster API is not installed there.
        """

    def pool_machines(self, stack: str) -> tuple[PoolMachine, ...]:
        """The machines of a stack's pools, as they were written last.

        Raises:
            NotFound: the API server knows no such kind.
        """

    def budgets(self) -> tuple[Budget, ...]:
        """All pod disruption budgets."""

    def lease(self, node: str) -> Lease | None:
        """The lease of a node's kubelet."""

    def signing_requests(self) -> tuple[SigningRequest, ...]:
        """All requests for certificates that the API still knows."""

    def close(self) -> None:
        """Let go of connections. Closing twice is no mistake."""


class KubernetesClient(KubernetesReader, Protocol):
    """Looks and changes."""

    def cordon(self, node: str, reason: str) -> None:
        """Let no new pods come, and write the reason into the annotation ``tidepool/reason``.

        A node that somebody else cordoned stays as it is, without our reason: it is not ours to undo.

        Raises:
            NotFound: there is no such node.
        """

    def uncordon(self, node: str) -> None:
        """Let pods come again, without the reason."""

    def label(self, node: str, labels: Mapping[str, str | None]) -> None:
        """Set labels, or take away those whose value is None; others stay."""

    def evict(self, pod: Pod) -> None:
        """Ask for a pod to go, under its budgets; one that is gone, or another of its name, is no error.

        Raises:
            EvictionRefused: a budget does not allow it now.
        """

    def delete_pod(self, pod: Pod, grace_s: int | None = None) -> None:
        """Take a pod away whatever its budgets say; 0: at once, without waiting for its node. One that is gone is none."""

    def delete_cluster_machine(self, machine: ClusterMachine) -> None:
        """Ask for a Machine of Cluster API to go; its controllers take what it stands for. One that is gone is no error."""

    def hold_cluster_machine(self, machine: ClusterMachine) -> None:
        """Have its controllers wait with a deletion, whoever asks for it, until it is released. One that is gone is no error."""

    def release_cluster_machine(self, machine: ClusterMachine) -> None:
        """Have its controllers go on with a deletion, or not wait with one that comes. One that is gone is no error."""

    def delete_node(self, node: str, uid: str | None = None) -> None:
        """Take the Node object and its lease away; those that are gone are no error.

        Its pods stay in the API until they are deleted, or until the controller manager finds them.

        Raises:
            Conflict: the node of that name has another ``uid``.
        """

    def create_token(self, node: str, until: datetime, token_id: str = "") -> BootstrapToken:
        """A bootstrap token for the kubelet of one node, in the group `BOOTSTRAPPERS`.

        With ``token_id`` (six of ``a-z0-9``) it takes the place of an earlier one of that id: who comes after a process
        that was killed still knows by which token a node asks.
        """

    def delete_token(self, token_id: str) -> None:
        """Take it back; one that is gone is no error."""

    def approve(self, request: SigningRequest, node: str, token_id: str) -> None:
        """Approve it, where it is exactly what the kubelet of ``node`` asks for with that token.

        Raises:
            Invalid: it is for another node, of another requestor, or not of a kubelet's client; says which.
        """

    def delete_signing_request(self, name: str) -> None:
        """Take it away; one that is gone is no error."""

    def put_pool_machine(self, machine: PoolMachine) -> None:
        """Make the object of a machine of a pool, or have it say just that."""

    def delete_pool_machine(self, name: str) -> None:
        """Take it away; one that is gone is no error."""

    def tell(self, pod: Pod, reason: str, message: str) -> None:
        """An Event (Warning) at a pod, for its owner: why it was taken away, and by whom.

        In a namespace that somebody takes away there is nobody to be told.
        """
