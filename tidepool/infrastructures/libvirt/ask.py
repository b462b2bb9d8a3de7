"""Hosts of libvirt, asked by `virsh` what they have: this is the one place that runs it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures.failures import by_words


class LibvirtError(Exception):
    """A host was not asked, or did not answer. The text says what, where, and the remedy.

    ``kind`` is that of the failure; None where only its words tell.
    """

    def __init__(self, text: str, kind: type[InfrastructureError] | None = None) -> None:
        super().__init__(text)
        self.kind = kind


#: The words are those of libvirt 9.0 and QEMU 7.2, most of them as a libvirtd said them when it was asked for what it had not.
#: In this order: what a host has no more of is often wrapped in words that say less. What is not known is `Transient`: libvirt's own
#: time-outs, hosts that do not answer, locks that others hold, and a machine of that name that an earlier attempt left there, until
#: it is swept.
kind_of: Final = by_words(
    (
        InsufficientCapacity,
        (
            # Memory, and pages of it.
            r"cannot allocate memory",
            r"cannot set up guest memory",
            r"unable to map backing store",
            r"insufficient free host memory pages",
            r"unable to allocate .*memory",
            # Disks. What is read from full disks is QEMU's and libvirt's word for the same.
            r"no space left on device",
            r"disk quota exceeded",
            r"not enough (free )?space",
            # Devices and virtual functions, which another machine has.
            r"is in use by (driver|domain)",
            r"is already in use",
            r"requires exclusive access to interfaces, but none are available",
            r"no (usable|free) (virtual function|vf)",
            r"device is busy|device or resource busy.*vfio|vfio.*device or resource busy",
        ),
    ),
    (
        Permanent,
        (
            r"unsupported configuration",
            r"is not supported by",
            r"does ?n.t support",
            r"xml error",
            r"invalid argument",
            r"hugetlbfs filesystem is not mounted",
            r"(network|pool|domain snapshot) not found",
            r"no (network|storage pool) with matching name",
            r"cannot get interface mtu",
            r"cannot access storage file",
            r"permission denied",
            r"access denied",
            r"authentication (failed|unavailable)",
            r"host key verification failed",
            r"unable to find any firmware",
        ),
    ),
    otherwise=Transient,
)

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
        return frozenset(cpu for node in self.nodes.values() for cpu in node.cpus)


def read_host(capabilities: str, nodeinfo: str, devices: str) -> Host:
    """From `virsh capabilities`, `virsh nodeinfo` and `virsh nodedev-list --cap pci`.

    Raises:
        LibvirtError: they are something else.
    """
    try:
        root = ET.fromstring(capabilities)  # noqa: S314 - said by a libvirtd that may do all on its host
        architecture = root.findtext("host/cpu/arch")
        nodes = {int(cell.get("id", "")): _node(cell) for cell in root.iterfind("host/topology/cells/cell")}
        iommu = root.find("host/iommu")
        memory = _MEMORY.search(nodeinfo)
        if not architecture or not nodes or memory is None:
            raise ValueError("no architecture, no processors or no memory are told of")
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


#: Over SSH to a host that is busy, it is seconds. A domain that does not end by itself is killed after 15.
_ANSWER_S: Final = 30.0
#: Half a TiB of memory, to a disk that writes 1 GiB a second.
_MEMORY_S: Final = 600.0

#: What the provider's plugin runs on the machine that it is on, and what has it.
_TOOLS: Final = {
    "virsh": ("libvirt-clients", "asks hosts what they have"),
    "xsltproc": ("xsltproc", "writes what the package has no field for"),
    "mkisofs": ("genisoimage", "writes seeds"),
}


Said = subprocess.CompletedProcess[str]


class Virsh(Protocol):
    """Runs a verb of `virsh` on the host of a URI. A single word may be several commands, with semicolons between."""

    def __call__(self, uri: str, *words: str, stdin: str = "") -> Said:
        """Run it, and return its output.

        Raises:
            LibvirtError: it could not be run, or did not answer.
        """
        ...


def tools_missing(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the tools that are not on PATH, each with the command that installs it."""
    path = environment.get("PATH")
    return tuple(
        f"{tool} is not on PATH of this machine, which {purpose}; run: apt-get install {package}"
        for tool, (package, purpose) in _TOOLS.items()
        if shutil.which(tool, path=path) is None
    )


def ask(uri: str) -> Host:
    """Ask what the host of that URI has.

    Raises:
        LibvirtError: it cannot be asked; says why, and the remedy.
    """
    asked = ("capabilities",), ("nodeinfo",), ("nodedev-list", "--cap", "pci")
    return read_host(*(output_of(virsh, uri, "--readonly", *words) for words in asked))


def output_of(run: Virsh, uri: str, *words: str, stdin: str = "") -> str:
    """Return the output of `virsh`, where it did what it was told.

    Raises:
        LibvirtError: it did not; with its own words, and how to try it by hand.
    """
    said = run(uri, *words, stdin=stdin)
    if said.returncode != 0:
        told = " ".join(said.stderr.split()) or f"virsh ended with {said.returncode}"
        raise LibvirtError(f"{uri} cannot be asked: {told}; {_by_hand(uri, words)}")
    return said.stdout


def done(run: Virsh, uri: str, *words: str, unless: str = "") -> Said:
    """Have it done. Where it says what the pattern ``unless`` finds, there was nothing to do.

    Raises:
        LibvirtError: it was not done; with its own words.
    """
    said = run(uri, *words)
    if said.returncode != 0 and not (unless and re.search(unless, said.stderr)):
        raise LibvirtError(f"{uri}: {' '.join(said.stderr.split())}")
    return said


@contextmanager
def kinds_of_failures() -> Iterator[None]:
    """Have what a host refuses be an `InfrastructureError`, of the kind that it or its words tell."""
    try:
        yield
    except LibvirtError as error:
        raise (error.kind or kind_of(str(error)))(str(error)) from error


def virsh(uri: str, *words: str, stdin: str = "") -> Said:
    """The one that is installed: `Virsh`."""
    return _virsh(_ANSWER_S, uri, *words, stdin=stdin)


def patient_virsh(uri: str, *words: str, stdin: str = "") -> Said:
    """The same, for what takes as long as a machine's memory is large."""
    return _virsh(_MEMORY_S, uri, *words, stdin=stdin)


def _virsh(answer_s: float, uri: str, *words: str, stdin: str) -> Said:
    try:
        return subprocess.run(
            ["virsh", "--quiet", "--connect", uri, *words],  # noqa: S607 - it is the one on PATH
            input=stdin,
            capture_output=True,
            text=True,
            timeout=answer_s,
            check=False,
            # Its words are read.
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            # Whoever ends us by our session lets it come to its own end: what is made anew is not left half.
            start_new_session=True,
        )
    except FileNotFoundError:
        raise LibvirtError(
            "virsh is not on PATH of this machine; run: apt-get install libvirt-clients", Permanent
        ) from None
    except subprocess.TimeoutExpired:
        raise LibvirtError(f"{uri} does not answer within {answer_s:g} s; {_by_hand(uri, words)}") from None


def _by_hand(uri: str, words: tuple[str, ...]) -> str:
    return f"try it by hand: virsh --connect {uri} {' '.join(words)}"
