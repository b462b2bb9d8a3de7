"""Capabilities of a host, read from what `virsh` says of it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidepool.infrastructures.libvirt.errors import LibvirtError

_MEMORY: Final = re.compile(r"(?m)^Memory size:\s+(\d+) KiB$")
_PCI: Final = re.compile(r"pci_([0-9a-f]{4})_([0-9a-f]{2})_([0-9a-f]{2})_([0-7])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NumaNode:
    """A NUMA node: its processors, its memory, and by the size of pages in KiB how many of them are reserved."""

    cpus: frozenset[int]
    memory_mib: int
    pages: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Host:
    """A host. ``machine_types`` are those of each way of virtualization: ``{"kvm": {"q35", ...}}``.

    ``iommu`` is None where the host does not say; ``devices`` are PCI addresses, ``0000:3b:00.0``.
    """

    architecture: str
    memory_mib: int
    nodes: Mapping[int, NumaNode]
    machine_types: Mapping[str, frozenset[str]]
    iommu: bool | None
    devices: frozenset[str]

    @property
    def cpus(self) -> frozenset[int]:
        """All of its processors."""
        return frozenset(cpu for node in self.nodes.values() for cpu in node.cpus)


def read_host(capabilities: str, nodeinfo: str, devices: str) -> Host:
    """From `virsh capabilities`, `virsh nodeinfo` and `virsh nodedev-list --cap pci`.

    Raises:
        LibvirtError: they are something else.
    """
    try:
        root = ET.fromstring(capabilities)  # noqa: S314 - said by a libvirtd that may do all on its host
        architecture = _text(root, "host/cpu/arch")
        nodes = {int(cell.get("id", "")): _node(cell) for cell in root.iterfind("host/topology/cells/cell")}
        iommu = root.find("host/iommu")
        memory = _MEMORY.search(nodeinfo)
        if not nodes or memory is None:
            raise ValueError("no processors or no memory are told of")
        return Host(
            architecture,
            int(memory[1]) // 1024,
            nodes,
            _machine_types(root, architecture),
            None if iommu is None else iommu.get("support") == "yes",
            frozenset(":".join(m.groups()[:3]).lower() + f".{m[4]}" for m in _PCI.finditer(devices)),
        )
    except (ET.ParseError, ValueError) as error:
        raise LibvirtError(f"what virsh says of the host is not understood: {error}") from error


def _node(cell: ET.Element) -> NumaNode:
    pages = {
        int(page.get("size", "")): int(page.text or 0)
        for page in cell.iterfind("pages")
        if page.get("unit") == "KiB"
    }
    return NumaNode(
        frozenset(int(cpu.get("id", "")) for cpu in cell.iterfind("cpus/cpu")),
        int(cell.findtext("memory") or 0) // 1024,
        pages,
    )


def _machine_types(root: ET.Element, architecture: str) -> Mapping[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for arch in root.iterfind("guest/arch"):
        if arch.get("name") != architecture:
            continue
        names = _names(arch)
        for domain in arch.iterfind("domain"):
            # One that has machines of its own says so within; the others have those of the architecture.
            found[domain.get("type", "")] = _names(domain) or names
    return found


def _names(element: ET.Element) -> frozenset[str]:
    machines = list(element.iterfind("machine"))
    return frozenset(
        name for machine in machines for name in (machine.text, machine.get("canonical")) if name
    )


def _text(root: ET.Element, path: str) -> str:
    text = root.findtext(path)
    if not text:
        raise ValueError(f"there is no {path}")
    return text
