"""The state of a cluster at one moment: of Slurm, Kubernetes, the infrastructure, Pulumi's state; and what a person wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from tidepool.clients.kubernetes.objects import Node as KubernetesNode
from tidepool.clients.kubernetes.objects import Pod
from tidepool.clients.slurm import Job, JobState, Node, NodeFlag, Partition, Reservation
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import HostlistError, HostSet, expand
from tidepool.cluster.roles import Role
from tidepool.cluster.spec import ClusterSpec
from tidepool.conversion.record import Conversion
from tidepool.infrastructures import Machine
from tidepool.scaling.usage import AccountUsage

_NOTHING: Final[FrozenDict[Any, Any]] = FrozenDict()


@dataclass(frozen=True, slots=True)
class Recorded:
    """The record of one node in Pulumi's state: its Machine, its Node (the membership), made from which image's digest.

    ``pending``: an operation on one of them was cut off. ``infrastructure`` is that of the machine, where it is known, and
    ``location`` which of its fleet's it is, by key; empty where the fleet has one. ``machine_id`` is the infrastructure's own
    id of it; empty where that is not known.
    """

    machine: bool = False
    membership: bool = False
    pending: bool = False
    image: str = ""
    infrastructure: str = ""
    location: str = field(default="", metadata={"stored_as": "place"})
    machine_id: str = ""
    #: Its machine is suspended, and its membership only says how it goes on.
    is_suspended: bool = False

    @property
    def is_empty(self) -> bool:
        """Return whether neither is there, and nothing is known to have been cut off."""
        return not (self.machine or self.membership or self.pending)

    def own_machines(self, listed: Sequence[Machine]) -> Sequence[Machine]:
        """Return those of the machines of its name that it is the record of.

        Where the recorded one is among them, no other: one that is back from the dead is none of it. Until then it is not
        known which are.
        """
        here = [
            each
            for each in listed
            if not self.infrastructure or each.key.infrastructure in ("", self.infrastructure)
        ]
        return [each for each in here if self.machine_id and each.machine_id == self.machine_id] or here


@dataclass(frozen=True, slots=True)
class RecordedRole:
    """The record of one machine of a converged pool in Pulumi's state: its Machine, and the role that it should have.

    ``role`` is None where it has no Role. ``pending``: an operation on one of them was cut off.
    """

    role: Role | None = None
    machine: bool = False
    pending: bool = False


@dataclass(frozen=True, slots=True)
class KubernetesState:
    """All nodes of Kubernetes; of its pods that have not ended those without a node, and those on pools'."""

    nodes: tuple[KubernetesNode, ...] = ()
    pods: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolsState:
    """The state of converged pools. Where one of the three is None, it could not be seen, and no machine moves."""

    #: By node name, every machine of every pool that is recorded.
    roles: Mapping[str, RecordedRole] | None = None
    kubernetes: KubernetesState | None = None
    #: When the look at Kubernetes began, in UTC: it is looked at beside the turns. None: with this look.
    kubernetes_at: datetime | None = None
    #: All conversions that are under way, and of each machine the newest that has ended and the newest that is done.
    conversions: tuple[Conversion, ...] | None = None
    #: What could not be seen and why, in words; empty where all was.
    unseen: str = ""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """One look. What could not be seen is None, which is not the same as nothing: unknown never removes.

    Without an answer of Slurm's there is no state at all: the daemon holds still.
    """

    #: When it was seen, in UTC.
    at: datetime
    #: What a person brought up last, and the policies that are in force.
    spec: ClusterSpec
    #: All of Slurm's nodes, slots too; all its jobs that have not ended.
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    partitions: tuple[Partition, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    #: The machines of nodes that the infrastructure lists, by its tags; not the cluster's own (ctl, login-1).
    machines: tuple[Machine, ...] | None = None
    #: Infrastructures that could not be asked for theirs, beside others that could.
    silent: frozenset[str] = frozenset()
    #: By node name.
    recorded: Mapping[str, Recorded] | None = None
    #: By fleet (`at_location`): the digest of the image that its machines are made from now, where it is known.
    images: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    #: By fleet: the nodes that should be there, as the scaler last said. A fleet that is missing has none.
    desired: Mapping[str, HostSet] = field(default_factory=lambda: _NOTHING, metadata={"stored_as": "wish"})
    #: Nodes that an `up` of ours is making or taking away at this moment.
    under_way: frozenset[str] = frozenset()
    #: Nodes that Slurm's power saving asks for (`power-up`) and gives back (`power-down`), in mode `power_save`.
    power_up: frozenset[str] = frozenset()
    power_down: frozenset[str] = frozenset()
    #: Of converged pools. Their nodes and machines are among those of Slurm and of the infrastructure as well.
    pools: PoolsState = field(default_factory=PoolsState)
    #: What accounts have used; None where none has a budget, or slurmdbd was not asked yet.
    usage: AccountUsage | None = None


def nodes_of(hostlist: str) -> tuple[str, ...]:
    """Return the names of a hostlist of Slurm's; none where it cannot be read."""
    try:
        return tuple(expand(hostlist)) if hostlist else ()
    except HostlistError:
        return ()


def job_nodes(job: Job) -> tuple[str, ...]:
    """Return the nodes that a job is on, or is about to be."""
    if not job.nodelist or job.state is JobState.PENDING or job.state.has_ended:
        return ()
    return nodes_of(job.nodelist)


def is_at_work(node: Node) -> bool:
    """Return whether something runs on a node, or is at its end."""
    return node.cpus_alloc > 0 or NodeFlag.COMPLETING in node.state.flags
