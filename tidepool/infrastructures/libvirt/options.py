"""Options of libvirt: of the hosts, with the controller's infrastructure; of machines, with each fleet's."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator
from pydantic_core.core_schema import ValidationInfo

from tidepool.cluster.frozen import FrozenDict, frozen
from tidepool.cluster.names import by_name
from tidepool.cluster.part import Network, Part, Whole
from tidepool.cluster.shape import mebibytes

_PART: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def read_cpus(value: Any) -> Any:
    """The numbers of ``2-5,8``, in their order.

    Raises:
        ValueError: it is written otherwise, or a number stands there twice.
    """
    if isinstance(value, tuple | list):
        return value
    # YAML takes a single number for one.
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    matches = [_PART.fullmatch(part.strip()) for part in text.split(",")] if isinstance(text, str) else [None]
    found: list[int] = []
    for match in matches:
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise ValueError("write numbers of the host's processors and ranges of them: 2-5,8")
        found.extend(range(first, last + 1))
    if twice := sorted({cpu for cpu in found if found.count(cpu) > 1}):
        raise ValueError(f"{write_cpus(twice)} stands there twice; leave it out once")
    return tuple(found)


def write_cpus(cpus: Any) -> str:
    """The same as text: runs of numbers, in order."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


CpuList = Annotated[tuple[int, ...], BeforeValidator(read_cpus)]
"""Processors of a host, or their text."""


_PCI: Final = re.compile(r"(?:([0-9a-f]{4}):)?([0-9a-f]{2}):([01][0-9a-f])\.([0-7])", re.IGNORECASE)
_URI: Final = re.compile(r"qemu(\+[a-z0-9]+)?://\S*/(system|session)(\?\S*)?")
_NFS: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*:/[^\s:]*")
_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"

#: The scaler gives up an operation on nodes after half an hour.
LONGEST_BOOT_S: Final = 1500
#: In KiB, as libvirt counts pages.
PAGE_KIB: Final = {"2MiB": 2048, "1GiB": 1024**2}


def _pci(value: Any) -> Any:
    match = _PCI.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("write a PCI address of the host as lspci -D does, in quotes: '0000:3b:00.0'")
    return f"{match[1] or '0000'}:{match[2]}:{match[3]}.{match[4]}".lower()


def _host_uri(uri: str) -> str:
    if not _URI.fullmatch(uri):
        raise ValueError("write a libvirt URI of QEMU: qemu:///system, or qemu+ssh://root@alpha/system")
    return uri


def _export(source: str) -> str:
    if not _NFS.fullmatch(source):
        raise ValueError("write an NFS export: SERVER:/PATH")
    return source


class Cell(Part):
    """Processors of one NUMA node of a host, which machines are pinned to, each vcpu to one of its own."""

    node: Whole = Field(ge=0, description="The NUMA node. A machine's memory is strictly there.")
    cpus: CpuList = Field(min_length=1, description="Processors of that node: `2-15`.")


class Offering(Part):
    """Options of a fleet's machines. The same on each of its hosts."""

    hosts: tuple[str, ...] | None = Field(
        default=None, min_length=1, description="The names of its hosts, in turns; by default all."
    )
    virtualization: Literal["kvm", "qemu"] = Field(
        default="kvm", description="`qemu` is emulation in software, where KVM does not work."
    )
    machine_type: str = Field(
        default="q35",
        pattern=r"^(pc|q35|pc-(q35|i440fx)-[a-z0-9.+-]+)$",
        description="QEMU's machine, such as `q35` or `pc-q35-7.2`.",
    )
    cpu: Literal["host-passthrough", "host-model", "maximum"] | None = Field(
        default=None,
        validate_default=True,
        description="What processor the machine sees: by default `host-passthrough`, with `qemu` `maximum`.",
    )
    cells: tuple[Cell, ...] = Field(
        default=(), description="Where machines are pinned, none of them over two cells; nowhere by default."
    )
    emulator_cpus: CpuList = Field(
        default=(), description="The processors of QEMU's own threads, for all machines: `0-1`."
    )
    hugepages: Literal["2MiB", "1GiB"] | None = Field(
        default=None, description="The pages that memory is made of; they must be reserved on the host."
    )
    pci_devices: tuple[Annotated[str, BeforeValidator(_pci)], ...] = Field(
        default=(), description="Devices of each host that are given to machines: `['0000:3b:00.0']`."
    )
    pci_per_machine: Whole = Field(
        default=1,
        ge=1,
        description="How many of them a machine gets. More than one was not tried yet, by any test or by hand.",
    )
    sriov_network: Annotated[str, Field(pattern=_NAME)] | None = Field(
        default=None,
        description="A network of libvirt on each host (`<forward mode='hostdev'>`) that gives each machine a virtual "
        "function.",
    )
    disk_mib: Annotated[Whole, BeforeValidator(mebibytes)] = Field(
        default=16 * 1024,
        validation_alias="disk",
        ge=4096,
        description="How large the machine's disk is. It is thin: the host holds what was written.",
    )
    overhead_mib: Annotated[Whole, BeforeValidator(mebibytes)] = Field(
        default=256,
        validation_alias="overhead",
        ge=0,
        description="Memory that the machine has beside what jobs are given, for its kernel and daemons.",
    )
    boot_timeout_s: Whole | None = Field(
        default=None,
        validate_default=True,
        ge=1,
        le=LONGEST_BOOT_S,
        description="How long a machine may take, in seconds, until it answers by SSH: by default 600, with `qemu` 1200.",
    )

    @field_validator("boot_timeout_s")
    @classmethod
    def _as_long_as_it_takes(cls, timeout_s: int | None, others: ValidationInfo) -> int:
        if timeout_s is not None:
            return timeout_s
        # A boot is two minutes of a processor where that is emulated, and others may have most of the processor.
        return 1200 if others.data.get("virtualization") == "qemu" else 600

    @field_validator("cpu")
    @classmethod
    def _needs_kvm(cls, cpu: str | None, others: ValidationInfo) -> str | None:
        emulated = others.data.get("virtualization") == "qemu"
        if cpu is None:
            return "maximum" if emulated else "host-passthrough"
        if emulated and cpu != "maximum":
            raise ValueError("it needs KVM; with virtualization: qemu write maximum, or leave it out")
        return cpu

    @field_validator("pci_devices")
    @classmethod
    def _each_device_once(cls, devices: tuple[str, ...]) -> tuple[str, ...]:
        if twice := sorted({device for device in devices if devices.count(device) > 1}):
            raise ValueError(f"{', '.join(twice)} stands here twice; a device is one machine's")
        return devices

    @field_validator("cells")
    @classmethod
    def _each_cpu_once(cls, cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
        cpus = [cpu for cell in cells for cpu in cell.cpus]
        if twice := sorted({cpu for cpu in cpus if cpus.count(cpu) > 1}):
            raise ValueError(f"processors {twice} are in two cells; each is in one NUMA node")
        return cells

    @property
    def page_kib(self) -> int | None:
        return PAGE_KIB[self.hugepages] if self.hugepages else None


class SiteOptions(Part):
    """The hosts, what they share, and the network: of the whole cluster."""

    hosts: Annotated[
        dict[
            Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")],
            Annotated[str, AfterValidator(_host_uri)],
        ],
        AfterValidator(by_name),
        AfterValidator(frozen),
    ] = Field(
        default_factory=lambda: FrozenDict({"here": "qemu:///system"}),
        min_length=1,
        description="libvirt's URIs, by names of your own; in the order of the names, numbers by value, machines are spread "
        "over them.",
    )
    bridge: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$")] | None = Field(
        default=None,
        description="A bridge that is there on each host, and leads to the others: needed with several hosts. By default "
        "libvirt makes a network of its own on the one host.",
    )
    outside: bool = Field(
        default=False,
        description="Whether NAT leads out of libvirt's own network; who may use it, and for what, says `firewall`.",
    )
    administrators: tuple[Network, ...] = Field(
        default=(),
        description="With `bridge`: networks from which machines are reached by SSH, beside the cluster's own: this machine's, where "
        "it has no address in `network`.",
    )
    pool: str = Field(
        default="/var/lib/libvirt/tidepool",
        pattern=r"^/[^\s]*[^\s/]$",
        description="A folder on each host; in it each stack's disks and seeds are in one of their own.",
    )
    volumes: Annotated[dict[str, Annotated[str, AfterValidator(_export)]], AfterValidator(frozen)] = Field(
        default_factory=FrozenDict,
        description="Where what machines share is: NFS exports `SERVER:/PATH` of `home`, `slurmctld`, with accounting "
        "`database`.",
    )
    store: Annotated[str, Field(pattern=r"^/dev/[^\s,]+$")] | None = Field(
        default=None,
        description="With `file_server`: the disk that has all that it serves, on the host that it is on: a block device such as "
        "`/dev/vg0/physics`. An empty one is given a file system, with quotas. Nobody here makes it or takes it away.",
    )
    apart: bool = Field(
        default=True,
        description="Whether a backup controller must be on another host than the controller.",
    )
    machines: Offering = Field(
        default_factory=Offering, description="What kind of machines the cluster's own are; as of a fleet."
    )
