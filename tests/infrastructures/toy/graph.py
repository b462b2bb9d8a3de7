"""Machines of the toy as resources of a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from pulumi import Input, Output, ResourceOptions

from tests.infrastructures.toy.machines import folder_of
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.contract import Boot, Infrastructure, Machine, MachineOrder, VolumeOrder
from tidepool.resources.model import Field, Model, Resource, given, output


class ToyMachineModel(Model):
    """Properties of a `ToyMachine`."""

    folder: Field[str] = given(replaces=True)
    stack: Field[str] = given(replaces=True)
    machine: Field[str] = given(replaces=True)
    address: Field[str] = given(replaces=True)
    boot: Field[str] = given()
    number: Field[str] = output()
    connection: Field[Mapping[str, Any]] = output(default={})


class ToyMachine(Resource, ToyMachineModel, token="tidepool:toy:Machine"):
    """A file that says that there is a machine. ``number`` is its id."""


@dataclass(frozen=True, slots=True)
class Toy:
    """`tidepool.infrastructures.contract.Infrastructure`, of files in ``folder``. Nothing but machines is made."""

    stack: str
    folder: str
    forms: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: ClusterSpec, stack: str) -> Infrastructure:
        return cls(stack, str(folder_of(spec)))

    def for_fleet(self, fleet: Fleet) -> Infrastructure:
        return self

    def image(self, name: str, digest: Input[str]) -> Output[str]:
        return Output.from_input(digest)

    def network(self, name: str, cidr: IPv4Network) -> Output[str]:
        return Output.from_input(name)

    def volume(self, order: VolumeOrder, opts: ResourceOptions | None = None) -> Output[str]:
        return Output.from_input(f"/volumes/{order.name}")

    def boot(self, name: str, boot: Boot, opts: ResourceOptions | None = None) -> Output[str]:
        return Output.from_input(name)

    def machine(self, order: MachineOrder, opts: ResourceOptions | None = None) -> Machine:
        made = ToyMachine(
            order.name,
            folder=self.folder,
            stack=self.stack,
            machine=order.name,
            address=str(order.address),
            boot=order.boot,
            opts=opts,
        )
        return Machine(made, made.number, Output.from_input(str(order.address)), made.connection)
