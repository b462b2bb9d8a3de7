"""The daemon's own turns, in the simulated cluster."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from datetime import datetime
from typing import Final

from tidepool.clients.slurm import SlurmClient
from tidepool.infrastructures import Infrastructure
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.daemon.loop import Loop
from tidepool.scaling.daemon.operations import Dependencies
from tidepool.scaling.decision import Decision
from tidepool.scaling.memory import Memory
from tidepool.scaling.observe.kubernetes_watch import AtOnce, KubernetesWatch
from tidepool.scaling.observe.observe import Observer, PoolDoors
from tidepool.scaling.ports import Journal, Stack, UpOutcome
from tidepool.simulation.cluster import SimulatedCluster

#: A real daemon renews its lease all the time. Here it looks when there is something to see, once an hour at least.
_LEASE_S: Final = 2 * 3600.0


def simulated_scaler(
    cluster: SimulatedCluster,
    *,
    decide: Callable[[ClusterState, Memory], Decision],
    remember: Callable[[Memory, UpOutcome, datetime], Memory],
    holder: str = "simulated",
    slurm: SlurmClient | None = None,
    stack: Stack | None = None,
    machines: Infrastructure | None = None,
    journal: Journal | None = None,
    beside: Executor | None = None,
    say: Callable[..., None] = lambda *_, **__: None,
    lease_s: float = _LEASE_S,
) -> Loop:
    """A daemon that was just started. Its edges are the cluster's, or such as fail in between."""
    found_machines = machines or cluster.machines
    found_stack = stack or cluster.stack
    observer = Observer(
        cluster.stack.name,
        found_stack,
        found_machines,
        lambda _: slurm or cluster.slurm,
        monotonic_s=cluster.clock.monotonic_s,
        pools=_doors(cluster),
        now=cluster.clock,
    )
    return Loop(
        Dependencies(
            holder=holder,
            journal=journal or cluster.journal,
            observer=observer,
            stack=found_stack,
            machines=found_machines,
            decide=decide,
            remember=remember,
            beside=beside or cluster.executor,
            now=cluster.clock,
            monotonic_s=cluster.clock.monotonic_s,
            say=say,
            lease_s=lease_s,
        )
    )


def _doors(cluster: SimulatedCluster) -> PoolDoors | None:
    pools = cluster.pools
    if pools is None:
        return None
    watch = KubernetesWatch(lambda _: pools.kubernetes, AtOnce(), cluster.clock.monotonic_s)
    return PoolDoors(watch, pools.open_journal)
