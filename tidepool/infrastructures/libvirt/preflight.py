"""Lacks of a host, compared with the demands on it. libvirt defines nearly every machine, and fails when it starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tidepool.infrastructures.libvirt.capabilities import Host
from tidepool.infrastructures.libvirt.cpu_list import write_cpus
from tidepool.infrastructures.libvirt.demand import Demand

#: What images are made for.
_ARCHITECTURE: Final = "x86_64"


def lacks(host: Host, demands: Sequence[Demand]) -> tuple[str, ...]:
    """All that is missing, each with where it was asked for and the remedy. Empty where nothing is."""
    return tuple(_lacks(host, demands))


def _lacks(host: Host, demands: Sequence[Demand]) -> Iterator[str]:
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
