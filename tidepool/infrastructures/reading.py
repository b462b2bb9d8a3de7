"""Options of infrastructures in a spec: what is the same in all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import IPv4Address
from typing import TypeVar

from tidepool.cluster.part import Part
from tidepool.cluster.part_reading import read_part
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_entries import Mistake
from tidepool.cluster.spec_reading import SpecError, read_offerings

_Site = TypeVar("_Site", bound=Part)
_Offering = TypeVar("_Offering", bound=Part)
Offerings = Mapping[tuple[str, str], _Offering]
"""What fleets say of their machines there, by fleet and key of its infrastructure."""


def read_site(
    spec: ClusterSpec,
    infrastructure: str,
    site: type[_Site],
    offering: type[_Offering],
    machines: str,
    mistakes_of: Callable[[ClusterSpec, str, _Site, Offerings[_Offering]], Iterable[Mistake]],
) -> tuple[_Site, str, Offerings[_Offering]]:
    """Return the options of an infrastructure whose ``machines`` take no roles, the path at which they stand, and its offerings.

    ``mistakes_of`` gives what is wrong with options that could be read, from these.

    Raises:
        SpecError: with every mistake in them.
    """
    mistakes: list[Mistake] = []
    said = spec.site_options(infrastructure)
    place = read_part(site, said.path, said.options, mistakes)
    offerings = read_offerings(spec, infrastructure, offering, mistakes)
    mistakes += pool_mistakes(spec, infrastructure, machines)
    if place is not None:
        mistakes += mistakes_of(spec, said.path, place, offerings)
    if mistakes or place is None:
        raise SpecError(tuple(mistakes))
    return place, said.path, offerings


def has_own_machines(spec: ClusterSpec, infrastructure: str) -> bool:
    """Return whether the cluster's own machines are there, and not its nodes alone."""
    return spec.controller.infrastructure.name == infrastructure


def pool_mistakes(spec: ClusterSpec, infrastructure: str, machines: str) -> Iterator[Mistake]:
    """Yield a mistake for pools of a cluster whose own machines are there, where ``machines`` take no roles."""
    if spec.pools and has_own_machines(spec, infrastructure):
        yield Mistake("pools", None, f"{machines} take no roles in this release; leave the pools out")


def volume_mistakes(
    spec: ClusterSpec, infrastructure: str, path: str, volumes: Mapping[str, object], remedy: str
) -> Iterator[Mistake]:
    """Yield the volumes that machines there share and the site's options lack, and those that nobody mounts.

    ``path`` is where the options stand, ``remedy`` what is to be written of one that is missing.
    """
    if spec.file_server is not None and has_own_machines(spec, infrastructure):
        for name in sorted(volumes):
            yield Mistake(
                f"{path}.volumes.{name}", None, "the cluster's own file server has it; leave it out"
            )
        return
    needed = ["home", *(["scratch"] if spec.scratch else [])]
    if has_own_machines(spec, infrastructure):
        needed += ["slurmctld", *(["database"] if spec.controller.own_accounting else [])]
    for name in needed:
        if name not in volumes:
            yield Mistake(f"{path}.volumes.{name}", None, f"it is missing: {remedy}")
    for name in sorted({*volumes} - {*needed}):
        given = volumes[name]
        yield Mistake(
            f"{path}.volumes.{name}",
            given if isinstance(given, str) else None,
            f"this cluster mounts {', '.join(needed)}; leave it out",
        )


def own_addresses(spec: ClusterSpec) -> tuple[IPv4Address, ...]:
    """Return the addresses of the cluster's own machines, there or not, in the order of their numbers."""
    places = spec.own_addresses
    logins = (places.login(number) for number in range(1, spec.controller.login_machines + 1))
    server = [places.file_server] if spec.file_server else []
    return (places.controller, places.backup_controller, places.accounting, *logins, *server)
