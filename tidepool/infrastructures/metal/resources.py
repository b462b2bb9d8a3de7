"""Resources of a stack on bare metal: its site, what its machines boot from, and the hosts that are machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulumi import Input

from tidepool.infrastructures.metal.machine import HostEntry
from tidepool.resources.model import Field, Model, Resource, condition, given


class MetalSiteModel(Model):
    """Properties of a `MetalSite`."""

    stack: Field[str] = given(replaces=True)
    hosts: Field[Mapping[str, HostEntry]] = given()
    boot_service: Field[str] = given()
    prefix: Field[int] = given()
    gateway: Field[str] = given(default="")
    nameservers: Field[Sequence[str]] = given(default=())
    #: Whether this machine has it.
    state: Field[str] = condition("kept")


class MetalSite(Resource, MetalSiteModel, token="tidepool:metal:Site"):
    """The hosts of a stack and how their machines are reached, kept once on this machine. No passwords are in it."""


class MetalMachineModel(Model):
    """Properties of a `MetalMachine`."""

    stack: Field[str] = given(replaces=True)
    site: Field[str, Input[str]] = given()
    machine: Field[str] = given(replaces=True)
    address: Field[str] = given(replaces=True)
    #: The ISO, on this machine.
    image: Field[str, Input[str]] = given(replaces=True)
    boot: Field[str, Input[str]] = given()
    cpus: Field[int] = given(least=1)
    memory_mib: Field[int] = given(least=1)
    #: Those that it may be, by name; none: all of the site.
    hosts: Field[Sequence[str]] = given(default=())
    bios: Field[Mapping[str, Any]] = given(default={})
    #: The image as a disk, on this machine, where its root is on a disk of the host.
    disk_image: Field[str, Input[str]] = given(default="", replaces=True)
    #: Which disk that is.
    disk: Field[Mapping[str, Any]] = given(default={})
    #: What of that is wiped when the host is given back: all, or headers.
    wipe: Field[str] = given(default="all")
    #: How long it may take until it answers by SSH.
    boot_timeout_s: Field[int] = given(default=1200)
    #: Whether it is switched on.
    state: Field[str] = condition("on")


class MetalMachine(Resource, MetalMachineModel, token="tidepool:metal:Machine"):
    """A host that is the node ``machine``: claimed by its AssetTag, and switched on. Deleting it switches it off and gives it back.

    Which host it is, its id says. Other limits and another boot are for the next time that it boots.
    """
