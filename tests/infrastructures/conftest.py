"""Worlds that the contract is tried in: fakes of infrastructures, this machine, and libvirt for real."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import Protocol

import pytest

from tests.infrastructures.aws_world import aws_world
from tests.infrastructures.cloudstack_world import cloudstack_world, simulated
from tests.infrastructures.ironic.server import Server, ironic
from tests.infrastructures.ironic_world import ironic_world
from tests.infrastructures.kubernetes_world import KubernetesWorld
from tests.infrastructures.libvirt.daemon import Host, a_host, missing
from tests.infrastructures.libvirt.fake import FakeHost, FakeHosts
from tests.infrastructures.libvirt_world import LibvirtWorld, Made, on_libvirtd
from tests.infrastructures.local.conftest import data, image
from tests.infrastructures.local.stacks import Stack, left_of
from tests.infrastructures.metal_world import metal_world
from tests.infrastructures.nomad_world import nomad_world
from tests.infrastructures.ssh_world import ssh_world
from tests.infrastructures.this_machine import ThisMachine
from tests.infrastructures.toy.machines import ToyMachines
from tests.machine_faults import pull_plug
from tests.simulation.infrastructure import FakeInfrastructure
from tidepool.infrastructures import Infrastructure, Machine, MachineKey
from tidepool.infrastructures.local import kernel
from tidepool.simulation.machines import MachineRequest
from tidepool.testing import ensure_event_loop

__all__ = ["data", "image"]  # fixtures, which pytest finds here


@pytest.fixture(autouse=True)
def event_loop_of_the_thread() -> None:
    """There is one, as there is in a program."""
    ensure_event_loop()


class Makes(Infrastructure, Protocol):
    """An infrastructure, and what makes its machines: as programs do, but for a test."""

    def create(self, request: MachineRequest) -> Machine:
        """Make a machine run; for a node that has one, that one."""


class World(Protocol):
    """An infrastructure, and what happens to machines from outside."""

    stack: str

    @property
    def infrastructure(self) -> Makes: ...

    def stop(self, key: MachineKey) -> None:
        """Pull its plug."""

    def vanish(self, key: MachineKey) -> None:
        """Take it away without asking."""


@dataclass
class FakeWorld:
    infrastructure: FakeInfrastructure = field(default_factory=FakeInfrastructure)
    stack: str = "one"

    def stop(self, key: MachineKey) -> None:
        self.infrastructure.stop(key)

    def vanish(self, key: MachineKey) -> None:
        self.infrastructure.vanish(key)


@dataclass
class LocalWorld:
    infrastructure: ThisMachine
    stack: str

    def stop(self, key: MachineKey) -> None:
        pull_plug(self.infrastructure.data, key.stack, key.node)

    def vanish(self, key: MachineKey) -> None:
        kernel.delete_machine(self.infrastructure.data, key.stack, key.node)


@dataclass(frozen=True)
class MakingToys(ToyMachines):
    def create(self, request: MachineRequest) -> Machine:
        return self.make(request.key, str(request.address))


@dataclass
class ToyWorld:
    infrastructure: MakingToys
    stack: str = "one"

    def stop(self, key: MachineKey) -> None:
        self.infrastructure.stop(key)

    def vanish(self, key: MachineKey) -> None:
        self.infrastructure.delete(key)


def libvirt_world() -> LibvirtWorld:
    fake = FakeHosts(alpha=FakeHost(), beta=FakeHost())
    return LibvirtWorld(
        Made({"alpha": "qemu+ssh://root@alpha/system", "beta": "qemu+ssh://root@beta/system"}, fake)
    )


#: Worlds in memory, by name. Each is made anew for each test.
FAKES: Mapping[str, Callable[[], World]] = {
    "aws": aws_world,
    "fake": FakeWorld,
    "kubernetes": KubernetesWorld,
    "libvirt": libvirt_world,
}

#: Those that answer at an address, or are in a folder, for as long as a test lasts.
SERVED: Mapping[str, Callable[[], AbstractContextManager[World]]] = {
    "cloudstack": cloudstack_world,
    "metal": metal_world,
    "nomad": nomad_world,
    "ssh": ssh_world,
}


@pytest.fixture(scope="module")
def libvirtd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A real one. Skips where it cannot be."""
    if why := missing():
        pytest.skip(why)
    with a_host(tmp_path_factory.mktemp("host") / "h") as host:
        yield host


@pytest.fixture(scope="session")
def ironic_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real one, which takes its time to start."""
    with ironic(tmp_path_factory.mktemp("ironic")) as server:
        yield server


#: Those of real services that take their time.
_REAL = [pytest.param(name, marks=pytest.mark.slow) for name in ("ironic", "libvirtd")]


@pytest.fixture(params=[*FAKES, *SERVED, "cloudstack-simulator", "toy", "local", *_REAL])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param in FAKES:
        yield FAKES[request.param]()
        return
    if request.param in SERVED:
        with SERVED[request.param]() as served:
            yield served
        return
    if request.param == "cloudstack-simulator":
        with simulated() as somebodys:
            yield somebodys
        return
    if request.param == "toy":
        yield ToyWorld(MakingToys(request.getfixturevalue("tmp_path")))
        return
    if request.param == "ironic":
        with ironic_world(request.getfixturevalue("ironic_server")) as enrolled:
            yield enrolled
        return
    if request.param == "libvirtd":
        host: Host = request.getfixturevalue("libvirtd")
        with on_libvirtd(host, request.getfixturevalue("tmp_path")) as real:
            yield real
        return
    folder: Path = request.getfixturevalue("data")
    stack = Stack(folder, f"t{uuid.uuid4().hex[:8]}", request.getfixturevalue("image"))
    try:
        stack.network()
        yield LocalWorld(ThisMachine(folder, stack.image), stack.name)
    finally:
        stack.delete_all()
    assert left_of(stack) == []


def a_request(stack: str, number: int = 1) -> MachineRequest:
    key = MachineKey(stack, f"cpu-{number}")
    return MachineRequest(key, IPv4Address(f"10.77.1.{number}"), 1, 64, "image", "boot")
