"""Kinds of resources of kubernetes: the provider's side of `tidepool.infrastructures.kubernetes.resources`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tidepool.clients.kubernetes.contract import KubernetesClient, KubernetesError, KubernetesReader
from tidepool.clients.kubernetes.objects import ClusterMachine
from tidepool.clients.slurm import Transport
from tidepool.cluster.failures import InsufficientCapacity, Permanent
from tidepool.infrastructures.connection import transport, why_silent
from tidepool.infrastructures.kubernetes.namespace import NODE_LABEL, STACK_LABEL
from tidepool.infrastructures.kubernetes.resources import KubernetesMachine, KubernetesMachineModel
from tidepool.infrastructures.kubernetes_access import connect_by
from tidepool.infrastructures.machines import MachineKey
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task, Unfinished
from tidepool.resources.values import Plain

_AGAIN_S: Final = 1.0
#: Of a Machine that anybody deletes with its jobs. The next `up --refresh` mends it.
_UNPROTECTED: Final = "unprotected"
#: What a kubelet says of containers that will never start, however long they are waited for.
_NEVER: Final = ("InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError")


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a machine: in words; whether there is no room for it; whether there never will be."""

    words: str
    is_without_room: bool = False
    is_hopeless: bool = False


class KubernetesMachineKind(Kind[KubernetesMachineModel]):
    """A machine that answers by SSH; while it does not, Kubernetes is asked why. Others made it; pods it takes away itself."""

    resource = KubernetesMachine
    #: Metal takes minutes to start, and minutes more to be written.
    timeout_s = 1800.0

    def __init__(
        self,
        home: Home,
        open: Callable[[Path, Path], AbstractContextManager[KubernetesClient]] = connect_by,
        reach: Callable[[Mapping[str, Any], Path], Transport] = transport,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(home)
        self._open = open
        self._reach = reach
        self._now = now
        self._sleep = sleep

    def create(self, wanted: KubernetesMachineModel, task: Task) -> Made:
        """Wait.

        Raises:
            InsufficientCapacity: nothing had room for it for as long as that is waited for.
            Permanent: it will never run.
            Unfinished: it runs, or may run, and does not answer.
        """
        id = f"{wanted.namespace}/{wanted.machine}"
        connection = {"kind": "ssh", "stack": wanted.stack, "address": wanted.address, "user": "root"}
        without_room_since: float | None = None

        def why_not() -> str:
            nonlocal without_room_since
            if not (why := why_silent(reached)):
                return ""
            progress = self._progress(wanted)
            if progress.is_hopeless:
                raise Permanent(f"{id} will not run: {progress.words}")
            without_room_since = (without_room_since or self._now()) if progress.is_without_room else None
            if without_room_since is not None and self._now() - without_room_since >= wanted.room_s:
                raise InsufficientCapacity(f"there is no room for {id}: {progress.words}")
            return progress.words or why

        with closing(self._reach(connection, self._home.data)) as reached:
            late = task.wait(why_not, f"waiting for {wanted.machine}", _AGAIN_S, self._sleep)
        if late:
            raise Unfinished(
                id,
                f"the machine {id} does not answer at {wanted.address} within {task.timeout_s:g} s: {late}. See "
                f"`kubectl --namespace {wanted.namespace} describe {wanted.kind} {wanted.machine}` and its log",
                cause="boot",
            )
        return Made(id, {"connection": connection, **self._hold(wanted)})

    def update(
        self, id: str, old: KubernetesMachineModel, wanted: KubernetesMachineModel, task: Task
    ) -> Mapping[str, Plain]:
        return self._hold(wanted)

    def look(self, id: str, state: KubernetesMachineModel) -> Mapping[str, Plain] | None:
        # Not seen is not gone: whether it is there, who made it says.
        if state.kind == "pods":
            return AS_KNOWN
        try:
            with self._open(Path(state.kubeconfig), self._home.data) as kubernetes:
                unheld = [
                    each for each in _machines(kubernetes, state) if not (each.is_held or each.is_ending)
                ]
        except (KubernetesError, ValueError):
            return AS_KNOWN
        return {"state": _UNPROTECTED} if unheld else AS_KNOWN

    def delete(self, id: str, state: KubernetesMachineModel, task: Task) -> None:
        """Have nothing hold its Machine any more; or take its pod away, and wait until it has ended: pulumi-kubernetes does not wait for pods that it need not await.

        One that is made in its place has its name, which the API server would take for a change of the old one.

        Raises:
            Transient: the pod is still ending.
            Permanent: something keeps it.
        """
        # It reads specs, for which the provider has no use elsewhere.
        from tidepool.infrastructures.kubernetes.machines import KubernetesMachines, kinds_of_failures

        connect = partial(self._open, Path(state.kubeconfig), self._home.data)
        if state.kind != "pods":
            with kinds_of_failures(), connect() as kubernetes:
                for machine in _machines(kubernetes, state):
                    kubernetes.release_cluster_machine(machine)
            return
        pods = KubernetesMachines(connect, state.namespace, now=self._now, sleep=self._sleep)
        pods.delete(MachineKey(state.stack, state.machine, state.object))

    def _hold(self, wanted: KubernetesMachineModel) -> Mapping[str, Plain]:
        """Have a Machine that somebody else deletes wait until its jobs have ended; gives how it is where that does not work."""
        if wanted.kind == "pods":
            return {}
        try:
            with self._open(Path(wanted.kubeconfig), self._home.data) as kubernetes:
                for machine in _machines(kubernetes, wanted):
                    kubernetes.hold_cluster_machine(machine)
        except (KubernetesError, ValueError):
            return {"state": _UNPROTECTED}
        return {}

    def _progress(self, wanted: KubernetesMachineModel) -> Progress:
        try:
            with self._open(Path(wanted.kubeconfig), self._home.data) as kubernetes:
                return _progress(kubernetes, wanted)
        except (KubernetesError, ValueError) as error:
            return Progress(f"Kubernetes cannot be asked: {error}")


def _machines(kubernetes: KubernetesReader, wanted: KubernetesMachineModel) -> list[ClusterMachine]:
    """The Machine that it is of; none where that is gone, or another has its name."""
    labels = {STACK_LABEL: wanted.stack, NODE_LABEL: wanted.machine}
    found = kubernetes.cluster_machines(wanted.namespace, labels)
    return [each for each in found if each.uid == wanted.object]


def _progress(kubernetes: KubernetesReader, wanted: KubernetesMachineModel) -> Progress:
    labels = {STACK_LABEL: wanted.stack, NODE_LABEL: wanted.machine}
    if wanted.kind == "pods":
        for pod in kubernetes.pods_in(wanted.namespace, labels):
            if pod.unschedulable:
                return Progress(pod.unschedulable, is_without_room=True)
            return Progress(pod.waiting, is_hopeless=pod.waiting.startswith(_NEVER))
        return Progress("its pod is not seen")
    for machine in kubernetes.cluster_machines(wanted.namespace, labels):
        words = f"it is {machine.phase or 'new'}" + (f": {machine.why_not}" if machine.why_not else "")
        has_no_host = "no available host" in machine.why_not.lower()
        return Progress(words, has_no_host, is_hopeless=machine.phase == "Failed")
    return Progress("its Machine is not seen")
