"""Operations on the machines that an infrastructure has: they are read, listed and deleted, whoever made them.

Programs make machines, through `tidepool.infrastructures.contract`; this is for who looks after them: the scaler, `status`,
`down`. The promises:

- **A machine is told from all others by its id**, which the infrastructure gives, once: the number of an instance or a
  domain, of a claim. The node's next machine has another one, so that one which comes back from the dead is never taken
  for its successor.
- **Every machine carries its key**, by which those are found that no state knows.
- **Eventually consistent**: a machine that was made may not be seen for a while. Not seen is not gone.
- **What cannot be seen is not left out**: of many hosts one may be silent. Then the call fails, or those machines that may be
  on it are listed as `unknown`, so that it hides no other (existing hosts). Where nothing answers, it fails.
- **Nobody else takes a job with it** by deleting a machine, where the API has what objects (`Descriptor.objects`): it refuses, or
  the machine goes on until its jobs have ended. What objects is given to a machine when it is made, and taken off before it
  is deleted here. Who is cut off in between leaves a machine that nothing keeps: the next deletion takes it.
- **Deleting what is gone succeeds**, and deleting a machine by its id touches no other of its name.
- **Failures are of three kinds**: `InsufficientCapacity`, `Transient`, `Permanent`. After any of them the machine
  may be there or not; asking again, or deleting it, is right in both cases.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv4Address
from typing import Final, Literal, Protocol

from tidepool.cluster.slots import fleet_and_number

#: Of a machine that does not say where it is.
NO_ADDRESS: Final = IPv4Address(0)


#: Of machines on which nothing runs.
DEAD: Final = frozenset({"suspended", "stopped"})


@dataclass(frozen=True, slots=True, order=True)
class MachineKey:
    """Key of the machine ``machine_id`` of the node ``node`` of ``stack``; without an id, of whichever is of that node.

    ``infrastructure`` says where, in a cluster that has several: no two of them know of each other's machines.
    """

    stack: str
    node: str
    machine_id: str = ""
    infrastructure: str = ""

    @property
    def fleet(self) -> str:
        """The fleet of the node, as its name tells it: `login` for login machines, empty for `ctl` and its like."""
        try:
            return fleet_and_number(self.node)[0]
        except ValueError:
            return ""

    def matches(self, machine: MachineKey) -> bool:
        """Return whether it is the key of a machine whose own key is ``machine``."""
        is_of_node = (self.stack, self.node) == (machine.stack, machine.node)
        return is_of_node and self.machine_id in ("", machine.machine_id)

    def __str__(self) -> str:
        machine = f" ({self.machine_id})" if self.machine_id else ""
        where = f" on {self.infrastructure}" if self.infrastructure else ""
        return f"{self.node}{machine} of stack {self.stack}{where}"


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as the infrastructure knows it; its key has its id.

    One that is ``stopped`` keeps its disk, unless it ``is_volatile``: its root is in memory, and what is on it goes with its power. One that is
    ``suspended`` keeps its memory as well. One that ``is_ending`` was deleted by somebody, and goes when its jobs have ended. One that is ``unknown`` may be there, and has no id: its host does not answer, and
    ``why`` says so. ``since`` is when it was made or last started, where the infrastructure says that; both are for people,
    and no part of what the machine is.
    """

    key: MachineKey
    address: IPv4Address
    state: Literal["running", "suspended", "stopped", "unknown"]
    since: datetime | None = field(default=None, compare=False)
    why: str = field(default="", compare=False)
    is_ending: bool = False
    is_volatile: bool = False

    @property
    def machine_id(self) -> str:
        return self.key.machine_id


class Infrastructure(Protocol):
    """The operations. Each raises one of the three kinds of `InfrastructureError`, and nothing else of its own."""

    def read(self, key: MachineKey) -> Machine | None:
        """Return the machine as it is now. None: it is not seen, which soon after its creation says nothing."""
        ...

    def list(self, stack: str) -> tuple[Machine, ...]:
        """Return all machines of a stack that are seen, by key: those too that no state knows."""
        ...

    def delete(self, key: MachineKey) -> None:
        """Delete it with its disk; without an id, all that the node has. One that is gone is no error.

        Raises:
            Transient: it may be there still.
            Permanent: it is kept from being deleted.
        """
        ...
