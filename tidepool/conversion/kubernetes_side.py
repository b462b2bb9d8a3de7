"""Kubernetes, as it sees one machine of a pool: the port `Side` over a client of Kubernetes.

A Node is ours by its label ``tidepool/stack``. One of the machine's name that is not is another cluster's, or a person's:
it is never touched, and the conversion is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from tidepool.clients.kubernetes.contract import (
    EvictionRefused,
    Invalid,
    KubernetesClient,
    KubernetesError,
    NotFound,
)
from tidepool.clients.kubernetes.objects import (
    POOL_LABEL,
    STACK_LABEL,
    BootstrapToken,
    Budget,
    Node,
    Pod,
    SigningRequest,
    guards,
)
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.roles import Role
from tidepool.conversion.ports import ConversionError, Refused, Sight, Verdict
from tidepool.conversion.record import Work

#: What the Node of a member of Kubernetes' control plane is labelled with.
MEMBER_LABEL: Final = "node-role.kubernetes.io/control-plane"
#: How long a machine may take to ask for its certificate.
_TOKEN_LASTS: Final = timedelta(minutes=15)
#: What a pod that is killed is given to stop; and how long its kubelet is waited for, which says that it has.
_KILL_GRACE_S: Final = 1
_KILLED_WITHIN: Final = timedelta(seconds=5)
#: Taints that Kubernetes itself sets while a node is not up. Others come with the load, or are a person's.
_NOT_UP: Final = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/unschedulable",
        "node.cloudprovider.kubernetes.io/uninitialized",
    }
)
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
#: A uid that no object has: what is deleted by it is gone already.
_NO_UID: Final = "00000000-0000-0000-0000-000000000000"


@dataclass
class KubernetesSide:
    """One machine, in Kubernetes' eyes.

    ``give_token`` takes the bootstrap token, for the machine's kubelet to be given it with its role. ``labels`` are those of
    the pool's nodes, beside pool and stack.
    """

    client: KubernetesClient
    node: str
    pool: str
    stack: str
    give_token: Callable[[BootstrapToken], None]
    labels: Mapping[str, str] = field(default_factory=FrozenDict)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    role: Role = field(default="kubernetes", init=False)
    #: Of its Node, as it was seen last.
    _labels_seen: Mapping[str, str] = field(default_factory=FrozenDict, init=False)
    #: Pods whose owners were told, and when they were first killed, by uid. Who comes after a kill tells them again.
    _killed: dict[str, datetime] = field(default_factory=dict, init=False)
    _told: set[str] = field(default_factory=set, init=False)
    #: Pods that nobody waits for any more. Some stay in the API for a finalizer of somebody's.
    _given_up: set[str] = field(default_factory=set, init=False)
    #: What the API said to the last eviction of each, by uid.
    _refusals: dict[str, str] = field(default_factory=dict, init=False)

    def see(self) -> Sight:
        with self._asking():
            node = self._ours()
        if node is None:
            return "absent"
        if not node.ready or not self._is_labelled(node):
            return "joining"
        if node.unschedulable:
            return "held"
        return "joining" if any(taint.key in _NOT_UP for taint in node.taints) else "serving"

    def held_by(self) -> str:
        """Name everybody else who cordoned it."""
        with self._asking():
            node = self._ours()
        if node is None or not node.unschedulable or node.reason:
            return ""
        return f"somebody who cordoned it (`kubectl uncordon {self.node}` ends that)"

    def hold(self, reason: str) -> None:
        with self._asking():
            if self._ours() is not None:
                try:
                    self.client.cordon(self.node, reason)
                except NotFound:
                    return

    def release(self) -> None:
        with self._asking():
            node = self._ours()
            if node is not None and node.reason:
                try:
                    self.client.uncordon(self.node)
                except NotFound:
                    return

    def work(self) -> tuple[Work, ...]:
        """The pods that would be lost: all but those that have ended, and those that belong to the node itself.

        One that is on its way is evicted, whatever becomes of the conversion.
        """
        with self._asking():
            pods = self._working()
            budgets = self.client.budgets() if any(pod.deleting_until is None for pod in pods) else ()
        return tuple(
            Work(
                "pod",
                pod.key,
                pod.owner,
                "runs" if pod.deleting_until is None else "evicted",
                self._waits_for(pod, budgets),
            )
            for pod in sorted(pods, key=lambda pod: pod.key)
        )

    def ask_to_leave(self, work: Collection[Work]) -> None:
        """Evict each pod of ``work`` once, as its budgets allow; who made one that nobody makes again is told before."""
        with self._asking():
            self._ours()
            staying = [pod for pod in self._working(work) if pod.deleting_until is None]
            budgets = self.client.budgets() if staying else ()
            for pod in staying:
                if not pod.owner and not _held_by(pod, budgets):
                    self._tell(
                        pod, f"evicted: the machine {self.node} leaves Kubernetes; nobody makes it again"
                    )
                try:
                    self.client.evict(pod)
                except EvictionRefused as error:
                    words = f"budget {error.budget} allows no eviction" if error.budget else str(error)
                    self._refusals[pod.uid] = words

    def force_out(self, work: Collection[Work], reason: str) -> tuple[Work, ...]:
        """Tell the owners of ``work``, then kill these pods; where a kubelet does not say that they ended, without it."""
        done = []
        with self._asking():
            self._ours()
            for pod in self._working(work):
                again = f"{pod.owner} makes another" if pod.owner else "nobody makes it again"
                self._tell(pod, f"killed: {reason}; {again}")
                since = self._killed.setdefault(pod.uid, self.now())
                waited_for = self.now() - since < _KILLED_WITHIN
                if not waited_for:
                    self.client.delete_pod(pod, 0)
                    self._given_up.add(pod.uid)
                elif not self._is_ending(pod):
                    self.client.delete_pod(pod, _KILL_GRACE_S)
                done.append(Work("pod", pod.key, pod.owner, "killed", f"told by an Event; {again}"))
        return tuple(done)

    def prepare(self) -> None:
        """Make the token by which its kubelet asks for its certificate, and take away a Node that nobody is any more."""
        with self._asking():
            left = self._ours()
            # One that is Ready is of a kubelet that has begun already: whoever prepared it was cut off.
            if left is not None and (not left.ready or left.reason):
                self._take_away(left)
            for request in self._requests():
                # A kubelet that waits for one ends when it is deleted: it may have begun as well.
                if request.is_approved or request.is_denied or request.requestor != self._requestor:
                    self.client.delete_signing_request(request.name)
            token = self.client.create_token(self.node, self.now() + _TOKEN_LASTS, self._token_id)
        self.give_token(token)

    def admit(self) -> None:
        """Approve what its kubelet asks for with our token; have its Node be labelled, and take pods once it is Ready."""
        with self._asking():
            node = self._ours()
            for request in self._requests():
                self._approve(request)
            if node is None:
                return
            if not self._is_labelled(node):
                self.client.label(self.node, self._labels)
            if node.ready and node.unschedulable and node.reason:
                self.client.uncordon(self.node)

    def remove_node(self) -> None:
        """Take away the Node, its lease, its requests, its token, and the pods that still name it."""
        with self._asking():
            self.client.delete_token(self._token_id)
            node = self._ours()
            for request in self._requests():
                self.client.delete_signing_request(request.name)
            self._take_away(node)
        self._killed.clear()
        self._refusals.clear()

    def verdict(self) -> Verdict:
        """See `Side`. An ordinary machine costs nothing."""
        if MEMBER_LABEL not in self._labels_seen:
            return Verdict()
        with self._asking():
            members = [node for node in self.client.nodes() if MEMBER_LABEL in node.labels]
        # Those that we cordoned are leaving, as this one is: two at once are one too many.
        well = {node.name for node in members if node.ready and not node.reason}
        return members_verdict(self.node, {node.name for node in members}, well)

    def hand_over(self) -> None:
        raise ConversionError(
            "the members of Kubernetes' control plane are alike: there is none to take over"
        )

    def _take_away(self, node: Node | None) -> None:
        """The Node before its pods: those of DaemonSets would be made again. What runs there ended with the role."""
        self.client.delete_node(self.node, node.uid if node is not None else _NO_UID)
        for pod in self.client.pods(self.node):
            if _counts(pod) and not pod.has_ended:
                again = f"{pod.owner} makes another" if pod.owner else "nobody makes it again"
                self._tell(pod, f"killed: the machine {self.node} left Kubernetes; {again}")
            self.client.delete_pod(pod, 0)

    def _ours(self) -> Node | None:
        """The machine's Node.

        Raises:
            Refused: there is one of its name, which is not this stack's.
        """
        node = self.client.node(self.node)
        self._labels_seen = node.labels if node is not None else FrozenDict()
        if node is None or node.labels.get(STACK_LABEL) == self.stack or self._came_by_our_token(node):
            return node
        whose = f"of the stack {other}" if (other := node.labels.get(STACK_LABEL)) else "of somebody else"
        raise Refused(
            f"there is a Node {self.node} {whose} in Kubernetes (without the label {STACK_LABEL}={self.stack}): it is not "
            "touched. Give the pool another name, or take that Node away"
        )

    def _came_by_our_token(self, node: Node) -> bool:
        """Return whether an unlabelled Node was registered with the certificate that we approved for it."""
        return STACK_LABEL not in node.labels and any(
            request.is_approved and request.node == self.node and request.created <= node.created
            for request in self._requests()
            if request.requestor == self._requestor
        )

    def _is_labelled(self, node: Node) -> bool:
        return all(node.labels.get(key) == value for key, value in self._labels.items())

    @property
    def _labels(self) -> Mapping[str, str]:
        return {**self.labels, POOL_LABEL: self.pool, STACK_LABEL: self.stack}

    def _requests(self) -> list[SigningRequest]:
        """Return the requests of the machine's kubelet, by our token or by its certificate; and of all who ask in its name."""
        by = {self._requestor, f"system:node:{self.node}"}
        return [
            request
            for request in self.client.signing_requests()
            if request.node == self.node or request.requestor in by
        ]

    def _approve(self, request: SigningRequest) -> None:
        if request.is_approved or request.is_denied or request.requestor != self._requestor:
            return
        try:
            self.client.approve(request, self.node, self._token_id)
        except NotFound:
            return
        except Invalid as error:
            raise Refused(
                f"the machine {self.node} asks for another certificate than its own: {error}"
            ) from error

    @property
    def _requestor(self) -> str:
        return f"system:bootstrap:{self._token_id}"

    @property
    def _token_id(self) -> str:
        """The same for the machine each time, so that who comes after a kill knows it. It is no secret."""
        digest = int.from_bytes(hashlib.sha256(f"{self.stack}/{self.node}".encode()).digest())
        return "".join(_LETTERS[digest // len(_LETTERS) ** place % len(_LETTERS)] for place in range(6))

    def _working(self, among: Collection[Work] | None = None) -> list[Pod]:
        """The pods that would be lost, all or those ``among`` them."""
        keys = None if among is None else {each.name for each in among}
        return [
            pod
            for pod in self.client.pods(self.node)
            if _counts(pod) and not pod.has_ended and pod.uid not in self._given_up
            if keys is None or pod.key in keys
        ]

    def _is_ending(self, pod: Pod) -> bool:
        soon = self.now() + timedelta(seconds=_KILL_GRACE_S + 1)
        return pod.deleting_until is not None and pod.deleting_until <= soon

    def _tell(self, pod: Pod, message: str) -> None:
        if pod.uid not in self._told:
            self.client.tell(pod, "MachineConverted", message)
            self._told.add(pod.uid)

    def _waits_for(self, pod: Pod, budgets: tuple[Budget, ...]) -> str:
        """Why it is still there, in words that change only when that does."""
        if pod.deleting_until is not None:
            return f"ends by {pod.deleting_until:%Y-%m-%d %H:%M:%S}"
        if held := _held_by(pod, budgets):
            return f"budget {held} allows no eviction"
        return self._refusals.get(pod.uid, "")

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Raise errors of Kubernetes as errors of the side."""
        try:
            yield
        except KubernetesError as error:
            raise ConversionError(str(error)) from error


def members_verdict(node: str, members: Collection[str], well: Collection[str]) -> Verdict:
    """Judge if ``node``, one of the ``members`` of Kubernetes' control plane, may leave: those that stay are a majority."""
    stay = set(members) - {node}
    well = stay.intersection(well)
    majority = len(stay) // 2 + 1
    if stay and len(well) >= majority:
        return Verdict()
    return Verdict(
        f"{node} is a member of Kubernetes' control plane: without it {len(well)} of {len(stay)} would be well, and "
        f"{majority if stay else 1} must be; add a member, or mend one, first"
    )


def _held_by(pod: Pod, budgets: tuple[Budget, ...]) -> str:
    """The budget that does not let it go now."""
    return next((one.name for one in budgets if guards(one, pod) and not one.allowed), "")


def _counts(pod: Pod) -> bool:
    """Return whether a pod would be missed: it is not the node's own, which each node has."""
    return not pod.is_static and not pod.is_daemon
