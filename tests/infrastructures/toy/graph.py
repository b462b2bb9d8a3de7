"""Machines of the toy as resources of a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

import pulumi
from pulumi import Input, Output, ResourceOptions

from tests.infrastructures.toy.machines import folder_of
from tidepool.cluster.spec import ClusterSpec, Fleet
from tidepool.infrastructures.boot import Boot
from tidepool.infrastructures.contract import Infrastructure, Machine, MachineOrder, VolumeOrder


class ToyMachine(pulumi.CustomResource):
    """A file that says that there is a machine. ``number`` is its id."""

    number: Output[str]
    connection: Output[Mapping[str, Any]]

    def __init__(self, name: str, opts: ResourceOptions | None = None, **inputs: Any) -> None:
        outputs = {"number": None, "connection": None}
        super().__init__("tidepool:toy:Machine", name, {**inputs, **outputs}, opts)


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

    def image(self, name: str, digest: Input[str], opts: ResourceOptions | None = None) -> Output[str]:
        return Output.from_input(digest)

    def network(self, name: str, cidr: IPv4Network, opts: ResourceOptions | None = None) -> Output[str]:
        return Output.from_input(name)

    def volume(self, order: VolumeOrder, opts: ResourceOptions | None = None) -> Output[str]:
        return Output.from_input(f"/volumes/{order.name}")

    def boot(self, name: str, boot: Boot, opts: ResourceOptions | None = None) -> Output[str]:
        return Output.from_input(name)

    def machine(self, order: MachineOrder, opts: ResourceOptions | None = None) -> Machine:
        where = {"folder": self.folder, "stack": self.stack, "address": str(order.address)}
        made = ToyMachine(order.name, opts, machine=order.name, boot=order.boot, **where)
        return Machine(made, made.number, Output.from_input(str(order.address)), made.connection)
