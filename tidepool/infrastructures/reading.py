"""Options of infrastructures in a spec: what is the same in all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import IPv4Address
from typing import TypeVar

from tidepool.cluster.part import Part
from tidepool.cluster.part_reading import read_part
from tidepool.cluster.slots import Slot, fleet_and_number
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
    mistakes_of: Callable[[ClusterSpec, str, _Site, Offerings[_Offering]], Iterable[Mistake]],
    *,
    without_roles: str = "",
) -> tuple[_Site, str, Offerings[_Offering]]:
    """Return the options of an infrastructure, the path at which they stand, and its offerings.

    ``without_roles`` is the name of its machines, where they take no roles. ``mistakes_of`` gives what is wrong with options that could be read, from these.

    Raises:
        SpecError: with every mistake in them.
    """
    mistakes: list[Mistake] = []
    said = spec.site_options(infrastructure)
    place = read_part(site, said.path, said.options, mistakes)
    offerings = read_offerings(spec, infrastructure, offering, mistakes)
    mistakes += pool_mistakes(spec, infrastructure, without_roles)
    if place is not None:
        mistakes += mistakes_of(spec, said.path, place, offerings)
    if mistakes or place is None:
        raise SpecError(tuple(mistakes))
    return place, said.path, offerings


def has_own_machines(spec: ClusterSpec, infrastructure: str) -> bool:
    """Return whether the cluster's own machines are there, and not its nodes alone."""
    return spec.controller.infrastructure.name == infrastructure


def pool_mistakes(spec: ClusterSpec, infrastructure: str, without_roles: str = "") -> Iterator[Mistake]:
    """Yield what an infrastructure other than this machine does not have for pools; ``without_roles`` as of `read_site`."""
    for i, pool in enumerate(spec.pools):
        if without_roles and spec.pool_infrastructure(pool) == infrastructure:
            path = f"pools[{i}].infrastructure"
            yield Mistake(
                path,
                None,
                f"{without_roles} take no roles; name an infrastructure whose machines do (docs/infrastructures/README.md)",
            )
    kubernetes = spec.kubernetes
    if has_own_machines(spec, infrastructure) and kubernetes is not None and kubernetes.kubeconfig is None:
        yield Mistake(
            "kubernetes.kubeconfig",
            None,
            "it is missing: a control plane of the cluster's own is made on machines of local alone; name the kubeconfig of a "
            "Kubernetes that is there",
        )


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


def addresses_of(spec: ClusterSpec) -> Callable[[str], IPv4Address | None]:
    """Return what gives the address of a node, or of one of the cluster's own machines."""
    subnets = {fleet.name: fleet.subnet for fleet in spec.all_fleets}

    def address(node: str) -> IPv4Address | None:
        if (own := spec.own_hosts.get(node)) is not None:
            return own
        try:
            fleet, number = fleet_and_number(node)
            return Slot(fleet, number, subnets[fleet]).address
        except (KeyError, ValueError):
            return None

    return address
