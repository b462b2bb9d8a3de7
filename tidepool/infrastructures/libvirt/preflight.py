"""Preflight of libvirt's hosts: the demands of a spec, compared with what a host has, in previews and by `tidepool doctor`.

libvirt defines nearly every machine, and fails when it starts.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidepool.cluster.flows import SSH
from tidepool.cluster.shape import Shape
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.finding import Finding, Preflight, findings, gathered
from tidepool.infrastructures.libvirt.ask import Host, LibvirtError, ask, tools_missing
from tidepool.infrastructures.libvirt.options import Offering, write_cpus
from tidepool.infrastructures.libvirt.reading import Options, read_options
from tidepool.infrastructures.libvirt.seat import Seat, own_seats

if TYPE_CHECKING:
    from tidepool.resources.kind import Home


@dataclass(frozen=True, slots=True)
class Demand:
    """Machines of one offering on one host.

    ``path`` is where a person wrote the offering, ``machines`` how many there can be. ``cells`` are the processors that
    they are pinned to, by NUMA node; ``page_kib`` is 0 where no huge pages are asked for.
    """

    path: str
    machines: int = field(metadata={"least": 1})
    cpus: int = field(metadata={"least": 1})
    memory_mib: int = field(metadata={"least": 1})
    virtualization: str = "kvm"
    machine_type: str = "q35"
    cells: Mapping[int, tuple[int, ...]] | None = None
    emulator_cpus: tuple[int, ...] = ()
    page_kib: int = 0
    pci: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Demands:
    """All demands on the host of that URI.

    ``ssh_from`` are the networks that filters let in by SSH, the cluster's own first; empty where nothing but its host leads there.
    ``path`` is where a person wrote the others.
    """

    uri: str
    demands: tuple[Demand, ...]
    path: str = ""
    ssh_from: tuple[str, ...] = ()


def demanded(spec: ClusterSpec, options: Options, host: str) -> Demands:
    """Return what is asked of that host; of the first one also that machines there are reached."""
    place, asked = options.place, demands(spec, options, host)
    uri, path = place.hosts[host], f"{spec.site_options('libvirt').path}.administrators"
    if place.bridge is None or host != next(iter(place.hosts)):
        return Demands(uri, asked)
    return Demands(uri, asked, path, tuple(map(str, (spec.network, *place.administrators))))


@gathered
def demands(spec: ClusterSpec, options: Options, host: str) -> Iterator[Demand]:
    """Return the demands on that host, when every fleet is as large as it may be."""
    yield from _of_own(spec, options, host)
    for found in spec.entries("libvirt"):
        fleet, offering = found.fleet, options.offerings[found.fleet.name, found.entry.key]
        most = fleet.most_nodes(found.entry)
        hosts = options.hosts_of(offering)
        if host not in hosts:
            continue
        # In turns: the first hosts have one more. Of those that are elsewhere nobody knows yet which they are.
        count = min(most, (fleet.max_nodes - hosts.index(host) + len(hosts) - 1) // len(hosts))
        if count:
            cells = [(cell.node, cell.cpus) for cell in offering.cells]
            devices = offering.pci_devices[: count * offering.pci_per_machine]
            yield _demand(found.options_path, offering, fleet.shape, count, cells, devices)


def _of_own(spec: ClusterSpec, options: Options, host: str) -> Iterator[Demand]:
    """One of each shape. Which of them are on a host is known, and so are their processors and devices."""
    offering = options.place.machines
    by_shape: dict[str, tuple[Shape, list[Seat]]] = {}
    for machine, seat in own_seats(spec, offering, options.hosts_of(offering)):
        if seat is not None and seat.host == host:
            by_shape.setdefault(machine.shape_path, (machine.shape, []))[1].append(seat)
    for shape, seats in by_shape.values():
        yield _demand(
            f"{spec.site_options('libvirt').path}.machines",
            offering,
            shape,
            len(seats),
            [(seat.node, seat.cpus) for seat in seats if seat.node is not None],
            tuple(device for seat in seats for device in seat.pci),
        )


def _demand(
    path: str,
    offering: Offering,
    shape: Shape,
    machines: int,
    pinned: Iterable[tuple[int, tuple[int, ...]]],
    devices: tuple[str, ...],
) -> Demand:
    cells: dict[int, tuple[int, ...]] = {}
    for node, cpus in pinned:
        cells[node] = (*cells.get(node, ()), *cpus)
    return Demand(
        path,
        machines,
        shape.cpus,
        shape.memory_mib + offering.overhead_mib,
        offering.virtualization,
        offering.machine_type,
        cells or None,
        offering.emulator_cpus,
        offering.page_kib or 0,
        devices,
    )


#: What images are made for.
_ARCHITECTURE: Final = "x86_64"


@gathered
def lacks(host: Host, demands: Sequence[Demand]) -> Iterator[str]:
    """All that is missing, each with where it was asked for and the remedy."""
    if host.architecture != _ARCHITECTURE:
        yield f"the host is {host.architecture}, and images are {_ARCHITECTURE}: take another host"
        return
    for demand in demands:
        yield from _of_kind(host, demand)
        yield from _of_processors(host, demand)
        yield from _of_devices(host, demand)
    yield from _of_memory(host, demands)
    yield from _of_pages(host, demands)


def _of_kind(host: Host, demand: Demand) -> Iterator[str]:
    kinds = host.machine_types.get(demand.virtualization)
    if kinds is None:
        remedy = (
            "switch virtualization on in its firmware and load kvm_intel or kvm_amd, or write virtualization: qemu"
            if demand.virtualization == "kvm"
            else "install qemu-system-x86 there"
        )
        yield f"{demand.path}.virtualization: the host has no {demand.virtualization}; {remedy}"
    elif demand.machine_type not in kinds:
        alike = sorted(
            kind for kind in kinds if kind.partition("-")[0] == demand.machine_type.partition("-")[0]
        )
        known = ", ".join(alike[-4:] or sorted(kinds)[-4:])
        yield (
            f"{demand.path}.machine_type: the host's QEMU has no {demand.machine_type}; it has {known}, and q35 or pc "
            "mean its newest"
        )


def _of_processors(host: Host, demand: Demand) -> Iterator[str]:
    for node, cpus in (demand.cells or {}).items():
        if node not in host.nodes:
            nodes = ", ".join(map(str, sorted(host.nodes)))
            yield f"{demand.path}.cells: the host has no NUMA node {node}; it has {nodes}"
            continue
        there = host.nodes[node].cpus
        if wrong := {*cpus} - there:
            yield (
                f"{demand.path}.cells: processors {write_cpus(wrong)} are not of NUMA node {node}, which has "
                f"{write_cpus(there)}"
            )
    if wrong := {*demand.emulator_cpus} - host.cpus:
        yield (
            f"{demand.path}.emulator_cpus: the host has no processors {write_cpus(wrong)}; it has "
            f"{write_cpus(host.cpus)}"
        )
    if demand.cpus > len(host.cpus):
        yield (
            f"{demand.path}: a machine has {demand.cpus} processors, and the host {len(host.cpus)}: lower cpus of its "
            "shape"
        )


def _of_devices(host: Host, demand: Demand) -> Iterator[str]:
    if missing := sorted({*demand.pci} - host.devices):
        yield (
            f"{demand.path}.pci_devices: the host has no {', '.join(missing)}; `lspci -D` there lists what it has"
        )
    if demand.pci and host.iommu is False:
        yield (
            f"{demand.path}.pci_devices: the host has no IOMMU; switch VT-d or AMD-Vi on in its firmware and boot it "
            "with intel_iommu=on or amd_iommu=on"
        )


def _of_memory(host: Host, demands: Sequence[Demand]) -> Iterator[str]:
    wanted = sum(demand.machines * demand.memory_mib for demand in demands)
    if wanted > host.memory_mib:
        sums = " + ".join(f"{d.machines} x {d.memory_mib} ({d.path})" for d in demands)
        yield (
            f"the machines have {wanted} MiB of memory together, and the host {host.memory_mib} MiB: {sums}; lower "
            "max_nodes or memory, or name more hosts"
        )


def _of_pages(host: Host, demands: Sequence[Demand]) -> Iterator[str]:
    """Pages are a machine's as a whole, and of its NUMA node where it is pinned."""
    for size in sorted({demand.page_kib for demand in demands if demand.page_kib}):
        asking = [demand for demand in demands if demand.page_kib == size]
        by_node = {node: there.pages.get(size, 0) for node, there in host.nodes.items()}
        wanted = sum(demand.machines * _pages(demand) for demand in asking)
        if wanted > sum(by_node.values()):
            yield _pages_lack(asking[0], size, sum(by_node.values()), wanted, "the host")
            continue
        for node, there in by_node.items():
            on_it = sum(_machines_on(demand, node) * _pages(demand) for demand in asking)
            if on_it > there:
                yield _pages_lack(asking[0], size, there, on_it, f"its NUMA node {node}")


def _pages(demand: Demand) -> int:
    return demand.memory_mib * 1024 // demand.page_kib


def _machines_on(demand: Demand, node: int) -> int:
    """Count the machines that a node has at most: cells fill in their order, so a later one may have fewer."""
    left = demand.machines
    for cell, cpus in (demand.cells or {}).items():
        here = min(left, len(cpus) // demand.cpus)
        if cell == node:
            return here
        left -= here
    return 0


def _pages_lack(demand: Demand, size: int, there: int, wanted: int, where: str) -> str:
    name = f"{size // 1024}M" if size < 1024**2 else f"{size // 1024**2}G"
    return (
        f"{demand.path}.hugepages: {where} has {there} pages of {size} KiB reserved, and the machines need {wanted}; boot "
        f"it with hugepagesz={name} hugepages={wanted}, and mount them before libvirtd starts"
    )


def lacks_of_way(asked: Demands) -> Iterator[str]:
    """Yield that filters keep this machine from those that it makes."""
    if not asked.ssh_from:
        return
    networks = [IPv4Network(each) for each in asked.ssh_from]
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as nothing_sent, suppress(OSError):
        # The kernel chooses the address that packets there would come from. Where it has no way, who makes a machine is told.
        nothing_sent.connect((str(networks[0][2]), SSH))
        own = IPv4Address(nothing_sent.getsockname()[0])
        if not any(own in network for network in networks):
            yield (
                f"{asked.path}: this machine would come to the cluster's from {own}, and they let in by SSH who comes from "
                f"{', '.join(asked.ssh_from)}: write {own}/32 there, or a network that it is in"
            )


Ask = Callable[[str], Host]


def lacks_of_host(asked: Demands, ask: Ask = ask) -> tuple[str, ...]:
    """All that the host lacks, each with the remedy; that it cannot be asked."""
    try:
        host = ask(asked.uri)
    except LibvirtError as error:
        return (str(error),)
    return (*lacks(host, asked.demands), *lacks_of_way(asked))


def checks_of(
    spec: ClusterSpec,
    _stack: str,
    _data: Path,
    ask: Ask = ask,
    tools: Callable[[], Iterable[str]] = tools_missing,
) -> Iterator[Finding]:
    """The tools of this machine, and each host."""
    options = read_options(spec)
    if missing := tuple(tools()):
        yield from (Finding("tools of libvirt", "lacks", tool) for tool in missing)
        return
    hosts: Mapping[str, str] = options.place.hosts
    # Over SSH, each takes a second.
    with ThreadPoolExecutor(max(1, len(hosts))) as threads:
        asked = {name: threads.submit(lacks_of_host, demanded(spec, options, name), ask) for name in hosts}
        for name, found in asked.items():
            well = f"{hosts[name]} has all that is asked of it"
            yield from findings(f"host {name} of libvirt", found.result(), well)


def _missing(demands: Demands, home: Home) -> Iterable[str]:
    if missing := tuple(tools_missing(home.environment)):
        return missing
    return lacks_of_host(demands)


PREFLIGHT = Preflight(Demands, _missing)
