"""Pods in the fake: their lives, budgets, who makes them again, and the scheduler that binds them."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tidepool.clients.kubernetes.objects import (
    Budget,
    Node,
    Pod,
    Resources,
    Taint,
    Toleration,
    guards,
    holds,
    tolerates,
)
from tidepool.clients.kubernetes.reading import added
from tidepool.cluster.frozen import FrozenDict, frozen


class PodTable(dict[str, Pod]):
    """Pods by ``namespace/name``. It is changed by putting and deleting single ones."""

    def __init__(self) -> None:
        super().__init__()
        self._by_node: dict[str, dict[str, Pod]] = {}
        self._taken: dict[str, Resources] = {}

    def __setitem__(self, key: str, pod: Pod) -> None:
        self._unindex(key)
        super().__setitem__(key, pod)
        self._by_node.setdefault(pod.node, {})[key] = pod
        self._taken.pop(pod.node, None)

    def __delitem__(self, key: str) -> None:
        self._unindex(key)
        super().__delitem__(key)

    def on(self, node: str) -> tuple[Pod, ...]:
        """Return those that are bound to a node; to none, if it has no name."""
        return tuple(self._by_node.get(node, {}).values())

    def taken(self, node: str) -> Resources:
        """Return what those on a node that have not ended ask for together."""
        if node not in self._taken:
            both = Resources()
            for pod in self.on(node):
                if not pod.has_ended:
                    both = added(both, pod.requests)
            self._taken[node] = both
        return self._taken[node]

    def _unindex(self, key: str) -> None:
        if (before := self.get(key)) is not None:
            del self._by_node[before.node][key]
            self._taken.pop(before.node, None)


_EVERYWHERE: Final = (Toleration("", "Exists"),)


@dataclass(frozen=True, slots=True)
class _Life:
    """The life of a pod: how long it runs (for ever), is given to stop, and takes to stop; as what it is made again."""

    run_s: float | None
    grace_s: float
    stop_s: float
    remade: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Guard:
    """A budget, and what it is counted from."""

    budget: Budget
    min_available: int


@dataclass(slots=True)
class FakePods:
    """Pods on nodes whose kubelets run, by an injected clock. See `FakeKubernetes`."""

    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    #: How long a pod takes to start.
    start_s: float = 0.7
    #: After how long pods of nodes that are gone are taken away.
    orphaned_s: float = 40.0

    #: For how long a list does not show a pod that was made.
    unseen_s: float = 0.0

    _at: datetime = field(init=False)
    _nodes: dict[str, Node] = field(default_factory=dict)
    #: The names of nodes whose kubelets run.
    _running: set[str] = field(default_factory=set)
    _pods: PodTable = field(default_factory=PodTable)
    _lives: dict[str, _Life] = field(default_factory=dict)
    _guards: dict[str, Guard] = field(default_factory=dict)
    _containers: dict[str, set[str]] = field(default_factory=dict)
    _due: list[tuple[datetime, int, Callable[[], object]]] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    #: Something changed since the scheduler looked.
    _is_stirred: bool = False
    _is_waited_for: bool = False

    def __post_init__(self) -> None:
        self._at = self.now()

    # Time

    def settle(self) -> None:
        """Let all happen that was to happen by now."""
        until = self.now()
        self._schedule()
        while self._due and self._due[0][0] <= until:
            self._at, _, happen = heapq.heappop(self._due)
            happen()
            self._schedule()
        self._at = max(until, self._at)

    def next_moment(self) -> datetime | None:
        """When something is to happen by itself."""
        self.settle()
        return self._due[0][0] if self._due else None

    def _later(self, in_s: float, happen: Callable[[], object]) -> None:
        heapq.heappush(self._due, (self._at + timedelta(seconds=in_s), next(self._numbers), happen))

    # Pods

    def add_pod(
        self,
        name: str,
        namespace: str = "default",
        *,
        cpu_milli: int = 100,
        memory_mib: int = 0,
        run_s: float | None = None,
        grace_s: float = 30.0,
        stop_s: float = 0.1,
        owner: str = "",
        is_remade: bool = False,
        node: str = "",
        **more: Any,
    ) -> Pod:
        """Somebody wants a pod; the scheduler finds it a node, unless ``node`` says which.

        Args:
            name: of the pod.
            namespace: its own.
            cpu_milli: what it asks for.
            memory_mib: what it asks for.
            run_s: how long it runs; for ever if not said.
            grace_s: how long it is given to stop.
            stop_s: how long it takes to stop when it is asked to.
            owner: ``ReplicaSet/web``; of a DaemonSet it is bound at once, and bears every taint.
            is_remade: whether its controller makes another one when it goes.
            node: to which it is bound already.
            **more: fields of `Pod`: ``labels``, ``node_selector``, ``is_static`` ...
        """
        self.settle()
        pod = self._new_pod(
            name, namespace, cpu_milli=cpu_milli, memory_mib=memory_mib, run_s=run_s, grace_s=grace_s, stop_s=stop_s,
            owner=owner, is_remade=is_remade, node=node, **more,
        )  # fmt: skip
        self.settle()
        return self._pods.get(pod.key, pod)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let what is added within come at one moment: the scheduler looks when all of it is there."""
        self._is_waited_for = True
        try:
            yield
        finally:
            self._is_waited_for = False
            self.settle()

    def _new_pod(
        self, name: str, namespace: str, *, cpu_milli: int, memory_mib: int, run_s: float | None, grace_s: float,
        stop_s: float, owner: str, is_remade: bool, node: str = "", **more: Any,
    ) -> Pod:  # fmt: skip
        said = {
            "cpu_milli": cpu_milli, "memory_mib": memory_mib, "run_s": run_s, "grace_s": grace_s, "stop_s": stop_s,
            "owner": owner, "is_remade": is_remade, **more,
        }  # fmt: skip
        is_daemon = owner.startswith("DaemonSet/")
        nothing: FrozenDict[str, str] = FrozenDict()
        pod = Pod(
            namespace, name, f"uid-{next(self._numbers)}", "Pending", node, nothing,
            Resources(cpu_milli, memory_mib * 2**20), nothing, (), _EVERYWHERE if is_daemon else (), owner, 0,
            self._at, None, "", is_daemon=is_daemon,
        )  # fmt: skip
        pod = replace(pod, **{key: frozen(value) for key, value in more.items()})
        self._pods[pod.key] = pod
        self._lives[pod.uid] = _Life(run_s, grace_s, stop_s, FrozenDict(said) if is_remade else None)
        if node:
            self._take_up(pod)
        self._is_stirred = True
        return pod

    def shown(self) -> tuple[Pod, ...]:
        """All pods that a list shows by now."""
        oldest = timedelta(seconds=self.unseen_s)
        return tuple(pod for pod in self._pods.values() if pod.created + oldest <= self._at)

    def pin(self, pod: Pod, *finalizers: str) -> None:
        """Somebody puts finalizers at a pod."""
        self.settle()
        self._pods[pod.key] = replace(self._pods[pod.key], finalizers=finalizers)

    def unpin(self, pod: Pod) -> None:
        """Whoever had finalizers at a pod takes them away."""
        self.settle()
        if (seen := self._same(pod)) is not None:
            self._pods[pod.key] = replace(seen, finalizers=())
            if seen.deleting_until is not None and seen.has_ended:
                self._gone(seen)

    def has_stopped_within(self, pod: Pod, stop_s: float) -> None:
        """From now on its containers take so long to stop."""
        self._lives[pod.uid] = replace(self._lives[pod.uid], stop_s=stop_s)

    def fail_pod(self, pod: Pod) -> None:
        """Its containers end with a failure, and are not started again."""
        self.settle()
        if (seen := self._same(pod)) is not None:
            self._containers.get(seen.node, set()).discard(seen.uid)
            self._pods[pod.key] = replace(seen, phase="Failed")
            self._is_stirred = True

    def add_budget(
        self, name: str, match_labels: Mapping[str, str], min_available: int, namespace: str = "default"
    ) -> None:
        """A pod disruption budget."""
        selector = frozen({"matchLabels": dict(match_labels)})
        self._guards[f"{namespace}/{name}"] = Guard(Budget(namespace, name, selector, 0), min_available)

    def counted(self, guard: Guard) -> Budget:
        """The budget as it stands now."""
        healthy = sum(
            pod.phase == "Running" and pod.deleting_until is None and guards(guard.budget, pod)
            for pod in self._pods.values()
        )
        return replace(guard.budget, allowed=max(0, healthy - guard.min_available))

    def _take_up(self, pod: Pod) -> None:
        """Do what its kubelet does with a pod that is bound to it."""
        life = self._lives[pod.uid]
        if pod.deleting_until is not None:
            left = max(0.0, (pod.deleting_until - self._at).total_seconds())
            self._later(min(life.stop_s, left), lambda: self._stopped(pod))
        elif pod.phase == "Pending":
            self._later(self.start_s, lambda: self._runs(pod))
        elif pod.phase == "Running" and life.run_s is not None:
            self._later(life.run_s, lambda: self._ends(pod))

    def _runs(self, pod: Pod) -> None:
        seen = self._same(pod)
        if seen is None or seen.phase != "Pending" or seen.deleting_until or seen.node not in self._running:
            return
        self._pods[pod.key] = replace(seen, phase="Running")
        self._containers.setdefault(seen.node, set()).add(pod.uid)
        if (run_s := self._lives[pod.uid].run_s) is not None:
            self._later(run_s, lambda: self._ends(pod))

    def _ends(self, pod: Pod) -> None:
        seen = self._same(pod)
        if seen is None or seen.phase != "Running" or seen.node not in self._running:
            return
        self._containers.get(seen.node, set()).discard(pod.uid)
        self._pods[pod.key] = replace(seen, phase="Succeeded")
        self._is_stirred = True

    def _stopped(self, pod: Pod) -> None:
        """Its kubelet has stopped its containers, and tells the API."""
        if pod.node in self._running:
            self._containers.get(pod.node, set()).discard(pod.uid)
            if self._same(pod):
                self._gone(pod)

    def _delete(self, pod: Pod, grace_s: int | None) -> None:
        """As the API does: what runs on a node goes when its kubelet says so, unless nobody is to wait for that."""
        life = self._lives[pod.uid]
        grace = life.grace_s if grace_s is None else float(grace_s)
        if pod.deleting_until is not None:
            grace = min(grace, max(0.0, (pod.deleting_until - self._at).total_seconds()))
        if not pod.node or pod.has_ended or (grace == 0 and grace_s == 0):
            self._gone(pod)
            if pod.node:
                self._later(life.stop_s, lambda: self._stopped(pod))
            return
        going = replace(pod, deleting_until=self._at + timedelta(seconds=grace))
        self._pods[pod.key] = going
        if pod.node in self._running:
            self._take_up(going)

    def _gone(self, pod: Pod) -> None:
        if (seen := self._pods[pod.key]).finalizers:
            # It has ended, and stays until they are taken away.
            ended = "Failed" if seen.phase == "Running" else seen.phase
            self._pods[pod.key] = replace(seen, phase=ended, deleting_until=seen.deleting_until or self._at)
            self._is_stirred = True
            return
        del self._pods[pod.key]
        life = self._lives[pod.uid]
        self._is_stirred = True
        if life.remade is not None:
            name = f"{pod.name.rpartition('-')[0] or pod.name}-{next(self._numbers)}"
            said = dict(life.remade)
            self._later(0.05, lambda: self._new_pod(name, pod.namespace, **said))

    def _orphaned(self, node: str) -> None:
        """Pods of a node that is gone: the controller manager finds them."""
        if node not in self._nodes:
            for pod in self._pods.on(node):
                self._gone(pod)

    def _same(self, pod: Pod) -> Pod | None:
        seen = self._pods.get(pod.key)
        return seen if seen is not None and seen.uid == pod.uid else None

    # The scheduler

    def _schedule(self) -> None:
        """Bind what waits, where something changed: the highest priority first, then the oldest."""
        if self._is_waited_for or not self._is_stirred:
            return
        self._is_stirred = False
        waiting = [pod for pod in self._pods.on("") if not pod.is_held and not pod.has_ended]
        hopeless: set[object] = set()
        for pod in sorted(waiting, key=lambda pod: (-pod.priority, pod.created)):
            asks = (pod.requests, pod.node_selector, pod.affinity, pod.tolerations)
            found = None if asks in hopeless else next(
                (name for name, node in self._nodes.items() if _fits(pod, self._pods.taken(name), node) and can_be_on(pod, node)),
                None,
            )  # fmt: skip
            if found is None:
                hopeless.add(asks)
                words = f"0/{len(self._nodes)} nodes are available"
                self._pods[pod.key] = replace(pod, unschedulable=words)
                continue
            bound = replace(pod, node=found, unschedulable="")
            self._pods[pod.key] = bound
            self._take_up(bound)


def _fits(pod: Pod, taken: Resources, node: Node) -> bool:
    asked, room = pod.requests, node.allocatable
    return (
        taken.cpu_milli + asked.cpu_milli <= room.cpu_milli
        and taken.memory_bytes + asked.memory_bytes <= room.memory_bytes
        and all(
            taken.extended.get(name, 0) + amount <= room.extended.get(name, 0)
            for name, amount in asked.extended.items()
        )
    )


def wants(pod: Pod, node: str, labels: Mapping[str, str]) -> bool:
    """Return whether a pod's node selector and required node affinity let it be on a node of that name, with those labels."""
    known = {**labels, "metadata.name": node}
    if any(labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    return not pod.affinity or any(all(holds(part, known) for part in term) for term in pod.affinity)


def bears(pod: Pod, taints: Iterable[Taint]) -> bool:
    """Return whether a pod tolerates all taints that would keep it away."""
    return all(
        taint.effect == "PreferNoSchedule" or any(tolerates(said, taint) for said in pod.tolerations)
        for taint in taints
    )


def can_be_on(pod: Pod, node: Node) -> bool:
    """Return whether the scheduler would put a pod there if there is room: selectors, affinity, taints, and that it is ready."""
    return (
        not node.unschedulable
        and node.ready
        and wants(pod, node.name, node.labels)
        and bears(pod, node.taints)
    )
