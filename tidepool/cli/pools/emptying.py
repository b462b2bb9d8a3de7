"""Waits for the work on machines before their `up`: an hour's job holds nothing up but its own machine.

The first phases of a conversion change nothing in the graph. Where a machine has work that is waited for, they are gone
through here, beside all other operations of the stack; the `up` goes on from there as soon as the machine is empty.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Final

from tidepool.cli.cluster import find_machines
from tidepool.cli.context import Connection
from tidepool.cli.pools import Pools, open_conversions
from tidepool.cli.stack import Stack
from tidepool.clients.kubernetes.contract import KubernetesError
from tidepool.clients.slurm import SlurmError
from tidepool.cluster.roles import ROLES
from tidepool.conversion.convert import Parties, convert
from tidepool.conversion.kubernetes_side import KubernetesSide
from tidepool.conversion.machine import RoleProgram
from tidepool.conversion.ports import ConversionError
from tidepool.conversion.record import Conversion
from tidepool.conversion.slurm_side import SlurmSide
from tidepool.infrastructures.connection import transport

#: What cannot be asked here is told by the `up`, which asks as well.
_UNKNOWN: Final = (ConversionError, KubernetesError, SlurmError)


class _IsEmpty(Exception):
    """The rest is the graph's."""


class Emptying:
    """The conversions of ``nodes``, driven in a thread each."""

    def __init__(self, stack: Stack, pools: Pools, controller: Connection, nodes: Collection[str]) -> None:
        self._stack, self._pools, self._controller = stack, pools, controller
        self._ended: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
        self._number = len(nodes)
        # Once, and before anything begins: of machines elsewhere the stack's state is read.
        self._machines = dict(zip(nodes, find_machines(stack, nodes), strict=True))
        for node in nodes:
            threading.Thread(target=self._drive, args=(node,), name=f"empties {node}").start()

    def ready(self) -> Iterator[list[str]]:
        """The machines that are empty, as they come to be so: a list of those that the `up` is to go on with."""
        left = self._number
        while left:
            found = [self._ended.get()]
            while not self._ended.empty():
                found.append(self._ended.get())
            left -= len(found)
            if nodes := [node for node, goes_on in found if goes_on]:
                yield sorted(nodes)

    def _drive(self, node: str) -> None:
        goes_on = True
        try:
            with closing(open_conversions(self._stack)) as journal, self._parties(node) as parties:
                going = journal.under_way(node)
                if going is not None:
                    now = partial(datetime.now, UTC)
                    ended = convert(going, parties, journal, now=now, wait=time.sleep, told=_until_empty)
                    goes_on = ended.phase == "done"
        except _IsEmpty:
            pass
        except _UNKNOWN:
            pass  # the `up` goes on with it, and tells
        finally:
            self._ended.put((node, goes_on))

    @contextmanager
    def _parties(self, node: str) -> Iterator[Parties]:
        """Open the parties of a conversion until a machine is empty: nothing is put there, and nothing taken away."""
        pool = self._pools.machines[node]
        way = transport(self._machines[node], self._stack.data)
        machine = RoleProgram(way, node, lambda _role: ())
        with (
            closing(self._stack.open_slurm(self._controller)) as slurm,
            closing(self._stack.open_kubernetes(self._pools.kubernetes or {})) as kubernetes,
        ):
            side = KubernetesSide(
                kubernetes, node, pool.name, self._stack.name, lambda _token: None, pool.labels
            )
            yield Parties(machine, dict(zip(ROLES, (SlurmSide(slurm, node), side), strict=True)))


def _until_empty(conversion: Conversion) -> None:
    """Stop a conversion where it leaves its role."""
    if conversion.phase == "leaving":
        raise _IsEmpty
