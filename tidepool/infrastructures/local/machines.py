"""The machines of this machine as the infrastructure that the scaler looks at and sweeps.

They are made by the provider's resources; here they are found and deleted.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures import Infrastructure, Machine, MachineKey
from tidepool.infrastructures.failures import by_words
from tidepool.infrastructures.local import kernel
from tidepool.infrastructures.machines import NO_ADDRESS

#: This machine has no room for one more: disk, memory, processes, files.
_NO_ROOM: Final = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.ENOMEM,
    errno.EAGAIN,
    errno.EMFILE,
    errno.ENFILE,
    errno.EUSERS,
)
#: A person has to do something about it.
_NOT_ALLOWED: Final = (errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOSYS, errno.EOPNOTSUPP)

#: The provider marks most of its failures with their causes; these are those that the kernel answers. What is not known may be gone
#: the next time.
kind_of: Final = by_words(
    (InsufficientCapacity, map(os.strerror, _NO_ROOM)),
    (Permanent, map(os.strerror, _NOT_ALLOWED)),
    otherwise=Transient,
    flags=0,
)


def machines_of(_spec: ClusterSpec, _stack: str, data: Path) -> Infrastructure:
    """The machines of stacks on this machine, which has them in ``data``."""
    return ThisMachine(data)


@dataclass(frozen=True, slots=True)
class ThisMachine:
    """`tidepool.infrastructures.Infrastructure`, of ``data``. A node has one machine at a time; its id is in its record.

    A machine of a release that gave no ids has none until it boots again: it is known by its name alone.
    """

    data: Path

    def read(self, key: MachineKey) -> Machine | None:
        with kinds_of_failures():
            found = kernel.read_machine(self.data, key.stack, key.node)
        machine = _to_contract(found) if found else None
        return machine if machine is not None and key.matches(machine.key) else None

    def list(self, stack: str) -> tuple[Machine, ...]:
        with kinds_of_failures():
            found = kernel.list_machines(self.data, stack)
        return tuple(sorted(map(_to_contract, found), key=lambda machine: machine.key))

    def delete(self, key: MachineKey) -> None:
        with kinds_of_failures():
            kernel.delete_machine(self.data, key.stack, key.node, machine_id=key.machine_id)


def _to_contract(machine: kernel.Machine) -> Machine:
    key = MachineKey(machine.stack, machine.name, machine.machine_id)
    runs = machine.state not in ("dead", "half-made")
    address = IPv4Address(machine.address) if machine.address else NO_ADDRESS
    return Machine(key, address, "running" if runs else "stopped")


@contextmanager
def kinds_of_failures() -> Iterator[None]:
    """The kinds of failures that the contract knows."""
    try:
        yield
    except (kernel.TimedOut, kernel.BootFailed) as error:
        raise Transient(str(error)) from error
    except kernel.LocalError as error:
        raise Permanent(str(error)) from error
