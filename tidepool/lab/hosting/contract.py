"""`Hosting`: all that a laboratory asks of machines by way of the host that they are on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tidepool.clients.slurm import Transport


class Hosting(Protocol):
    """Machines of a pool, all of which are on this host. Of a stack that is not up, each call but `way` may fail.

    All may raise `tidepool.lab.errors.SchedulerFailed`.
    """

    @property
    def has_own_clocks(self) -> bool:
        """Whether each machine has a clock of its own, which is not the host's."""
        ...

    @property
    def unbound(self) -> str:
        """Why machines cannot be bound to processors, with the remedy; empty where they can."""
        ...

    def way(self, machine: str) -> Transport:
        """Return the way to run commands on a machine. Nothing is asked yet."""
        ...

    def kill(self, machine: str) -> None:
        """End it at once, as if its plug was pulled."""
        ...

    def start(self, machine: str) -> None:
        """Have one that was killed boot again, where an `up` does not do that; it need not be up when this returns."""
        ...

    def bind(self, machine: str) -> tuple[int, ...]:
        """Bind it to its processors of the host, and return those."""
        ...

    def cpu_s(self) -> float:
        """Return the processor time of all machines of the stack on this host, in seconds; it only grows."""
        ...

    def processes(self) -> frozenset[int]:
        """Return the ids of all processes of this host that machines of the stack are made of."""
        ...

    def images(self) -> Mapping[str, str]:
        """Return by machine what its image is: the digest, or what is told of that."""
        ...
