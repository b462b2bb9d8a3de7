"""Resources of a stack on an Ironic: what its machines boot from, and the nodes of Ironic that are machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pulumi import Input

from tidepool.infrastructures.ironic.api import IronicLocation
from tidepool.resources.model import Field, Model, Resource, condition, given


@dataclass(frozen=True, slots=True)
class Network:
    """The network of the site that machines are in: ``physical_network`` is Ironic's name of it, where hosts have several."""

    prefix: int
    physical_network: str = ""
    gateway: str = ""
    nameservers: tuple[str, ...] = ()


class IronicHostModel(Model):
    """Properties of an `IronicHost`."""

    stack: Field[str] = given(replaces=True)
    ironic: Field[IronicLocation] = given()
    host: Field[str] = given(replaces=True)
    bmc: Field[str] = given()
    system: Field[str] = given(default="")
    mac: Field[str] = given(replaces=True)
    #: The file of who may use its BMC, on this machine.
    credentials: Field[str] = given()
    verify: Field[bool] = given(default=True)
    resource_class: Field[str] = given(default="", replaces=True)
    traits: Field[Sequence[str]] = given(default=(), replaces=True)
    physical_network: Field[str] = given(default="", replaces=True)


class IronicHost(Resource, IronicHostModel, token="tidepool:ironic:Host"):
    """A host that is enrolled in the Ironic, and available. Deleting it has Ironic forget it, where this stack enrolled it."""


class IronicMachineModel(Model):
    """Properties of an `IronicMachine`."""

    stack: Field[str] = given(replaces=True)
    ironic: Field[IronicLocation] = given()
    boot_service: Field[str] = given()
    network: Field[Network] = given()
    machine: Field[str] = given(replaces=True)
    address: Field[str] = given(replaces=True)
    #: The ISO, on this machine.
    image: Field[str, Input[str]] = given(replaces=True)
    boot: Field[str, Input[str]] = given()
    cpus: Field[int] = given(least=1)
    memory_mib: Field[int] = given(least=1)
    #: Those that it may be, by name or UUID; none: all that are fit.
    hosts: Field[Sequence[str]] = given(default=())
    resource_class: Field[str] = given(default="")
    traits: Field[Sequence[str]] = given(default=())
    #: Whether it is deployed and switched on.
    state: Field[str] = condition("on")


class IronicMachine(Resource, IronicMachineModel, token="tidepool:ironic:Machine"):
    """A node of Ironic that is the node ``machine``: claimed by an instance UUID, deployed, and switched on. Deleting it undeploys it.

    Its id is the instance UUID. Other limits and another boot are for the next claim and for the next time that it boots.
    """
