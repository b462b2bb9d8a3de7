"""CloudStack as a world of the contract: over the stand-in, and over a simulator of the real one where somebody has it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cs.client import CloudStack

from tests.infrastructures.cloudstack.cloud import Cloud
from tests.infrastructures.cloudstack.server import KEY, SECRET, served
from tidepool.infrastructures import Machine, MachineKey
from tidepool.infrastructures.cloudstack.api import Api, ApiLocation
from tidepool.infrastructures.cloudstack.machine import Order, group_of, take
from tidepool.infrastructures.cloudstack.machines import CloudStackMachines, to_machine
from tidepool.simulation.machines import MachineRequest

#: Of a simulator: its endpoint, whose keys `cs` finds, and where its name is, a zone, an offering and a template of it.
SIMULATOR = "TIDEPOOL_CLOUDSTACK_SIMULATOR"


@dataclass(frozen=True, slots=True)
class Made(CloudStackMachines):
    """VMs of one network, template and offering, by their ids."""

    parts: dict[str, Any] = field(default_factory=dict)

    def create(self, request: MachineRequest) -> Machine:
        order = Order(
            request.key,
            str(request.address),
            cpus=int(request.cpus),
            memory_mib=request.memory_mib,
            **self.parts,
        )
        return to_machine(take(self.api, order, self.waiting(self.delete_s)))


@dataclass
class CloudStackWorld:
    """`tests.infrastructures.conftest.World`."""

    cloud: Cloud
    infrastructure: Made
    stack: str = "one"

    def stop(self, key: MachineKey) -> None:
        self.cloud.power_off(key.node)

    def vanish(self, key: MachineKey) -> None:
        self.cloud.take_away(key.node)

    def delete_outside(self, key: MachineKey) -> None:
        self.infrastructure.api.call("destroyVirtualMachine", id=self.cloud.vm(key.node)["id"], expunge=True)


@dataclass
class SimulatorWorld:
    """The same of a real management server; what happens from outside is told to it as well."""

    infrastructure: Made
    stack: str

    def stop(self, key: MachineKey) -> None:
        self._do("stopVirtualMachine", key, forced=True)

    def vanish(self, key: MachineKey) -> None:
        found = self.infrastructure.read(key)
        assert found is not None
        self.infrastructure.api.call("updateVirtualMachine", id=found.machine_id, deleteprotection=False)
        self.delete_outside(key)

    def delete_outside(self, key: MachineKey) -> None:
        self._do("destroyVirtualMachine", key, expunge=True)

    def _do(self, command: str, key: MachineKey, **more: Any) -> None:
        found = self.infrastructure.read(key)
        assert found is not None
        self.infrastructure.api.do(command, self.infrastructure.waiting(300), id=found.machine_id, **more)


def client(endpoint: str) -> Api:
    """The API at ``endpoint``, with the stand-in's keys."""
    return Api(CloudStack(endpoint, KEY, SECRET, method="post"), sleep=lambda _: None)


@contextmanager
def cloudstack_world() -> Iterator[CloudStackWorld]:
    """With a network, and a template that is ready."""
    cloud = Cloud()
    cloud.images["http://images/debian.qcow2"] = "d" * 64
    with served(cloud) as endpoint:
        api = client(endpoint)
        network = api.call(
            "createNetwork",
            name=group_of("one"),
            networkofferingid=cloud.network_offerings[0]["id"],
            zoneid=cloud.zone["id"],
            gateway="10.77.0.1",
            netmask="255.255.0.0",
        )
        template = api.call(
            "registerTemplate",
            name="debian",
            url="http://images/debian.qcow2",
            format="QCOW2",
            hypervisor="KVM",
        )
        parts = {
            "zone": cloud.zone["id"],
            "network": network["network"]["id"],
            "template": template["template"][0]["id"],
            "offering": cloud.service_offerings[2]["id"],
        }
        yield CloudStackWorld(cloud, Made(api, sleep=lambda _: None, parts=parts))


@contextmanager
def simulated() -> Iterator[SimulatorWorld]:
    """The world of the simulator that the environment names; else of the stand-in, so that its own steps are tried in any case."""
    if SIMULATOR in os.environ:
        with simulator_world(ApiLocation(os.environ[SIMULATOR]).open()) as world:
            yield world
        return
    cloud = Cloud()
    cloud.templates["t"] = {"id": "t", "name": "CentOS", "isready": True, "hypervisor": "KVM", "tags": []}
    with served(cloud) as endpoint, simulator_world(client(endpoint)) as world:
        yield world
    assert (cloud.vms, cloud.networks) == ({}, {})


def _named(what: str, found: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The one that the environment names, or the first."""
    return next(each for each in found if each["name"] == os.environ.get(f"{SIMULATOR}_{what}", each["name"]))


@contextmanager
def simulator_world(api: Api) -> Iterator[SimulatorWorld]:
    """With a network of its own, which goes at the end."""
    stack = f"t{uuid.uuid4().hex[:8]}"
    zone = _named("ZONE", api.listed("listZones"))
    template = _named("TEMPLATE", api.listed("listTemplates", templatefilter="executable", zoneid=zone["id"]))
    offering = _named("OFFERING", api.listed("listServiceOfferings"))
    of_network = next(
        each
        for each in api.listed("listNetworkOfferings")
        if each["name"] == "DefaultIsolatedNetworkOfferingWithSourceNatService"
    )
    network = api.call(
        "createNetwork",
        name=group_of(stack),
        networkofferingid=of_network["id"],
        zoneid=zone["id"],
        gateway="10.77.0.1",
        netmask="255.255.0.0",
    )["network"]["id"]
    parts = {"zone": zone["id"], "network": network, "template": template["id"], "offering": offering["id"]}
    world = SimulatorWorld(Made(api, delete_s=600, parts=parts), stack)
    try:
        yield world
    finally:
        for machine in world.infrastructure.list(stack):
            world.infrastructure.delete(machine.key)
        api.do("deleteNetwork", world.infrastructure.waiting(300), id=network)
