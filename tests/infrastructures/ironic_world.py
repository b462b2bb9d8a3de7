"""Ironic as a world of the contract: a real one, whose nodes are hosts behind the Redfish service of sushy-tools."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any, Final

import requests
from requests.adapters import HTTPAdapter

from tidepool.infrastructures import Machine, MachineKey
from tidepool.infrastructures.ironic.api import IronicLocation
from tidepool.infrastructures.ironic.inventory import Need
from tidepool.infrastructures.ironic.machine import Hosts, Order
from tidepool.infrastructures.ironic.machines import IronicMachines
from tidepool.simulation.machines import MachineRequest

if TYPE_CHECKING:
    from tests.infrastructures.ironic.server import Server
    from tests.infrastructures.metal.bmcs import Bmcs

NAMES: Final = ("alpha", "beta", "gamma")


class Faults(HTTPAdapter):
    """The way to Ironic. ``lose`` so many answers to PATCHes are lost after they were done; ``status`` is that of all answers.

    While it is ``down``, nothing answers.
    """

    lose = 0
    down = False
    status = 0

    def send(self, request: Any, *args: Any, **more: Any) -> Any:
        if self.down:
            raise requests.ConnectionError("connection refused")
        answer = super().send(request, *args, **more)
        if self.lose and request.method == "PATCH":
            self.lose -= 1
            raise requests.ConnectionError("connection reset")
        if self.status:
            answer.status_code = self.status
        return answer


@dataclass(frozen=True, slots=True)
class Taken(IronicMachines):
    """Nodes of Ironic that are taken as the resource tidepool:ironic:Machine does; their BMCs fetch what they boot at ``base``."""

    base: str = ""
    need: Need = field(default_factory=lambda: Need(1, 64))
    names: tuple[str, ...] = ()

    def create(self, request: MachineRequest) -> Machine:
        order = Order(request.key, self.need, self.names, lambda instance, _: f"{self.base}{instance}.iso")
        return self.to_machine(self.hosts.take(order, self.waiting(self.delete_s)))


@dataclass
class IronicWorld:
    """`tests.infrastructures.conftest.World`; ``server`` is the Ironic."""

    bmcs: Bmcs
    infrastructure: Taken
    server: Server
    faults: Faults
    stack: str = "one"

    def stop(self, key: MachineKey) -> None:
        self.server.power(self.host(key), "power off")

    def vanish(self, key: MachineKey) -> None:
        """Somebody undeploys it."""
        self.server.provision(self.host(key), "deleted", "available")

    def host(self, key: MachineKey) -> str:
        """The name of the one that a machine has."""
        (held,) = self.infrastructure.hosts.find(key.stack, key.node)
        return held.host.name

    def leave(self, count: int) -> None:
        """So many hosts; all others have somebody's instance by now."""
        for name in NAMES[count:]:
            self.server.change(name, "/instance_uuid", str(uuid.uuid4()))


@contextmanager
def ironic_world(server: Server) -> Iterator[IronicWorld]:
    """Three hosts, enrolled and available."""
    from tests.infrastructures.metal.bmcs import BOOTS, bmcs

    with bmcs(*NAMES) as made:
        with ThreadPoolExecutor(len(NAMES)) as threads:
            list(threads.map(lambda name: enrolled(server, made, name), NAMES))
        try:
            api = IronicLocation("site", str(server.clouds_file)).open()
            faults = Faults()
            api.connection.session.session.mount("http://", faults)  # type: ignore[attr-defined]
            address = lambda node: IPv4Address(f"10.77.1.{node.rpartition('-')[2]}")  # noqa: E731
            taken = Taken(Hosts(api), address, again_s=0.5, base=made.url + BOOTS)
            yield IronicWorld(made, taken, server, faults)
        finally:
            for node in server.ask("GET", "/nodes?fields=uuid,protected")["nodes"]:
                remove(server, node)


def enrolled(server: Server, made: Bmcs, name: str, **more: Any) -> None:
    """Enrol a host of those BMCs as a node of Ironic that is available; with ``more`` properties of it."""
    from tests.infrastructures.metal.bmcs import PASSWORD, ROOT, USER

    told = {
        "redfish_address": made.url,
        "redfish_system_id": ROOT + name,
        "redfish_username": USER,
        "redfish_password": PASSWORD,
    }
    known = {"cpus": 16, "memory_mb": 64 * 1024}
    body = {"name": name, "driver": "redfish", "driver_info": told, "properties": known, **more}
    node = server.ask("POST", "/nodes", body)
    server.ask("POST", "/ports", {"node_uuid": node["uuid"], "address": made.entry(name).mac})
    server.provision(name, "manage", "manageable")
    server.provision(name, "provide", "available")


def remove(server: Server, node: Mapping[str, Any]) -> None:
    """Forget a node, whatever it does."""
    if node["protected"]:
        server.change(node["uuid"], "/protected", False)
    server.ask("PUT", f"/nodes/{node['uuid']}/maintenance", {})
    server.ask("DELETE", f"/nodes/{node['uuid']}")
