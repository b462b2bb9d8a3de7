"""The XML that the plugin gives to libvirt for what a program registers, as terraform-provider-libvirt 0.8.1 writes it.

Its defaults are in it (a guest agent's channel, spice, a random number generator), for what they come to with our
stylesheets has to be valid.
"""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.plugins.libvirt.models import DomainModel, Interface, NetworkModel, PoolModel
from tidepool.resources.kind import Refusal


@dataclass(frozen=True, slots=True)
class Stored:
    """A volume that is there; its capacity is in bytes."""

    pool: str
    name: str
    path: str
    format: str
    capacity: int


def pool_xml(pool: PoolModel) -> str:
    """Return what a pool is defined by."""
    told = ET.Element("pool", type=pool.type)
    _text(told, "name", pool.name)
    _text(ET.SubElement(told, "target"), "path", pool.target.path)
    return _written(told)


def network_xml(network: NetworkModel) -> str:
    """Return what a network is defined by."""
    told = ET.Element("network")
    _text(told, "name", network.name)
    if network.mode == "bridge":
        ET.SubElement(told, "forward", mode="bridge")
        ET.SubElement(told, "bridge", name=network.bridge)
        return _transformed(told, network.xml.xslt)
    if network.mode == "nat":
        nat = ET.SubElement(ET.SubElement(told, "forward", mode="nat"), "nat")
        ET.SubElement(nat, "port", start="1024", end="65535")
    ET.SubElement(told, "bridge", stp="on")
    for each in network.addresses:
        cidr = IPv4Network(each)
        ip = ET.SubElement(told, "ip", address=str(cidr[1]), family="ipv4", prefix=str(cidr.prefixlen))
        if network.dhcp.enabled:
            dhcp = ET.SubElement(ip, "dhcp")
            ET.SubElement(dhcp, "range", start=str(cidr[2]), end=str(cidr[-2]))
    return _transformed(told, network.xml.xslt)


def reservation_xml(interface: Interface, address: str) -> str:
    """Return the entry of a network's DHCP server by which an interface has its address."""
    told = {"mac": interface.mac, "name": interface.hostname, "ip": address}
    return _written(ET.Element("host", told))


def volume_xml(name: str, format: str, capacity: int, base: Stored | None = None) -> str:
    """Return what a volume is made by; with ``base`` it is thin, over that one."""
    told = ET.Element("volume")
    _text(told, "name", name)
    _text(told, "capacity", str(capacity), unit="bytes")
    target = ET.SubElement(told, "target")
    ET.SubElement(target, "format", type=format)
    _text(ET.SubElement(target, "permissions"), "mode", "644")
    if base is not None:
        backing = ET.SubElement(told, "backingStore")
        _text(backing, "path", base.path)
        ET.SubElement(backing, "format", type=base.format)
    return _written(told)


def domain_xml(domain: DomainModel, disks: Sequence[Stored | str]) -> str:
    """Return what a domain is defined by, transformed; ``disks`` are its volumes, and devices of its host."""
    told = ET.Element("domain", type=domain.type)
    _text(told, "name", domain.name)
    _text(told, "description", domain.description)
    _text(told, "memory", str(domain.memory), unit="MiB")
    _text(told, "vcpu", str(domain.vcpu), placement="static")
    _text(ET.SubElement(told, "os"), "type", "hvm", arch=domain.arch, machine=domain.machine)
    features = ET.SubElement(told, "features")
    for feature in ("pae", "acpi", "apic"):
        ET.SubElement(features, feature)
    ET.SubElement(told, "cpu", mode=domain.cpu.mode)
    devices = ET.SubElement(told, "devices")
    for letter, each in zip("abc", disks, strict=False):
        kind = "block" if isinstance(each, str) else "volume"
        disk = ET.SubElement(devices, "disk", type=kind, device="disk")
        if isinstance(each, str):
            ET.SubElement(disk, "driver", name="qemu", type="raw")
            ET.SubElement(disk, "source", dev=each)
        else:
            ET.SubElement(disk, "driver", name="qemu", type=each.format)
            ET.SubElement(disk, "source", pool=each.pool, volume=each.name)
        ET.SubElement(disk, "target", dev=f"vd{letter}", bus="virtio")
    if domain.cloudinit:
        seed = ET.SubElement(devices, "disk", type="file", device="cdrom")
        ET.SubElement(seed, "driver", name="qemu", type="raw")
        ET.SubElement(seed, "source", file=seed_path(domain.cloudinit))
        ET.SubElement(seed, "target", dev="hdd", bus="ide")
        _text(seed, "serial", "cloudinit")
    for interface in domain.network_interfaces:
        link = ET.SubElement(devices, "interface", type="network")
        ET.SubElement(link, "mac", address=interface.mac)
        ET.SubElement(link, "source", network=interface.network_name)
        ET.SubElement(link, "model", type="virtio")
    for one in domain.consoles:
        console = ET.SubElement(devices, "console", type=one.type)
        ET.SubElement(console, "target", type=one.target_type, port=one.target_port)
    channel = ET.SubElement(devices, "channel", type="unix")
    ET.SubElement(channel, "source")
    ET.SubElement(channel, "target", type="virtio", name="org.qemu.guest_agent.0")
    ET.SubElement(devices, "graphics", type="spice", autoport="yes")
    rng = ET.SubElement(devices, "rng", model="virtio")
    _text(rng, "backend", "/dev/urandom", model="random")
    return _transformed(told, domain.xml.xslt)


def seed_path(id: str) -> str:
    """Return the path of a seed of that id."""
    path, separator, _ = id.partition(";")
    if not separator:
        raise Refusal(f"{id} is not a valid key")
    return path


def _transformed(element: ET.Element, xslt: str) -> str:
    """By xsltproc, as the plugin calls it."""
    plain = _written(element)
    if not xslt:
        return plain
    with TemporaryDirectory() as folder:
        sheet, document = Path(folder, "sheet.xsl"), Path(folder, "document.xml")
        sheet.write_text(xslt)
        document.write_text(plain)
        command = ["xsltproc", "--nomkdir", "--nonet", "--nowrite", str(sheet), str(document)]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
    if said.returncode != 0 or said.stderr:
        raise Refusal(f"error applying XSLT stylesheet: exit status {said.returncode}: {said.stderr}")
    return said.stdout


def _written(element: ET.Element) -> str:
    return ET.tostring(element, encoding="unicode")


def _text(parent: ET.Element, tag: str, text: str, **attributes: str) -> None:
    ET.SubElement(parent, tag, attributes).text = text
