"""The contract of an infrastructure with components: resources of a stack that are networks, volumes, boots and machines.

An infrastructure fulfils it with its own typed Pulumi resources, and promises:

- Resources are named as they are asked for, so that their URNs stay; what is made on each of several hosts has the
  host's name besides. Nothing is registered but what is asked for, with the options that are given: parent,
  dependencies.
- **A machine is made once** for its name, however often it is asked for: an operation that was cut off goes on from
  where it was. It is told of nothing but its name, its place, its shape, its image and its boot.
- What makes it another machine (network, address, MAC, image) replaces it, the old one first, for an address is
  never given away twice. Its limits change while it runs; another boot is taken when it boots the next time.
- A machine that is gone from outside is made again by the next `up --refresh`. Not seen is not gone: only what the
  infrastructure itself says is gone counts.
- Deleting what is gone succeeds. Each machine carries the name of its stack and its own, by which a sweep finds
  those that no state knows.
- What it cannot do fails as one of three kinds (`tidepool.infrastructures.machines`): no capacity, for now, for good.
- No secret, no image and no text of a boot is in a machine's inputs, only references: its state stays small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Protocol, TypeAlias, runtime_checkable

import pulumi
from pulumi import Input, Output

from tidepool.cluster import addresses, boot
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.roles import Role
from tidepool.cluster.shape import Shape

# The vocabulary of boots, as programs have it: texts may be Pulumi outputs, and secret.
File: TypeAlias = boot.File[Input[str]]
Mount: TypeAlias = boot.Mount[Input[str]]
Boot: TypeAlias = boot.Boot[Input[str]]


@dataclass(frozen=True, slots=True)
class VolumeOrder:
    """A folder that machines mount, root's at first: a boot's `Folder` gives it its owner.

    With ``retain`` its content outlives the resource.
    """

    name: str
    retain: bool = False


@dataclass(frozen=True, slots=True)
class MachineOrder:
    """A machine: ``name`` is its host name for ever, and ``address`` its place in ``network``.

    ``network``, ``image`` and ``boot`` are what the infrastructure gave for them. With
    ``wait_ready`` it is made when all its services are ready, and not when it boots. ``role_images`` are those that it is made
    anew from while it is there, by role: only of an infrastructure that can (`tidepool.cluster.spec_checks.IMAGING`).
    ``pods`` is where its pods have their addresses, while it serves Kubernetes; None of one that never does.
    One that ``is_suspended`` was made before, and its memory is on disk, or about to be; nothing here starts it again.
    """

    name: str
    network: Input[str]
    address: IPv4Address
    shape: Shape
    image: Input[str]
    boot: Input[str]
    wait_ready: bool = False
    role_images: Mapping[Role, Input[str]] = field(default_factory=dict)
    pods: IPv4Network | None = None
    is_suspended: bool = False

    @property
    def mac(self) -> str:
        return addresses.mac(self.address)


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine of a `MachineOrder`.

    ``connection`` is how it is reached, as `tidepool.infrastructures.connection` reads it; ``resource`` is for dependencies.
    ``imaging`` is how it is made anew from an image of a role, as `tidepool.infrastructures.registry.imaging_of` reads it, and
    ``suspension`` how it is suspended and resumed, as `suspension_of` there reads it; None where it cannot be.
    """

    resource: pulumi.Resource
    machine_id: Output[str]
    address: Output[str]
    connection: Output[Mapping[str, Any]]
    imaging: Output[Mapping[str, Any]] | None = None
    suspension: Output[Mapping[str, Any]] | None = None


class Infrastructure(Protocol):
    """Makes resources. Each method registers what it makes, if anything, as ``name`` or the order's name."""

    @property
    def forms(self) -> Sequence[str]:
        """The forms of images that machines are made from (`tidepool.images.Form`); none where it is the store's own."""
        ...

    def for_fleet(self, fleet: Fleet) -> Infrastructure:
        """The same as a fleet has it on one of its infrastructures, which is the only one that ``fleet`` names here.

        Options are those of that entry, whose key is its name among all of the fleet. Networks, images and so on are one.
        """
        ...

    def image(self, name: str, digest: Input[str]) -> Output[str]:
        """An image of this machine's store, in the form that machines are made from; gives what they name it by."""
        ...

    def network(self, name: str, cidr: IPv4Network) -> Output[str]:
        """A network that the stack has to itself; gives what machines name it by."""
        ...

    def volume(self, order: VolumeOrder, opts: pulumi.ResourceOptions | None = None) -> Output[str]:
        """A volume; gives what mounts name it by."""
        ...

    def boot(self, name: str, boot: Boot, opts: pulumi.ResourceOptions | None = None) -> Output[str]:
        """Keep a boot; gives what machines name it by. Changing it touches no machine that runs."""
        ...

    def machine(self, order: MachineOrder, opts: pulumi.ResourceOptions | None = None) -> Machine:
        """A machine, in the care of Pulumi."""
        ...


@runtime_checkable
class Storing(Protocol):
    """An infrastructure that has no folders which machines share: they mount them of the cluster's own file server."""

    def store(self) -> Output[str]:
        """A disk of the file server, which has all that it serves; gives what its mount names it by."""
        ...


@runtime_checkable
class Prepared(Protocol):
    """An infrastructure of one fleet (`for_fleet`), all of whose machines need more than network, image and boot.

    It is the fleet's, and there before any machine is: an operation that is limited to one machine makes nothing besides.
    """

    def prepare(self, image: Input[str], opts: pulumi.ResourceOptions | None = None) -> None:
        """Register it, once and before machines; ``image`` is what the infrastructure gave for the fleet's."""
        ...


@runtime_checkable
class RoutesPods(Protocol):
    """An infrastructure whose network itself leads to the pods of each of its machines (`MachineOrder.pods`).

    A machine there has no next hop but the network's router, and is told no routes to the pods of others.
    """

    routes_pods: bool
