"""Pods of a Kubernetes in memory as an infrastructure: what is found and deleted is the package's, here pods are made.

They are made as pulumi-kubernetes does: by their names, which the API server gives once; what a lost answer left is taken for
what was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.clients.kubernetes.world import Clock
from tests.simulation.kubernetes.fake import FakeKubernetes
from tidepool.clients.kubernetes.objects import Pod
from tidepool.cluster.failures import InsufficientCapacity
from tidepool.infrastructures import Machine, MachineKey
from tidepool.infrastructures.kubernetes.machines import KubernetesMachines, kind_of, kinds_of_failures
from tidepool.infrastructures.kubernetes.namespace import STACK_LABEL, labels_of
from tidepool.infrastructures.kubernetes.pod import JOBS_END_S
from tidepool.simulation.machines import MachineRequest

NAMESPACE = "physics"
#: How long jobs run.
_JOB_S = 3600.0
#: How long a pod waits for room, before that is a failure.
ROOM_S = 20.0


@dataclass(frozen=True, slots=True)
class MakingPods(KubernetesMachines):
    """The same, and makes them. ``quota`` is how many pods the namespace may have."""

    fake: FakeKubernetes = field(default_factory=FakeKubernetes)
    clock: Clock = field(default_factory=Clock)
    quota: list[int] = field(default_factory=list)

    def create(self, request: MachineRequest) -> Machine:
        key = request.key
        there = self._there(key.stack, key.node)
        if there is not None and there.has_ended:
            with kinds_of_failures():
                self.fake.delete_pod(there)
            there = None
        if there is None:
            self._make(request)
        found = self._there(key.stack, key.node)
        assert found is not None
        self._await_room(found)
        machine = self.read(key)
        # A list may not show it yet; who made it knows it.
        return machine or Machine(replace(key, machine_id=found.uid), request.address, "running")

    def _make(self, request: MachineRequest) -> None:
        key = request.key
        with kinds_of_failures():
            self.fake._begin_call()
            if self.quota and len(self.fake.all_pods()) >= self.quota[0]:
                # As the plugin has it, which makes them: in words.
                said = f'pods "{key.node}" is forbidden: exceeded quota: stack, requested: pods=1, limited: pods={self.quota[0]}'
                raise kind_of(said)(said)
            self.fake.add_pod(
                key.node,
                NAMESPACE,
                cpu_milli=int(request.cpus * 1000),
                memory_mib=request.memory_mib,
                labels=labels_of(key.stack, key.fleet, key.node, request.address),
                grace_s=JOBS_END_S,
            )
            self.fake._changed()

    def _await_room(self, pod: Pod) -> None:
        """What `tidepool:kubernetes:Machine` waits for."""
        until = self.clock.now.timestamp() + ROOM_S
        while (
            seen := self._there(pod.labels[STACK_LABEL], pod.name)
        ) is not None and seen.phase == "Pending":
            if seen.unschedulable and self.clock.now.timestamp() >= until:
                raise InsufficientCapacity(f"there is no room for {pod.key}: {seen.unschedulable}")
            self.clock.forward(0.5)

    def _there(self, stack: str, name: str) -> Pod | None:
        """As the API server has it by its name, whatever its lists show."""
        found = (pod for pod in self.fake.all_pods() if (pod.namespace, pod.name) == (NAMESPACE, name))
        return next((pod for pod in found if pod.labels.get(STACK_LABEL) == stack), None)


@dataclass
class KubernetesWorld:
    """A cluster in memory with ``nodes`` of room for two machines each."""

    nodes: int = 4
    stack: str = "one"
    clock: Clock = field(default_factory=Clock)
    fake: FakeKubernetes = field(init=False)
    infrastructure: MakingPods = field(init=False)

    def __post_init__(self) -> None:
        self.fake = FakeKubernetes(self.clock)
        for number in range(1, self.nodes + 1):
            self.fake.add_node(f"node-{number}", cpus=2, memory_mib=1024)
        self.infrastructure = MakingPods(
            lambda: self.fake,
            NAMESPACE,
            now=self.seconds,
            sleep=self.clock.forward,
            fake=self.fake,
            clock=self.clock,
        )

    def seconds(self) -> float:
        return self.clock.now.timestamp()

    def stop(self, key: MachineKey) -> None:
        self.fake.fail_pod(self.pod(key))

    def vanish(self, key: MachineKey) -> None:
        self.fake.delete_pod(self.pod(key), grace_s=0)

    def delete_outside(self, key: MachineKey) -> None:
        """`kubectl delete pod`, while a job runs there: its hook waits."""
        self.fake.has_stopped_within(self.pod(key), _JOB_S)
        self.fake.delete_pod(self.pod(key))

    def with_machines(self) -> KubernetesMachines:
        """As the scaler has it, where fleets are pods and machines of Cluster API."""
        return KubernetesMachines(
            lambda: self.fake, NAMESPACE, machines=True, now=self.seconds, sleep=self.clock.forward
        )

    def pod(self, key: MachineKey) -> Pod:
        return next(pod for pod in self.fake.all_pods() if pod.name == key.node)
