"""The pods and Machines of a stack as the infrastructure that the scaler looks at and sweeps.

They are made by Pulumi's resources; here they are found and deleted, with what the scaler's role allows and no more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Literal

from tidepool.clients.kubernetes.contract import (
    Conflict,
    EvictionRefused,
    KubernetesClient,
    KubernetesError,
    NotFound,
    Unreachable,
)
from tidepool.clients.kubernetes.objects import ClusterMachine, Pod
from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.failures import by_words
from tidepool.infrastructures.kubernetes.namespace import NODE_LABEL, STACK_LABEL, address_of
from tidepool.infrastructures.kubernetes.pod import GRACE_S
from tidepool.infrastructures.kubernetes.reading import NAME, read_options
from tidepool.infrastructures.kubernetes_access import connect_by
from tidepool.infrastructures.machines import Infrastructure, Machine, MachineKey
from tidepool.infrastructures.reading import has_own_machines

#: The kind of a failure that a resource of Pulumi's, or an object, tells of: by its text, for that is all there is.
kind_of: Final = by_words(
    (
        # The scheduler's words for a pod that has no room, a quota's for one that would be too many, Metal3's for no host.
        InsufficientCapacity,
        (
            r"\d+/\d+ nodes are available",
            "Unschedulable",
            "exceeded quota",
            "[Nn]o available host",
            "OutOf(cpu|memory|pods|[a-z.-]+/)",
        ),
    ),
    (
        # Of the API server, and of what is between.
        Transient,
        (
            r"(?i:timed? ?out|TooManyRequests|too many requests|connection refused|connection reset|i/o timeout)",
            r"(?i:no route to host|unexpected EOF|the object has been modified|etcdserver|ServiceUnavailable)",
            r"(?i:InternalError|failed calling webhook|context deadline exceeded|does not answer)",
        ),
    ),
    otherwise=Permanent,
    flags=0,
)


@contextmanager
def kinds_of_failures() -> Iterator[None]:
    """A client's errors as the kinds that the contract knows: by their classes, for their texts name objects of people's."""
    try:
        yield
    except (Unreachable, Conflict, EvictionRefused) as error:
        raise Transient(str(error)) from error
    except (KubernetesError, ValueError) as error:
        raise Permanent(str(error)) from error


_RUNS: Final = ("Pending", "Running")
#: Longer than a pod is given to stop.
_PATIENCE_S: Final = 45.0
_AGAIN_S: Final = 0.2


def machines_of(spec: ClusterSpec, _stack: str, data: Path) -> Infrastructure:
    """Return the machines of a stack: its namespace follows from the spec."""
    options = read_options(spec)
    kubeconfig = Path(options.place.kubeconfig)
    return KubernetesMachines(
        # Read for each call: it may be renewed while the scaler runs.
        partial(connect_by, kubeconfig, data),
        options.namespace,
        pods=bool(options.fleets_of_pods) or has_own_machines(spec, NAME),
        machines=options.has_machines,
    )


@dataclass(frozen=True, slots=True)
class KubernetesMachines:
    """`tidepool.infrastructures.Infrastructure`, of one namespace. A name has one object there."""

    client: Callable[[], AbstractContextManager[KubernetesClient]] = field(repr=False)
    namespace: str
    pods: bool = True
    machines: bool = False
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def read(self, key: MachineKey) -> Machine | None:
        found = (each for each in self._all(key.stack, key.node) if key.matches(_to_machine(each).key))
        return next(map(_to_machine, found), None)

    def list(self, stack: str) -> tuple[Machine, ...]:
        return tuple(sorted(map(_to_machine, self._all(stack)), key=lambda machine: machine.key))

    def delete(self, key: MachineKey) -> None:
        """Take it away: of a pod it is waited for, which stops its daemons meanwhile; a Machine's host is wiped for long.

        Raises:
            Transient: the pod is still ending.
            Permanent: something keeps it: finalizers of somebody else's, or a right that is missing.
        """
        for each in self._all(key.stack, key.node):
            if not key.matches(_to_machine(each).key):
                continue
            with kinds_of_failures(), self.client() as kubernetes:
                if isinstance(each, Pod):
                    # No longer than daemons need, where somebody else's deletion waits for jobs.
                    kubernetes.delete_pod(each, GRACE_S)
                else:
                    # Who is cut off in between has one that anybody deletes.
                    kubernetes.release_cluster_machine(each)
                    kubernetes.delete_cluster_machine(each)
            if isinstance(each, Pod):
                self._await_end(each)

    def _await_end(self, pod: Pod) -> None:
        until = self.now() + _PATIENCE_S
        while True:
            found = self._all(pod.labels[STACK_LABEL], pod.labels[NODE_LABEL])
            seen = next((each for each in found if isinstance(each, Pod) and each.uid == pod.uid), None)
            if seen is None:
                return
            if seen.finalizers:
                raise Permanent(
                    f"the pod {pod.key} is kept by {', '.join(seen.finalizers)}: whoever put that there has to take it "
                    "away, or you: kubectl edit pod"
                )
            if self.now() >= until:
                raise Transient(
                    f"the pod {pod.key} is still ending after {_PATIENCE_S:g} s: see its node's kubelet"
                )
            self.sleep(_AGAIN_S)

    def _all(self, stack: str, node: str = "") -> Iterator[Pod | ClusterMachine]:
        labels = {STACK_LABEL: stack, **({NODE_LABEL: node} if node else {})}
        found: list[Pod | ClusterMachine] = []
        with kinds_of_failures(), self.client() as kubernetes:
            if self.pods:
                found += kubernetes.pods_in(self.namespace, labels)
            if self.machines:
                try:
                    found += kubernetes.cluster_machines(self.namespace, labels)
                except NotFound as error:
                    raise Permanent(str(error)) from error
        return (each for each in found if each.labels.get(NODE_LABEL))


def _to_machine(found: Pod | ClusterMachine) -> Machine:
    key = MachineKey(found.labels[STACK_LABEL], found.labels[NODE_LABEL], found.uid)
    runs = found.phase in _RUNS if isinstance(found, Pod) else found.phase != "Failed"
    state: Literal["running", "stopped"] = "running" if runs else "stopped"
    is_ending = found.deleting_until is not None if isinstance(found, Pod) else found.is_ending
    return Machine(key, address_of(found.labels), state, found.created, is_ending=is_ending)
