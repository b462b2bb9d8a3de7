"""What every infrastructure does with machines, what it promises, and the kinds of ways in which it fails.

For whoever does it (the provider), and whoever looks after it (the scaler, a sweep). Programs name machines
through `tidepool.components.infrastructure` instead.

The promises:

- **Idempotent by its key**: stack, node name and generation. Making a machine that is there gives the one that is
  there, even where an earlier answer was lost. No key ever has two machines.
- **Eventually consistent**: a machine that was made may not be seen for a while. Not seen is not gone, so who made
  it remembers it, and asks by its key.
- **A generation is one life of a name.** Another generation is made when the one before is deleted. One that comes
  back from the dead is told from its successor by its generation, and is deleted by it.
- **Deleting what is gone succeeds**, and deleting one generation touches no other.
- **Every machine carries its key**, by which a sweep finds those that no state knows.
- **Failures are of three kinds**: `InsufficientCapacity`, `Transient`, `Permanent`. After any of them the machine
  may be there or not; asking again by its key, or deleting it, is right in both cases.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv4Address
from typing import Literal, Protocol

from tidepool.cluster.slots import fleet_and_number


@dataclass(frozen=True, slots=True, order=True)
class MachineKey:
    """Which machine: the node name ``node`` of ``stack``, in its ``generation``, from 1.

    ``infrastructure`` says where, in a cluster that has several: no two of them know of each other's machines.
    """

    stack: str
    node: str
    generation: int = 1
    infrastructure: str = ""

    @property
    def fleet(self) -> str:
        """The fleet of the node, as its name tells it: `login` for login machines, empty for `ctl` and its like."""
        try:
            return fleet_and_number(self.node)[0]
        except ValueError:
            return ""

    def __str__(self) -> str:
        where = f" on {self.infrastructure}" if self.infrastructure else ""
        return f"{self.node} (generation {self.generation}) of stack {self.stack}{where}"


@dataclass(frozen=True, slots=True)
class MachineRequest:
    """A machine that should be there. ``image`` is a digest, ``boot`` the name of what it does when it boots."""

    key: MachineKey
    address: IPv4Address
    cpus: float
    memory_mib: int
    image: str
    boot: str


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as the infrastructure knows it. ``machine_id`` is its own name for it, and never given twice.

    One that is ``stopped`` keeps its disk, and runs again when it is created again. ``since`` is when it was made or
    last started, where the infrastructure says that; it is for people, and no part of what the machine is.
    """

    machine_id: str
    key: MachineKey
    address: IPv4Address
    state: Literal["running", "stopped"]
    since: datetime | None = field(default=None, compare=False)


class Infrastructure(Protocol):
    """The operations. Each raises one of the three kinds of `InfrastructureError`, and nothing else of its own."""

    def create(self, request: MachineRequest) -> Machine:
        """Make a machine run, or find the one that does. It boots by itself from then on.

        Raises:
            InsufficientCapacity: there is none to be had.
            Transient: it may be there now, or not.
            Permanent: another generation of it is there; or it cannot be.
        """
        ...

    def read(self, key: MachineKey) -> Machine | None:
        """The machine as it is now. None: it is not seen, which soon after its creation says nothing."""
        ...

    def list(self, stack: str) -> tuple[Machine, ...]:
        """All machines of a stack that are seen, by key: those too that no state knows."""
        ...

    def delete(self, key: MachineKey) -> None:
        """Take it away with its disk. One that is gone is no error.

        Raises:
            Transient: it may be there still.
            Permanent: it is kept from being deleted.
        """
        ...
