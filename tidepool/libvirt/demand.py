"""What a spec asks of one host, offering by offering: what a preflight compares with what the host has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidepool.cluster.shape import Shape
from tidepool.cluster.spec import ClusterSpec
from tidepool.libvirt.options import Offering
from tidepool.libvirt.reading import Options, has_own_machines


@dataclass(frozen=True, slots=True)
class Demand:
    """Machines of one offering on one host.

    ``path`` is where a person wrote the offering, ``machines`` how many there can be. ``cells`` are the processors that
    they are pinned to, by NUMA node; ``page_kib`` is 0 where no huge pages are asked for.
    """

    path: str
    machines: int
    cpus: int
    memory_mib: int
    virtualization: str = "kvm"
    machine_type: str = "q35"
    cells: Mapping[int, tuple[int, ...]] | None = None
    emulator_cpus: tuple[int, ...] = ()
    page_kib: int = 0
    pci: tuple[str, ...] = ()


def demands(spec: ClusterSpec, options: Options, host: str) -> tuple[Demand, ...]:
    """All that is asked of that host, when every fleet is as large as it may be."""
    return tuple(_demands(spec, options, host))


def _demands(spec: ClusterSpec, options: Options, host: str) -> Iterator[Demand]:
    controller = spec.controller
    claims: list[tuple[str, Offering, Shape, int, int]] = []
    if has_own_machines(spec):
        own, path = 1 + controller.backup + controller.login_machines, spec.place("libvirt").path
        claims.append((f"{path}.machines", options.place.machines, controller.shape, own, own))
    for found in spec.entries("libvirt"):
        fleet, offering = found.fleet, options.offerings[found.fleet.name, found.entry.key]
        most = fleet.most_nodes(found.entry)
        claims.append((f"{found.path}.options", offering, fleet.shape, fleet.max_nodes, most))
    for path, offering, shape, machines, most in claims:
        hosts = options.hosts_of(offering)
        if host not in hosts:
            continue
        # In turns: the first hosts have one more. Of those that are elsewhere nobody knows yet which they are.
        count = min(most, (machines - hosts.index(host) + len(hosts) - 1) // len(hosts))
        if count:
            yield _demand(path, offering, shape, count)


def _demand(path: str, offering: Offering, shape: Shape, machines: int) -> Demand:
    cells: dict[int, tuple[int, ...]] = {}
    for cell in offering.cells:
        cells[cell.node] = (*cells.get(cell.node, ()), *cell.cpus)
    devices = offering.pci_devices[: machines * offering.pci_per_machine] if offering.pci_devices else ()
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
