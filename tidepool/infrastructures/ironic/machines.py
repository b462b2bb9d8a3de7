"""The machines of Ironic as the infrastructure that the scaler looks at and sweeps: its nodes, by the claims on them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import Literal

from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures import Infrastructure, Machine, MachineKey
from tidepool.infrastructures.boot_media.waiting import Wait, waiting_for
from tidepool.infrastructures.ironic.inventory import ON
from tidepool.infrastructures.ironic.machine import Held, Hosts
from tidepool.infrastructures.ironic.reading import location_of, read_options
from tidepool.infrastructures.machines import NO_ADDRESS
from tidepool.infrastructures.reading import addresses_of


def machines_of(spec: ClusterSpec, _stack: str, _data: Path) -> Infrastructure:
    """The machines of all nodes that the site's Ironic shows. Whose they are, it says.

    Raises:
        Permanent: nobody says who may use it.
    """
    return IronicMachines(Hosts(location_of(read_options(spec).place).open()), addresses_of(spec))


@dataclass(frozen=True, slots=True)
class IronicMachines:
    """`tidepool.infrastructures.Infrastructure`, of nodes of Ironic; ``address_of`` gives a node's address.

    Where Ironic does not answer, all of it fails: nobody else knows.
    """

    hosts: Hosts
    address_of: Callable[[str], IPv4Address | None] = lambda _: None
    #: Ironic switches it off, and waits for that.
    delete_s: float = 300.0
    again_s: float = 2.0
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def read(self, key: MachineKey) -> Machine | None:
        found = [held for held in self.hosts.find(key.stack, key.node) if key.matches(held.key)]
        return self.to_machine(found[0]) if found else None

    def list(self, stack: str) -> tuple[Machine, ...]:
        found = (self.to_machine(held) for held in self.hosts.find(stack))
        return tuple(sorted(found, key=lambda machine: machine.key))

    def delete(self, key: MachineKey) -> None:
        self.hosts.delete(key, self.waiting(self.delete_s))

    def waiting(self, for_s: float) -> Wait:
        """Return what waits, for so long in all."""
        return waiting_for(for_s, self.again_s, self.sleep)

    def to_machine(self, held: Held) -> Machine:
        """A node of Ironic in the words of the contract. Of one whose BMC is silent the last is known that it said."""
        host = held.host
        address = self.address_of(held.claim.node) or NO_ADDRESS
        why = (
            f"in maintenance: {host.maintenance_reason or host.fault}"
            if host.is_in_maintenance
            else host.last_error
        )
        state: Literal["running", "stopped"] = "running" if host.power == ON else "stopped"
        return Machine(held.key, address, state, why=why, is_volatile=True)
