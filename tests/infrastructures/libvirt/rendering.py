"""The XML that the plugin gives to libvirt for what a program registers, as terraform-provider-libvirt 0.8.1 writes it.

pulumi-libvirt 0.5.4 is made of that release. Its defaults are in it (a guest agent's channel, spice, a random number
generator), for what they come to with our stylesheets has to be valid.
"""

from __future__ import annotations

import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

SCHEMAS = Path("/usr/share/libvirt/schemas")


def missing() -> str:
    """Why what follows cannot be done here; empty where it can."""
    if not (SCHEMAS / "domain.rng").exists():
        return "libvirt's schemas are not installed: apt-get install libvirt0"
    if lacks := [tool for tool in ("xsltproc", "xmllint") if shutil.which(tool) is None]:
        return f"{', '.join(lacks)} is not installed: apt-get install xsltproc libxml2-utils"
    return ""


def domain_xml(inputs: Mapping[str, Any], volumes: Mapping[str, tuple[str, str]] | None = None) -> str:
    """Of a Domain, transformed. ``volumes`` are pools and names by their ids, where there are any."""
    domain = ET.Element("domain", type=inputs["type"])
    _text(domain, "name", inputs["name"])
    _text(domain, "description", inputs["description"])
    _text(domain, "memory", str(int(inputs["memory"])), unit="MiB")
    _text(domain, "vcpu", str(int(inputs["vcpu"])))
    os = ET.SubElement(domain, "os")
    _text(os, "type", "hvm", arch=inputs["arch"], machine=inputs["machine"])
    features = ET.SubElement(domain, "features")
    for feature in ("pae", "acpi", "apic"):
        ET.SubElement(features, feature)
    ET.SubElement(domain, "cpu", mode=inputs["cpu"]["mode"])
    devices = ET.SubElement(domain, "devices")
    for number, each in enumerate(inputs["disks"]):
        disk = ET.SubElement(devices, "disk", type="volume", device="disk")
        ET.SubElement(disk, "driver", name="qemu", type="qcow2")
        pool, volume = (volumes or {}).get(each["volumeId"], ("tidepool-dev", f"disk-{number}"))
        ET.SubElement(disk, "source", pool=pool, volume=volume)
        ET.SubElement(disk, "target", dev=f"vd{'abc'[number]}", bus="virtio")
    path, separator, _ = inputs["cloudinit"].partition(";")
    assert separator, "the plugin takes a volume's key and, after a semicolon, an id"
    seed = ET.SubElement(devices, "disk", type="file", device="cdrom")
    ET.SubElement(seed, "driver", name="qemu", type="raw")
    ET.SubElement(seed, "source", file=path)
    ET.SubElement(seed, "target", dev="hdd", bus="ide")
    _text(seed, "serial", "cloudinit")
    for each in inputs["networkInterfaces"]:
        interface = ET.SubElement(devices, "interface", type="network")
        ET.SubElement(interface, "mac", address=each["mac"])
        ET.SubElement(interface, "source", network=each["networkName"])
        ET.SubElement(interface, "model", type="virtio")
    for each in inputs["consoles"]:
        console = ET.SubElement(devices, "console", type=each["type"])
        ET.SubElement(console, "target", type=each["targetType"], port=each["targetPort"])
    channel = ET.SubElement(devices, "channel", type="unix")
    ET.SubElement(channel, "source")
    ET.SubElement(channel, "target", type="virtio", name="org.qemu.guest_agent.0")
    ET.SubElement(devices, "graphics", type="spice", autoport="yes")
    rng = ET.SubElement(devices, "rng", model="virtio")
    _text(rng, "backend", "/dev/urandom", model="random")
    return _transformed(domain, inputs)


def network_xml(inputs: Mapping[str, Any]) -> str:
    """Of a Network, transformed."""
    network = ET.Element("network")
    _text(network, "name", inputs["name"])
    if inputs["mode"] != "none":
        ET.SubElement(network, "forward", mode=inputs["mode"])
    if inputs["mode"] == "bridge":
        ET.SubElement(network, "bridge", name=inputs["bridge"])
        return _transformed(network, inputs)
    ET.SubElement(network, "bridge", stp="on")
    for each in inputs["addresses"]:
        cidr = IPv4Network(each)
        ip = ET.SubElement(network, "ip", address=str(cidr[1]), family="ipv4", prefix=str(cidr.prefixlen))
        if inputs["dhcp"]["enabled"]:
            dhcp = ET.SubElement(ip, "dhcp")
            ET.SubElement(dhcp, "range", start=str(cidr[2]), end=str(cidr[-2]))
    return _transformed(network, inputs)


def pool_xml(inputs: Mapping[str, Any]) -> str:
    """Of a Pool."""
    pool = ET.Element("pool", type=inputs["type"])
    _text(pool, "name", inputs["name"])
    _text(ET.SubElement(pool, "target"), "path", inputs["target"]["path"])
    return _transformed(pool, inputs)


def wrong(xml: str, schema: str) -> str:
    """What is invalid in it, by libvirt's own schema of that name; empty where nothing is."""
    said = subprocess.run(
        ["xmllint", "--noout", "--relaxng", str(SCHEMAS / f"{schema}.rng"), "-"],
        input=xml,
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if said.returncode == 0 else said.stderr


def _transformed(element: ET.Element, inputs: Mapping[str, Any]) -> str:
    """By xsltproc, as the plugin calls it."""
    plain = ET.tostring(element, encoding="unicode")
    if "xml" not in inputs:
        return plain
    with TemporaryDirectory() as folder:
        sheet, document = Path(folder, "sheet.xsl"), Path(folder, "document.xml")
        sheet.write_text(inputs["xml"]["xslt"])
        document.write_text(plain)
        said = subprocess.run(
            ["xsltproc", "--nomkdir", "--nonet", "--nowrite", str(sheet), str(document)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert said.returncode == 0, said.stderr
    assert not said.stderr
    return said.stdout


def _text(parent: ET.Element, tag: str, text: str, **attributes: str) -> None:
    ET.SubElement(parent, tag, attributes).text = text
