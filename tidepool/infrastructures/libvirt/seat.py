"""Seats of machines on hosts: host, processors and devices follow from a machine's number, so nobody has to remember them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

from tidepool.cluster.addresses import MOST_LOGIN_MACHINES
from tidepool.cluster.names import ACCOUNTING_HOST, BACKUP_CONTROLLER_HOST, CONTROLLER_HOST, FILE_SERVER_HOST
from tidepool.cluster.shape import Shape
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.libvirt.options import Offering
from tidepool.infrastructures.reading import has_own_machines


@dataclass(frozen=True, slots=True)
class Seat:
    """The part of a host that is a machine's own. ``cpus`` are pinned in the order of its vcpus, in NUMA node ``node``."""

    host: str
    node: int | None = None
    cpus: tuple[int, ...] = ()
    pci: tuple[str, ...] = ()


def seat(offering: Offering, hosts: Sequence[str], cpus: int, number: int) -> Seat:
    """The seat of the machine ``number``, from 1, with so many vcpus: hosts in turns, on each the next free ones.

    Raises:
        ValueError: there are no more.
    """
    # Of its host only those before it matter.
    numbers = range((number - 1) % len(hosts) + 1, number + 1, len(hosts))
    found = seats(offering, hosts, [(each, cpus) for each in numbers])[-1]
    if found is None:
        raise ValueError(
            f"host {hosts[(number - 1) % len(hosts)]} has processors and devices for {len(numbers) - 1} machines at most, and "
            "this would be one more"
        )
    return found


def seats(
    offering: Offering, hosts: Sequence[str], machines: Sequence[tuple[int, int]]
) -> tuple[Seat | None, ...]:
    """The seats of machines that are not alike, by the number and the vcpus of each; None where its host has no more.

    Its number decides a machine's host alone, so that none moves to another when one before it comes. Numbers may be
    nobody's: of its host each machine has the next that is free.
    """
    cells = {host: [cell.cpus for cell in offering.cells] for host in hosts}
    devices = dict.fromkeys(hosts, offering.pci_devices)
    per_machine = offering.pci_per_machine if offering.pci_devices else 0
    found: list[Seat | None] = []
    for number, cpus in machines:
        host = hosts[(number - 1) % len(hosts)]
        at = next((i for i, left in enumerate(cells[host]) if len(left) >= cpus), None)
        if (offering.cells and at is None) or len(devices[host]) < per_machine:
            found.append(None)
            continue
        given, devices[host] = devices[host][:per_machine], devices[host][per_machine:]
        if at is None:
            found.append(Seat(host, pci=given))
            continue
        pinned, cells[host][at] = cells[host][at][:cpus], cells[host][at][cpus:]
        found.append(Seat(host, offering.cells[at].node, pinned, given))
    return tuple(found)


def seats_on_each_host(offering: Offering, cpus: int) -> int | None:
    """Return how many machines with so many vcpus a host has seats for; None where nothing limits them."""
    limits = []
    if offering.cells:
        limits.append(sum(len(cell.cpus) // cpus for cell in offering.cells))
    if offering.pci_devices:
        limits.append(len(offering.pci_devices) // offering.pci_per_machine)
    return min(limits, default=None)


_NAME: Final = "libvirt"
_FIRST: Final = (CONTROLLER_HOST, BACKUP_CONTROLLER_HOST, ACCOUNTING_HOST)


@dataclass(frozen=True, slots=True)
class OwnMachine:
    """One that is there. ``place`` is its number among all that there can be, ``shape_path`` where its shape is written."""

    name: str
    address: IPv4Address
    place: int
    shape: Shape
    shape_path: str


def own_seats(
    spec: ClusterSpec, offering: Offering, hosts: Sequence[str]
) -> tuple[tuple[OwnMachine, Seat | None], ...]:
    """The cluster's own machines that are there and libvirt's, each with its seat; None where its host has no more."""
    own = tuple(_machines(spec)) if has_own_machines(spec, _NAME) else ()
    found = seats(offering, hosts, [(each.place, each.shape.cpus) for each in own])
    return tuple(zip(own, found, strict=True))


def _machines(spec: ClusterSpec) -> Iterator[OwnMachine]:
    controller, hosts = spec.controller, spec.own_hosts
    logins = [name for name in hosts if name not in (*_FIRST, FILE_SERVER_HOST)]
    places = {name: place for place, name in enumerate((*_FIRST, *logins), 1)}
    # After all login machines that there can be, so that none of them moves for it.
    places[FILE_SERVER_HOST] = len(_FIRST) + MOST_LOGIN_MACHINES + 1
    for name, place in places.items():
        if name not in hosts:
            continue
        if name == ACCOUNTING_HOST and controller.own_accounting:
            shape, path = controller.own_accounting.shape, "controller.accounting.shape"
        elif name == FILE_SERVER_HOST and spec.file_server:
            shape, path = spec.file_server.shape, "file_server.shape"
        else:
            shape, path = controller.shape, "controller.shape"
        yield OwnMachine(name, hosts[name], place, shape, path)
