"""The machines of CloudStack as the infrastructure that the scaler looks at and sweeps: VMs, by their group and their tags."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv4Address
from pathlib import Path

from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures import Machine, MachineKey
from tidepool.infrastructures.cloudstack.api import Api, ApiLocation
from tidepool.infrastructures.cloudstack.machine import Vm, delete, find
from tidepool.infrastructures.cloudstack.reading import read_options
from tidepool.infrastructures.machines import NO_ADDRESS


def machines_of(spec: ClusterSpec, _stack: str, _data: Path) -> CloudStackMachines:
    """The machines of that spec's owner. Whose they are, they say themselves.

    Raises:
        Permanent: there are no keys.
    """
    return CloudStackMachines(ApiLocation.of(read_options(spec).place).open())


@dataclass(frozen=True, slots=True)
class CloudStackMachines:
    """`tidepool.infrastructures.Infrastructure`."""

    api: Api
    delete_s: float = 120.0
    again_s: float = 1.0
    sleep: Callable[[float], None] = time.sleep

    def read(self, key: MachineKey) -> Machine | None:
        found = [vm for vm in find(self.api, key.stack, key.node) if not vm.is_gone and key.matches(vm.key)]
        return to_machine(found[0]) if found else None

    def list(self, stack: str) -> tuple[Machine, ...]:
        found = (to_machine(vm) for vm in find(self.api, stack) if not vm.is_gone)
        return tuple(sorted(found, key=lambda machine: machine.key))

    def delete(self, key: MachineKey) -> None:
        delete(self.api, key, self.waiting(self.delete_s))

    def waiting(self, for_s: float) -> Callable[[str], bool]:
        """Return what waits, for so long in all."""
        ends = time.monotonic() + for_s

        def wait(_: str) -> bool:
            self.sleep(self.again_s)
            return time.monotonic() < ends

        return wait


def to_machine(vm: Vm) -> Machine:
    """A VM in the words of the contract. One in error never ran, and is there to be swept."""
    runs = vm.state in ("Running", "Starting", "Migrating")
    since = datetime.fromisoformat(vm.created) if vm.created else None
    return Machine(
        vm.key,
        IPv4Address(vm.address) if vm.address else NO_ADDRESS,
        "running" if runs else "stopped",
        since,
    )
