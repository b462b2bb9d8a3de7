"""The options of bare metal in a spec, read with all their mistakes at once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tidepool.cluster.shape import Shape
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_entries import Mistake
from tidepool.infrastructures.metal.inventory import Need
from tidepool.infrastructures.metal.machine import HostEntry, Hosts
from tidepool.infrastructures.metal.options import Host, Offering, SiteOptions
from tidepool.infrastructures.metal.redfish import BmcLocation
from tidepool.infrastructures.metal.tasks import Media
from tidepool.infrastructures.reading import Offerings, has_own_machines, read_site, volume_mistakes

NAME: Final = "metal"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of bare metal in a spec: the place, and its path; by fleet and key of its infrastructure, the offerings."""

    place: SiteOptions
    path: str
    offerings: Offerings[Offering]


def read_options(spec: ClusterSpec) -> Options:
    """The options of bare metal in a spec, for those of its machines that are hosts.

    Raises:
        SpecError: with every mistake in them.
    """
    return Options(*read_site(spec, NAME, SiteOptions, Offering, _site_mistakes))


def hosts_of(place: SiteOptions, media: Media) -> Hosts:
    """All hosts, as they are asked."""
    return Hosts(entries_of(place), media, sleep=time.sleep)


def entries_of(place: SiteOptions) -> Mapping[str, HostEntry]:
    """All hosts, by name."""
    return {name: _entry(place, host) for name, host in place.hosts.items()}


def _entry(place: SiteOptions, host: Host) -> HostEntry:
    ca, credentials = host.ca or place.ca or "", host.credentials or place.credentials
    return HostEntry(
        BmcLocation(host.bmc, credentials, host.system, ca, place.verify), host.mac, host.asset_tag
    )


def need_of(shape: Shape, offering: Offering) -> Need:
    """Return what a machine needs of its host."""
    return Need(shape.cpus, shape.memory_mib + offering.overhead_mib, dict(offering.bios))


def _site_mistakes(
    spec: ClusterSpec, path: str, place: SiteOptions, offerings: Offerings[Offering]
) -> Iterator[Mistake]:
    remedy = "hosts have disks and no folders that machines share; name an NFS export, SERVER:/PATH"
    yield from volume_mistakes(spec, NAME, path, place.volumes, remedy)
    seen: dict[tuple[str, ...], str] = {}
    for name, host in place.hosts.items():
        for what, value in (("bmc", (host.bmc.rstrip("/"), host.system)), ("mac", (host.mac,))):
            if (other := seen.setdefault(value, name)) != name:
                yield Mistake(f"{path}.hosts.{name}.{what}", " ".join(value), f"{other} is the same host")
        if host.asset_tag.startswith("tidepool:"):
            yield Mistake(
                f"{path}.hosts.{name}.asset_tag",
                host.asset_tag,
                "so begins the claim of a stack; leave it out",
            )
    for where, offering in _offerings(spec, path, place, offerings):
        for i, name in enumerate(offering.hosts or ()):
            if name not in place.hosts:
                yield Mistake(f"{where}.hosts[{i}]", name, f"hosts are {', '.join(place.hosts)}")
    yield from _too_few(spec, path, place, offerings)
    yield from _images_on_disks(spec, offerings)


def _images_on_disks(spec: ClusterSpec, offerings: Offerings[Offering]) -> Iterator[Mistake]:
    """Find pools whose roles have an image each, and whose roots are on disks: those are written when a host is claimed, and not since."""
    for i, pool in enumerate(spec.pools):
        offering = next((each for (name, _), each in offerings.items() if name == pool.name), None)
        if offering is not None and offering.root == "disk" and pool.role_images:
            yield Mistake(
                f"pools[{i}].images",
                None,
                "with root: disk a host keeps its image for as long as it is claimed: name one that holds both roles, or write root: memory",
            )


def _offerings(
    spec: ClusterSpec, path: str, place: SiteOptions, offerings: Offerings[Offering]
) -> Iterator[tuple[str, Offering]]:
    if has_own_machines(spec, NAME):
        yield f"{path}.machines", place.machines
    for found in spec.entries(NAME):
        if (offering := offerings.get((found.fleet.name, found.entry.key))) is not None:
            yield found.options_path, offering


def _too_few(
    spec: ClusterSpec, path: str, place: SiteOptions, offerings: Offerings[Offering]
) -> Iterator[Mistake]:
    """Find fleets that must have more nodes than there are hosts: more than that may come when there are more."""
    own = len(spec.own_hosts) if has_own_machines(spec, NAME) else 0
    if own > len(place.machines.hosts or place.hosts):
        yield Mistake(
            f"{path}.machines.hosts",
            None,
            f"the cluster's own machines are {own}, and there are fewer hosts: name more",
        )
    for found in spec.entries(NAME):
        offering = offerings.get((found.fleet.name, found.entry.key))
        hosts = len((offering.hosts if offering else None) or place.hosts)
        least = found.fleet.min_nodes if len(found.fleet.infrastructures) == 1 else 0
        if least > hosts:
            yield Mistake(
                f"{found.options_path}.hosts",
                None,
                f"{found.least_key} are {least}, and there are {hosts} hosts: name more, or lower it",
            )
