"""The options of Ironic in a spec, read with all their mistakes at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tidepool.cluster.shape import Shape
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_entries import Mistake
from tidepool.infrastructures.ironic.api import IronicLocation
from tidepool.infrastructures.ironic.inventory import Need
from tidepool.infrastructures.ironic.options import Offering, SiteOptions
from tidepool.infrastructures.reading import Offerings, has_own_machines, read_site, volume_mistakes

NAME: Final = "ironic"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of Ironic in a spec: the place, and its path; by fleet and key of its infrastructure, the offerings."""

    place: SiteOptions
    path: str
    offerings: Offerings[Offering]


def read_options(spec: ClusterSpec) -> Options:
    """The options of Ironic in a spec, for those of its machines that are nodes of it.

    Raises:
        SpecError: with every mistake in them.
    """
    return Options(*read_site(spec, NAME, SiteOptions, Offering, _site_mistakes))


def location_of(place: SiteOptions) -> IronicLocation:
    """Return where the Ironic is."""
    return IronicLocation(place.cloud, place.clouds_file)


def need_of(shape: Shape, offering: Offering, place: SiteOptions) -> Need:
    """Return what a machine needs of its host."""
    return Need(
        shape.cpus,
        shape.memory_mib + offering.overhead_mib,
        offering.resource_class,
        offering.traits,
        place.physical_network,
    )


def _site_mistakes(
    spec: ClusterSpec, path: str, place: SiteOptions, offerings: Offerings[Offering]
) -> Iterator[Mistake]:
    remedy = "hosts have disks and no folders that machines share; name an NFS export, SERVER:/PATH"
    yield from volume_mistakes(spec, NAME, path, place.volumes, remedy)
    if place.gateway is not None and place.gateway not in spec.network:
        yield Mistake(
            f"{path}.gateway",
            str(place.gateway),
            f"it is not in the cluster's network, {spec.network}: correct either",
        )
    seen: dict[object, str] = {}
    for name, entry in place.enrol.items():
        for what, value in (("bmc", (entry.bmc.rstrip("/"), entry.system)), ("mac", entry.mac)):
            if (other := seen.setdefault(value, name)) != name:
                yield Mistake(f"{path}.enrol.{name}.{what}", str(value), f"{other} is the same host")
    own = len(spec.own_hosts) if has_own_machines(spec, NAME) else 0
    if place.machines.hosts is not None and own > len(place.machines.hosts):
        yield Mistake(
            f"{path}.machines.hosts",
            None,
            f"the cluster's own machines are {own}, and there are fewer hosts: name more",
        )
    for found in spec.entries(NAME):
        offering = offerings.get((found.fleet.name, found.entry.key))
        hosts = offering.hosts if offering else None
        # With several infrastructures, the others may have them all.
        least = found.fleet.min_nodes if len(found.fleet.infrastructures) == 1 else 0
        if hosts is not None and least > len(hosts):
            yield Mistake(
                f"{found.options_path}.hosts",
                None,
                f"{found.least_key} are {least}, and there are {len(hosts)} hosts: name more, or lower it",
            )
