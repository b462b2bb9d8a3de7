"""Demands of a spec on one host, offering by offering: a preflight compares them with what the host has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tidepool.cluster.shape import Shape
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.libvirt.options import Offering
from tidepool.infrastructures.libvirt.own import own_seats
from tidepool.infrastructures.libvirt.reading import Options
from tidepool.infrastructures.libvirt.seat import Seat


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
    """All demands on the host of that URI."""

    uri: str
    demands: tuple[Demand, ...]


def demands(spec: ClusterSpec, options: Options, host: str) -> tuple[Demand, ...]:
    """Return the demands on that host, when every fleet is as large as it may be."""
    return tuple(_demands(spec, options, host))


def _demands(spec: ClusterSpec, options: Options, host: str) -> Iterator[Demand]:
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
            yield _demand(f"{found.path}.options", offering, fleet.shape, count, cells, devices)


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
