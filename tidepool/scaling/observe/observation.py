"""The outcome of a look; and of one at a few nodes, just before something is done to them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidepool.clients.kubernetes.objects import Node as KubernetesNode
from tidepool.clients.kubernetes.objects import Pod
from tidepool.clients.slurm import Job, Node
from tidepool.conversion.record import Conversion
from tidepool.infrastructures import Machine, MachineKey
from tidepool.infrastructures.machines import DEAD
from tidepool.scaling.cluster_state import (
    ClusterState,
    Recorded,
    RecordedRole,
    is_at_work,
    job_nodes,
)
from tidepool.scaling.ports import StackOutputs


@dataclass(frozen=True, slots=True)
class Observation:
    """One look. ``lag_s`` says, by source, how old what it says is."""

    told: StackOutputs
    #: What was seen; what nobody but the scaler knows is missing.
    seen: ClusterState
    lag_s: Mapping[str, float]
    #: What could not be seen, or is odd, in words: one for each source.
    complaints: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Recheck:
    """Some nodes at this very moment. ``machines`` are None where they were not listed."""

    nodes: Mapping[str, Node]
    jobs: tuple[Job, ...]
    machines: tuple[Machine, ...] | None
    recorded: Mapping[str, Recorded]
    #: Infrastructures that did not answer, beside others that did.
    silent: frozenset[str] = frozenset()

    def has_jobs(self, name: str) -> bool:
        """Return whether something runs there, or is at its end."""
        node = self.nodes.get(name)
        return (node is not None and is_at_work(node)) or any(name in job_nodes(job) for job in self.jobs)

    def is_dead(self, name: str) -> bool:
        """Return whether its machine was looked for, and does not run."""
        here = self._infrastructure(name)
        if self.machines is None or (here in self.silent if here else self.silent):
            return False
        return all(each.state in DEAD for each in self._own_machines(name))

    def may_have_machine(self, name: str) -> bool:
        """Return whether one of its name is listed, or could be where nothing can be seen."""
        if self.machines is None or self.silent:
            return True
        return any(each.key.node == name for each in self.machines)

    def is_another(self, key: MachineKey) -> bool:
        """Return whether what is recorded under its name is another machine: on another infrastructure, or its successor."""
        here = self._infrastructure(key.node)
        if here and key.infrastructure and here != key.infrastructure:
            return True
        own = self._own_machines(key.node)
        return self._has_recorded_id(own) and all(each.key != key for each in own)

    def _own_machines(self, name: str) -> Sequence[Machine]:
        listed = [each for each in self.machines or () if each.key.node == name]
        return self.recorded.get(name, Recorded()).own_machines(listed)

    def _has_recorded_id(self, own: Sequence[Machine]) -> bool:
        return any(each.machine_id == self.recorded.get(each.key.node, Recorded()).machine_id for each in own)

    def _infrastructure(self, name: str) -> str:
        record = self.recorded.get(name)
        return record.infrastructure if record is not None else ""


@dataclass(frozen=True, slots=True)
class PoolsRecheck:
    """Some machines of pools at this very moment, from all sides."""

    slurm: Recheck
    #: By node name, as Kubernetes has them; and all pods that are bound to one and have not ended.
    nodes: Mapping[str, KubernetesNode]
    pods: tuple[Pod, ...]
    #: By node name, conversions that are under way.
    under_way: Mapping[str, Conversion]
    #: By node name, all machines of pools, not only these.
    recorded: Mapping[str, RecordedRole]
    at: datetime

    def has_pods(self, name: str) -> bool:
        """Return whether pods run there, or are to, that somebody waits for."""
        return any(pod.node == name and not (pod.is_daemon or pod.is_static) for pod in self.pods)
