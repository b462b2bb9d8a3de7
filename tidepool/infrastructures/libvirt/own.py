"""The cluster's own machines on libvirt: which there are, and where each is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

from tidepool.cluster.names import ACCOUNTING_HOST, BACKUP_CONTROLLER_HOST, CONTROLLER_HOST
from tidepool.cluster.shape import Shape
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.libvirt.options import Offering
from tidepool.infrastructures.libvirt.seat import Seat, seats

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


def has_own_machines(spec: ClusterSpec) -> bool:
    """Return whether the cluster's own machines are libvirt's, and not its nodes alone."""
    return spec.controller.infrastructure.name == _NAME


def own_seats(
    spec: ClusterSpec, offering: Offering, hosts: Sequence[str]
) -> tuple[tuple[OwnMachine, Seat | None], ...]:
    """The cluster's own machines that are there and libvirt's, each with its seat; None where its host has no more."""
    own = tuple(_machines(spec)) if has_own_machines(spec) else ()
    found = seats(offering, hosts, [(each.place, each.shape.cpus) for each in own])
    return tuple(zip(own, found, strict=True))


def _machines(spec: ClusterSpec) -> Iterator[OwnMachine]:
    controller, hosts = spec.controller, spec.own_hosts
    logins = [name for name in hosts if name not in _FIRST]
    for place, name in enumerate((*_FIRST, *logins), 1):
        if name not in hosts:
            continue
        if name == ACCOUNTING_HOST and controller.accounting:
            shape, path = controller.accounting.shape, "controller.accounting.shape"
        else:
            shape, path = controller.shape, "controller.shape"
        yield OwnMachine(name, hosts[name], place, shape, path)
