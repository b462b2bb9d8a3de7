"""The properties of pulumi-libvirt 0.5.4's types, as far as the graph gives them: what is not here is refused.

Defaults, and what a change of replaces, are those of terraform-provider-libvirt 0.8.1, which that release is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tidepool.resources.model import Field, Model, Resource, given


@dataclass(frozen=True, slots=True)
class Xml:
    """How what is given to libvirt is changed before: by a stylesheet."""

    xslt: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """A pool's folder."""

    path: str


class PoolModel(Model):
    """Properties of a `Pool`."""

    name: Field[str] = given(replaces=True)
    type: Field[Literal["dir"]] = given(replaces=True)
    target: Field[Target] = given(replaces=True)


class Pool(Resource, PoolModel, token="libvirt:index/pool:Pool"):
    """A folder of volumes."""


@dataclass(frozen=True, slots=True)
class Dhcp:
    """A network's own DHCP server."""

    enabled: bool = False


class NetworkModel(Model):
    """Properties of a `Network`."""

    name: Field[str] = given(replaces=True)
    mode: Field[Literal["none", "nat", "bridge"]] = given(default="nat", replaces=True)
    bridge: Field[str] = given(default="", replaces=True)
    addresses: Field[Sequence[str]] = given(default=(), replaces=True)
    dhcp: Field[Dhcp] = given(default=Dhcp(), replaces=True)
    autostart: Field[bool] = given(default=False)
    xml: Field[Xml] = given(default=Xml(), replaces=True)


class Network(Resource, NetworkModel, token="libvirt:index/network:Network"):
    """A network: a bridge of libvirt's own, or one that the host has."""


class VolumeModel(Model):
    """Properties of a `Volume`."""

    name: Field[str] = given(replaces=True)
    pool: Field[str] = given(default="default", replaces=True)
    source: Field[str] = given(default="", replaces=True)
    format: Field[str] = given(default="", replaces=True)
    size: Field[int] = given(default=0, replaces=True)
    base_volume_name: Field[str] = given(default="", replaces=True)
    base_volume_pool: Field[str] = given(default="", replaces=True)


class Volume(Resource, VolumeModel, token="libvirt:index/volume:Volume", delete_first=False):
    """A disk: a file that is uploaded, or a thin one over another volume. Its id is its path."""


class CloudInitDiskModel(Model):
    """Properties of a `CloudInitDisk`."""

    name: Field[str] = given(replaces=True)
    pool: Field[str] = given(default="default", replaces=True)
    user_data: Field[str] = given(default="", replaces=True, secret=True)
    meta_data: Field[str] = given(default="", replaces=True)
    network_config: Field[str] = given(default="", replaces=True)


class CloudInitDisk(Resource, CloudInitDiskModel, token="libvirt:index/cloudInitDisk:CloudInitDisk"):
    """A seed. Its id is its path, and after a semicolon what tells it from others that were there."""


@dataclass(frozen=True, slots=True)
class Cpu:
    """The model of processors."""

    mode: str


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk of a domain, by its volume's id, or a block device of its host."""

    volume_id: str = ""
    block_device: str = ""


@dataclass(frozen=True, slots=True)
class Interface:
    """A domain's interface; its ``addresses`` are reserved in the network, where that has DHCP."""

    network_name: str
    mac: str
    addresses: Sequence[str] = ()
    hostname: str = ""


@dataclass(frozen=True, slots=True)
class Console:
    """A console of a domain."""

    type: str
    target_port: str
    target_type: str


class DomainModel(Model):
    """Properties of a `Domain`."""

    name: Field[str] = given(replaces=True)
    description: Field[str] = given(default="", replaces=True)
    type: Field[str] = given(default="kvm", replaces=True)
    arch: Field[str] = given()
    machine: Field[str] = given()
    cpu: Field[Cpu] = given(replaces=True)
    vcpu: Field[int] = given(default=1, replaces=True)
    #: In MiB.
    memory: Field[int] = given(default=512, replaces=True)
    disks: Field[Sequence[Disk]] = given(default=(), replaces=True)
    cloudinit: Field[str] = given(default="")
    network_interfaces: Field[Sequence[Interface]] = given(default=())
    consoles: Field[Sequence[Console]] = given(default=(), replaces=True)
    autostart: Field[bool] = given(default=False)
    running: Field[bool] = given(default=True)
    xml: Field[Xml] = given(default=Xml(), replaces=True)


class Domain(Resource, DomainModel, token="libvirt:index/domain:Domain"):
    """A machine."""
