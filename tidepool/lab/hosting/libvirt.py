"""VMs of libvirt on this host: each has a kernel and a clock of its own, and is pinned by its domain (`cells` of its pool's options)."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tidepool.clients.slurm import Transport
from tidepool.cluster.pool import ConvergedPool
from tidepool.cluster.slots import Slot
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.connection import transport
from tidepool.infrastructures.libvirt.ask import LibvirtError, Virsh, done, output_of, virsh
from tidepool.infrastructures.libvirt.domain import Identity
from tidepool.infrastructures.libvirt.options import read_cpus
from tidepool.infrastructures.libvirt.reading import read_options
from tidepool.lab.errors import LabError, SchedulerFailed
from tidepool.lab.hosting.local import LocalHosting
from tidepool.lab.sampling import process_usage

#: Of the names of volumes that images are in.
_DIGEST: Final = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class LibvirtHosting:
    """A `tidepool.lab.hosting.contract.Hosting`. The control planes are machines of this kernel, ``others``.

    Args:
        uri: that of the libvirt on this host.
        slots: those of the pool.
        unbound: why they are pinned to no processors; empty where they are.
    """

    uri: str
    slots: Sequence[Slot]
    others: LocalHosting
    unbound: str = ""
    virsh: Virsh = virsh
    proc: Path = Path("/proc")
    has_own_clocks: bool = True
    #: By process of QEMU, told from another of its id by its start: one that has ended stays as it was seen last.
    _cpu_s: dict[tuple[int, int], float] = field(default_factory=dict)

    def way(self, machine: str) -> Transport:
        (address,) = (str(slot.address) for slot in self.slots if slot.node_name == machine)
        named = {"kind": "ssh", "stack": self.others.stack, "address": address, "user": "root"}
        return transport(named, self.others.data)

    def kill(self, machine: str) -> None:
        with _failures():
            done(self.virsh, self.uri, "destroy", self._domain(machine))

    def start(self, machine: str) -> None:
        self.way(machine).close()
        with _failures():
            done(self.virsh, self.uri, "start", self._domain(machine), unless="already active")

    def bind(self, machine: str) -> tuple[int, ...]:
        """Return the processors that its domain pins its vcpus to; it is bound to no others since it began."""
        pins = self._read(machine).iterfind("cputune/vcpupin")
        return tuple(sorted({cpu for pin in pins for cpu in read_cpus(pin.get("cpuset", ""))}))

    def cpu_s(self) -> float:
        """Return that of QEMU's processes as well, with all of their threads."""
        for pid in self._qemus():
            if (used := process_usage(pid, self.proc)) is not None:
                self._cpu_s[pid, used.started] = used.cpu_s
        return self.others.cpu_s() + sum(self._cpu_s.values())

    def processes(self) -> frozenset[int]:
        """Return QEMU's as well."""
        return self.others.processes() | frozenset(self._qemus())

    def images(self) -> Mapping[str, str]:
        """Return of VMs the beginning of the digest, as the names of their disks have it."""
        found = {}
        for slot in self.slots:
            sources = self._read(slot.node_name).iterfind("devices/disk/backingStore/source")
            names = " ".join(name for source in sources for name in source.attrib.values())
            digest = _DIGEST.search(names)
            found[slot.node_name] = digest[0] if digest else "unknown"
        return {**self.others.images(), **found}

    def _domain(self, machine: str) -> str:
        return Identity(self.others.stack, machine).domain

    def _read(self, machine: str) -> ET.Element:
        with _failures():
            return ET.fromstring(output_of(self.virsh, self.uri, "dumpxml", self._domain(machine)))  # noqa: S314

    def _qemus(self) -> Iterator[int]:
        """Processes of QEMU whose guests are machines of the pool: libvirt names each guest first of its arguments."""
        guests = {f"guest={self._domain(slot.node_name)}" for slot in self.slots}
        for file in self.proc.glob("[0-9]*/cmdline"):
            try:
                words = file.read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile
            if any(word.decode(errors="replace").partition(",")[0] in guests for word in words[1:4]):
                yield int(file.parent.name)


def hosting_of(spec: ClusterSpec, pool: ConvergedPool, others: LocalHosting) -> LibvirtHosting:
    """Return that of a pool whose machines are VMs of this host's libvirt.

    Raises:
        LabError: they are of several hosts, or of another one.
    """
    options = read_options(spec)
    (entry,) = (each.entry for each in spec.entries("libvirt") if each.fleet.name == pool.name)
    offering = options.offerings[pool.name, entry.key]
    uris = {options.place.hosts[host] for host in options.hosts_of(offering)}
    far = [uri for uri in sorted(uris) if urlsplit(uri).hostname]
    if len(uris) > 1 or far:
        raise LabError(
            f"pool {pool.name} has VMs {'on ' + ', '.join(far) if far else 'of several libvirts'}; a laboratory measures on this host: "
            "name it alone in `hosts` of the pool's options, by a URI without a host's name: qemu:///system"
        )
    unbound = (
        f"the VMs of pool {pool.name} are pinned to no processors: write `cells` into the options of its infrastructure, or "
        "`pinning: none` into the laboratory's file"
    )
    return LibvirtHosting(uris.pop(), tuple(pool.slots()), others, "" if offering.cells else unbound)


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except LibvirtError as error:
        raise SchedulerFailed(str(error)) from error
