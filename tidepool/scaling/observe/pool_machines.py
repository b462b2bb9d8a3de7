"""Has `kubectl get poolmachines` tell where machines of pools are: of each what the scaler saw and decided, in a thread of its own.

It writes what has changed, and looks now and then whether somebody else wrote something else. One that cannot write is silent:
what people see is nothing that anything is decided by.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Final

from tidepool.clients.kubernetes.contract import KubernetesClient, KubernetesError
from tidepool.clients.kubernetes.objects import PoolMachine
from tidepool.cluster.roles import Role
from tidepool.conversion.journal import Journal
from tidepool.conversion.pool_machines import node_word, pool_machine, show
from tidepool.conversion.ports import ConversionError
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.reconcile import running_jobs
from tidepool.scaling.decision import Decision

#: Where nothing changed; and after a failure.
_AGAIN_S: Final = 30.0
#: Of a machine's conversions, so many are looked at for the one that gave it its role.
_KNOWN: Final = 20
_AMISS: Final = frozenset({"held", "ill", "unknown"})

OpenKubernetes = Callable[[Mapping[str, Any]], KubernetesClient]


@dataclass(frozen=True, slots=True)
class PoolMachineState:
    """A machine of a pool, as far as it is known without its conversions; ``moves`` tells whether these have changed."""

    name: str
    pool: str
    role: Role | None
    node: str
    jobs: tuple[int, ...]
    amiss: str
    moves: tuple[tuple[int, str, str], ...]


def pool_machine_states(cluster: ClusterState, decision: Decision) -> tuple[PoolMachineState, ...]:
    """Return what is to be told of each machine of a pool. Pure."""
    seen = cluster.pools.kubernetes
    nodes = {node.name: node for node in seen.nodes} if seen is not None else {}
    running = running_jobs(cluster.jobs)
    moves: dict[str, list[tuple[int, str, str]]] = {}
    for each in cluster.pools.conversions or ():
        moves.setdefault(each.order.node, []).append((each.id, each.phase, each.text))
    return tuple(
        PoolMachineState(
            name,
            view.pool,
            view.role,
            node_word(nodes.get(name)) if seen is not None else "Unknown",
            tuple(job.job_id for job in running.get(name, ())),
            view.reason if view.standing in _AMISS else "",
            tuple(moves.get(name, ())),
        )
        for name, view in sorted(decision.machines.items())
    )


class PoolMachinesWriter:
    """Writes the newest of what it is handed, one after the other. `show` and `close` are called by one thread."""

    def __init__(
        self,
        stack: str,
        open_kubernetes: OpenKubernetes,
        open_conversions: Callable[[], Journal],
        monotonic_s: Callable[[], float],
    ) -> None:
        self._stack = stack
        self._open = open_kubernetes
        self._open_conversions = open_conversions
        self._monotonic_s = monotonic_s
        self._written: tuple[Mapping[str, Any], tuple[PoolMachineState, ...]] | None = None
        self._at_s = float("-inf")
        self._thread: threading.Thread | None = None

    def show(self, access: Mapping[str, Any], machines: tuple[PoolMachineState, ...]) -> None:
        """Have ``machines`` be shown by the Kubernetes that ``access`` leads to; where one write is under way, not yet."""
        if self._thread is not None and self._thread.is_alive():
            return
        if (access, machines) == self._written and self._monotonic_s() - self._at_s < _AGAIN_S:
            return
        self._written, self._at_s = (access, machines), self._monotonic_s()
        # Whoever ends does not wait for it.
        self._thread = threading.Thread(
            target=self._write, args=(access, machines), name="pool-machines", daemon=True
        )
        self._thread.start()

    def close(self, patience_s: float = 2.0) -> None:
        """Let what is being written be written, for a while."""
        if self._thread is not None:
            self._thread.join(patience_s)

    def _write(self, access: Mapping[str, Any], machines: tuple[PoolMachineState, ...]) -> None:
        with suppress(KubernetesError, ConversionError, OSError), closing(self._open(access)) as client:
            show(client, self._stack, self._pool_machines(machines))

    def _pool_machines(self, machines: tuple[PoolMachineState, ...]) -> list[PoolMachine]:
        with closing(self._open_conversions()) as journal:
            return [
                pool_machine(
                    each.name,
                    each.pool,
                    self._stack,
                    each.role,
                    journal.conversions(node=each.name, limit=_KNOWN),
                    node=each.node,
                    jobs=each.jobs,
                    amiss=each.amiss,
                )
                for each in machines
            ]
