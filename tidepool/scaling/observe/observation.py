"""The outcome of a look, and the state that is decided on when what is remembered is put beside it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tidepool.clients.slurm import Job, Node, Partition, Reservation
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures import Machine
from tidepool.scaling.cluster_state import ClusterState, PoolsState, Recorded
from tidepool.scaling.ports import StackOutputs


@dataclass(frozen=True, slots=True)
class Observation:
    """One look. ``lag_s`` says, by source, how old what it says is."""

    told: StackOutputs
    spec: ClusterSpec
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    partitions: tuple[Partition, ...]
    reservations: tuple[Reservation, ...]
    machines: tuple[Machine, ...] | None
    recorded: Mapping[str, Recorded] | None
    pools: PoolsState
    lag_s: Mapping[str, float]
    #: What could not be seen, or is odd, in words: one for each source.
    complaints: Mapping[str, str]
    #: Infrastructures that could not be asked for their machines, beside others that could.
    silent: frozenset[str] = frozenset()

    def cluster_state(
        self,
        at: datetime,
        *,
        desired: Mapping[str, HostSet],
        under_way: frozenset[str],
        power_up: frozenset[str],
        power_down: frozenset[str],
    ) -> ClusterState:
        """Return what is decided on at ``at``: this look, and what nobody but the scaler knows."""
        return ClusterState(
            at=at,
            spec=self.spec,
            nodes=self.nodes,
            jobs=self.jobs,
            partitions=self.partitions,
            reservations=self.reservations,
            machines=self.machines,
            silent=self.silent,
            recorded=self.recorded,
            images=self.told.images,
            desired=desired,
            under_way=under_way,
            power_up=power_up,
            power_down=power_down,
            pools=self.pools,
        )
