"""Domains of machines: whose each is, and the XSLT for what the package has no field for.

The key of its machine is in the metadata of a domain, where libvirt keeps what is nobody's but ours. By XSLT the plugin changes
the XML of machines and networks; nothing is added that the plugin reads back and has an input for: that would be a difference
at each refresh.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import quoteattr

from tidepool.cluster.shape import Shape
from tidepool.infrastructures.libvirt.options import Offering, write_cpus
from tidepool.infrastructures.libvirt.seat import Seat
from tidepool.infrastructures.machines import MachineKey

_NAMESPACE: Final = "urn:tidepool:machine"


@dataclass(frozen=True, slots=True)
class Identity:
    """The node ``node`` of ``stack``."""

    stack: str
    node: str

    @property
    def domain(self) -> str:
        return f"{self.stack}-{self.node}"

    @property
    def xml(self) -> str:
        """Return the element that its domain has in its metadata."""
        told = {
            "stack": self.stack,
            "fleet": MachineKey(self.stack, self.node).fleet,
            "node": self.node,
            # Nothing reads it: a domain is told from the next by its UUID. Without it, all domains would be made anew.
            "generation": "1",
        }
        words = " ".join(f"{key}={quoteattr(value)}" for key, value in told.items())
        return f'<tidepool:machine xmlns:tidepool="{_NAMESPACE}" {words}/>'


def pool_of(stack: str) -> str:
    """Return the name of a stack's storage pool, on each host."""
    return f"tidepool-{stack}"


def disk_of(machine: str) -> str:
    """Return the name of a machine's disk in that pool."""
    return f"{machine}.qcow2"


def read_identity(domain: ET.Element) -> Identity | None:
    """Return the identity of a domain; None where it says nothing, so is not of Tidepool."""
    found = domain.find(f"metadata/{{{_NAMESPACE}}}machine")
    if found is None:
        return None
    return Identity(found.get("stack", ""), found.get("node", ""))


_HEAD: Final = """\
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:output omit-xml-declaration="yes"/>
<xsl:template match="@*|node()"><xsl:copy><xsl:apply-templates select="@*|node()"/></xsl:copy></xsl:template>
"""

#: No spanning tree, which costs seconds for each machine, and DHCP for those alone that have a reservation.
NETWORK: Final = (
    _HEAD
    + """\
<xsl:template match="/network/bridge/@stp"><xsl:attribute name="stp">off</xsl:attribute></xsl:template>
<xsl:template match="/network/ip/dhcp/range"/>
</xsl:stylesheet>
"""
)

#: Memory of QEMU's translated code; its default is a fourth of the machine's memory. With 96 MiB a boot took a sixth longer.
TRANSLATED_MIB: Final = 512
#: What an emulated processor has not, though it could: for virtual machines inside and for ciphers a boot loads modules and
#: tries them, and a fifth level of page tables makes each step through them longer.
DEAR_FEATURES: Final = ("svm", "aes", "vaes", "pclmuldq", "vpclmulqdq", "la57")
#: The family of a machine that is emulated, by which its initrd knows (playbooks/roles/boot/files/initrd-drivers).
EMULATED: Final = "tidepool-emulated"
#: A machine boots from its disk; the program by which it would from the network is started by firmware all the same.
_NO_ROM: Final = '<rom enabled="no"/>'
#: What libvirt adds by itself: each is a device, and a port for it, that firmware, kernel and udev look at. Nothing is plugged in, and a
#: node's memory is its jobs'.
_NOT_THERE: Final = ('<controller type="usb" model="none"/>', '<memballoon model="none"/>')


def stylesheet(
    identity: Identity, shape: Shape, offering: Offering, seat: Seat, network_filter: str = ""
) -> str:
    """Return the stylesheet of the domain of that machine; ``network_filter`` is the name of its interface's, if it has one."""
    sockets, cores, threads = shape.layout
    topology = f'<topology sockets="{sockets}" cores="{cores}" threads="{threads}"/>'
    # By it a sweep finds machines that no state knows.
    metadata = f"<metadata>{identity.xml}</metadata>"
    told = f'<entry name="serial">ds=nocloud;h={identity.node}</entry>'
    if offering.virtualization == "qemu":
        told += f'<entry name="family">{EMULATED}</entry>'
    system = f'<sysinfo type="smbios"><system>{told}</system></sysinfo>'
    templates = [
        # The seed's drive is on IDE, which q35 does not have, and Debian's cloud kernels have no driver of its SATA. The
        # screen is one that nobody looks at, and no image of ours has an agent.
        _replace("/domain/devices/disk[@device='cdrom']/target", '<target dev="sda" bus="scsi"/>'),
        _replace("/domain/devices/graphics", ""),
        _replace("/domain/devices/channel", ""),
        # cloud-init takes the machine's name from here: the seed is the same for all machines of a fleet.
        _inside("/domain/os", '<smbios mode="sysinfo"/>'),
        _inside("/domain", "".join((metadata, system, *_tuning(offering, seat)))),
    ]
    if offering.virtualization == "qemu":
        templates.append(
            _inside("/domain/features", f'<tcg><tb-cache unit="MiB">{TRANSLATED_MIB}</tb-cache></tcg>')
        )
        topology += "".join(f'<feature policy="disable" name="{name}"/>' for name in DEAR_FEATURES)
    templates.append(_inside("/domain/cpu", topology))
    filtered = f"<filterref filter={quoteattr(network_filter)}/>" if network_filter else ""
    templates.append(_inside("/domain/devices/interface[1]", _NO_ROM + filtered))
    devices = ('<controller type="scsi" model="virtio-scsi"/>', *_NOT_THERE, *map(_device, seat.pci))
    templates.append(_inside("/domain/devices", "".join(devices)))
    return _HEAD + "".join(templates) + "</xsl:stylesheet>\n"


def _tuning(offering: Offering, seat: Seat) -> Sequence[str]:
    parts = []
    if offering.page_kib:
        parts.append(
            f'<memoryBacking><hugepages><page size="{offering.page_kib}" unit="KiB"/></hugepages></memoryBacking>'
        )
    pins = [f'<vcpupin vcpu="{vcpu}" cpuset="{cpu}"/>' for vcpu, cpu in enumerate(seat.cpus)]
    if offering.emulator_cpus:
        pins.append(f'<emulatorpin cpuset="{write_cpus(offering.emulator_cpus)}"/>')
    if pins:
        parts.append(f"<cputune>{''.join(pins)}</cputune>")
    if seat.node is not None:
        parts.append(f'<numatune><memory mode="strict" nodeset="{seat.node}"/></numatune>')
    return parts


def _device(address: str) -> str:
    domain, bus, rest = address.split(":")
    slot, function = rest.split(".")
    where = f'domain="0x{domain}" bus="0x{bus}" slot="0x{slot}" function="0x{function}"'
    return f'<hostdev mode="subsystem" type="pci" managed="yes"><source><address {where}/></source></hostdev>'


def _replace(path: str, by: str) -> str:
    return f"<xsl:template match={quoteattr(path)}>{by}</xsl:template>\n"


def _inside(path: str, more: str) -> str:
    whole = '<xsl:apply-templates select="@*|node()"/>'
    return f"<xsl:template match={quoteattr(path)}><xsl:copy>{whole}{more}</xsl:copy></xsl:template>\n"
