"""Bare metal as a world of the contract: hosts behind the Redfish service of sushy-tools."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from tidepool.infrastructures import Machine, MachineKey
from tidepool.infrastructures.metal.inventory import Claim, Need
from tidepool.infrastructures.metal.machine import Hosts, Order
from tidepool.infrastructures.metal.machines import MetalMachines
from tidepool.simulation.machines import MachineRequest

if TYPE_CHECKING:
    from tests.infrastructures.metal.bmcs import Bmcs

NAMES = ("alpha", "beta", "gamma")


@dataclass(frozen=True, slots=True)
class Taken(MetalMachines):
    """Hosts that are taken as the resource tidepool:metal:Machine does."""

    base: str = ""
    need: Need = field(default_factory=lambda: Need(1, 64))
    #: The nodes that hosts were booted as, where the resource has a file.
    boots: dict[str, str] = field(default_factory=dict)

    def create(self, request: MachineRequest) -> Machine:
        order = Order(
            request.key, self.need, tuple(self.hosts.entries), lambda host: f"{self.base}{host}.iso"
        )
        held = self.hosts.take(order, self.waiting(self.delete_s))
        self.boots[held.host] = request.key.node
        return self.to_machine(held)


@dataclass
class MetalWorld:
    """`tests.infrastructures.conftest.World`."""

    bmcs: Bmcs
    infrastructure: Taken
    stack: str = "one"

    def stop(self, key: MachineKey) -> None:
        self.bmcs.change(self.host(key), power_state="Off")

    def vanish(self, key: MachineKey) -> None:
        """Somebody cleared its tag, and switched it off."""
        host = self.host(key)
        self.bmcs.tags[host] = ""
        self.bmcs.change(host, power_state="Off")

    def host(self, key: MachineKey) -> str:
        """Which one a machine that is there has."""
        found = self.infrastructure.read(key)
        assert found is not None
        return found.machine_id.partition("/")[0]

    def leave(self, count: int) -> None:
        """So many hosts; all others are another stack's by now."""
        for at, name in enumerate(NAMES[count:]):
            self.bmcs.tags[name] = str(Claim("another", f"cpu-{at}", f"{at:08x}"))


@contextmanager
def metal_world() -> Iterator[MetalWorld]:
    """Three hosts."""
    # A second of imports, which worlds of others are spared.
    from tests.infrastructures.metal.bmcs import BOOTS, bmcs

    with bmcs(*NAMES) as made:
        hosts = Hosts({name: made.entry(name) for name in NAMES})
        boots: dict[str, str] = {}
        address = lambda node: IPv4Address(f"10.77.1.{node.rpartition('-')[2]}")  # noqa: E731
        taken = Taken(
            hosts,
            address,
            lambda host: boots.get(host, ""),
            0.2,
            patience_s=0.0,
            sleep=lambda _: None,
            base=made.url + BOOTS,
            boots=boots,
        )
        yield MetalWorld(made, taken)
