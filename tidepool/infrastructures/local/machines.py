"""The machines of this machine as the infrastructure that the scaler looks at and sweeps.

They are made by the provider's resources; here they are found and deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

from tidepool.cluster.failures import Permanent, Transient
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures import Infrastructure, Machine, MachineKey, MachineRequest
from tidepool.infrastructures.local import kernel
from tidepool.infrastructures.local.kernel.layout import machine_place

#: On a machine's disk: its key, where its maker counts generations.
KEY_FILE: Final = "/etc/tidepool/machine"
#: Of a machine whose record was lost.
_NO_ADDRESS: Final = IPv4Address(0)


def machines_of(_spec: ClusterSpec, _stack: str, data: Path) -> Infrastructure:
    """The machines of stacks on this machine, which has them in ``data``."""
    return ThisMachine(data)


@dataclass(frozen=True, slots=True)
class ThisMachine:
    """`tidepool.infrastructures.Infrastructure`, of ``data``. A name has one machine here, so one life at a time.

    Machines that say nothing of their generation are in their first.
    """

    data: Path

    def create(self, request: MachineRequest) -> Machine:
        """Only the provider makes them, which knows images and boots.

        Raises:
            Permanent: always.
        """
        raise Permanent(f"{request.key}: machines here are made by the resource tidepool:local:Machine")

    def read(self, key: MachineKey) -> Machine | None:
        with kinds_of_failures():
            found = kernel.read_machine(self.data, key.stack, key.node)
        return told(found, key) if found and self._key(key.stack, key.node) == key else None

    def list(self, stack: str) -> tuple[Machine, ...]:
        with kinds_of_failures():
            found = kernel.list_machines(self.data, stack)
        machines = (told(each, self._key(stack, each.name)) for each in found)
        return tuple(sorted(machines, key=lambda machine: machine.key))

    def delete(self, key: MachineKey) -> None:
        if self._key(key.stack, key.node) == key:
            with kinds_of_failures():
                kernel.delete_machine(self.data, key.stack, key.node)

    def _key(self, stack: str, node: str) -> MachineKey:
        return key_on_disk(self.data, stack, node) or MachineKey(stack, node)


def key_on_disk(data: Path, stack: str, node: str) -> MachineKey | None:
    """The key that a machine has on its disk."""
    disk = machine_place(data, stack, node).upper
    try:
        return MachineKey(**json.loads((disk / KEY_FILE.lstrip("/")).read_text()))
    except FileNotFoundError:
        return None


def told(machine: kernel.Machine, key: MachineKey) -> Machine:
    """A machine in the words of the contract."""
    machine_id = f"{key.stack}/{key.node}/{key.generation}"
    runs = machine.state not in ("dead", "half-made")
    address = IPv4Address(machine.address) if machine.address else _NO_ADDRESS
    return Machine(machine_id, key, address, "running" if runs else "stopped")


@contextmanager
def kinds_of_failures() -> Iterator[None]:
    """The kinds of failures that the contract knows."""
    try:
        yield
    except (kernel.TimedOut, kernel.BootFailed) as error:
        raise Transient(str(error)) from error
    except kernel.LocalError as error:
        raise Permanent(str(error)) from error
