"""Bare metal as a world of the contract: hosts behind the Redfish service of sushy-tools."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any

from tidepool.infrastructures import Machine, MachineKey
from tidepool.infrastructures.boot_media.media import Report, Task
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

    need: Need = field(default_factory=lambda: Need(1, 64))
    #: More of each order.
    order: dict[str, Any] = field(default_factory=dict)

    def create(self, request: MachineRequest) -> Machine:
        order = Order(request.key, self.need, tuple(self.hosts.entries), **self.order)
        return self.to_machine(self.hosts.take(order, self.waiting(self.delete_s)))


@dataclass(frozen=True, slots=True)
class Boots:
    """`tidepool.infrastructures.metal.tasks.Media` below ``base``: the nodes that hosts were booted as, where the resource has files."""

    base: str
    nodes: dict[str, str] = field(default_factory=dict)

    def publish(self, host: str, claim: Claim, task: Task) -> str:
        self.nodes[host] = claim.node
        return f"{self.base}{host}.iso"

    def begin(self, host: str, *, begun: bool) -> None:
        """Nothing is on disks."""

    def report(self, host: str, claim: Claim, task: Task) -> Report | None:
        return None

    def is_doing(self, host: str, claim: Claim, task: Task) -> bool:
        return False

    def may_have_written(self, host: str, claim: Claim) -> bool:
        return False

    def withdraw(self, host: str) -> None:
        """It is told what it was booted as while it does not answer, whatever came of that."""


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
        boots = Boots(made.url + BOOTS)
        hosts = Hosts({name: made.entry(name) for name in NAMES}, boots)
        address = lambda node: IPv4Address(f"10.77.1.{node.rpartition('-')[2]}")  # noqa: E731
        taken = Taken(
            hosts,
            address,
            lambda host: boots.nodes.get(host, ""),
            0.2,
            patience_s=0.0,
            sleep=lambda _: None,
        )
        yield MetalWorld(made, taken)
