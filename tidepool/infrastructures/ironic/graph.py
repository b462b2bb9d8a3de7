"""Ironic as an infrastructure: a node of it for each machine, which boots the image's ISO from the stack's boot service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from pulumi import Input, Output, ResourceOptions

from tidepool import resources
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.boot_media.graph import ISO, OWN, BootedHosts
from tidepool.infrastructures.cloud_init import Surroundings
from tidepool.infrastructures.contract import Infrastructure, Machine, MachineOrder
from tidepool.infrastructures.ironic.options import Offering
from tidepool.infrastructures.ironic.preflight import demands
from tidepool.infrastructures.ironic.reading import NAME, Options, location_of, need_of, read_options
from tidepool.infrastructures.ironic.resources import IronicHost, IronicMachine, Network
from tidepool.infrastructures.remote import ssh
from tidepool.resources.declarations import preflight


def make(spec: ClusterSpec, stack: str) -> Infrastructure:
    """The infrastructure of that spec's machines; registers what a stack has before any of them."""
    options = read_options(spec)
    place = options.place
    fit = preflight(NAME, NAME, options.path, demands(spec, stack, options))
    network = Network(
        spec.network.prefixlen,
        place.physical_network,
        str(place.gateway or ""),
        tuple(map(str, place.nameservers)),
    )
    enrolled = [
        IronicHost(
            name,
            stack=stack,
            ironic=location_of(place),
            host=name,
            bmc=entry.bmc,
            system=entry.system,
            mac=entry.mac,
            credentials=entry.credentials,
            verify=entry.verify,
            resource_class=entry.resource_class,
            traits=list(entry.traits),
            physical_network=place.physical_network,
            opts=ResourceOptions(depends_on=[fit]),
        )
        for name, entry in place.enrol.items()
    ]
    opts = ResourceOptions(depends_on=[fit, *enrolled])
    return IronicSite(
        stack, opts, ssh(spec, stack), Surroundings(spec.own_hosts), place.volumes, OWN, options, network
    )


@dataclass(frozen=True, slots=True)
class IronicSite(BootedHosts):
    """Nodes of Ironic of one offering."""

    forms: ClassVar[Sequence[str]] = (ISO,)

    options: Options
    site_network: Network

    @property
    def offering(self) -> Offering:
        return self.options.place.machines if self.key == OWN else self.options.offerings[self.key]

    def for_fleet(self, fleet: Fleet) -> Infrastructure:
        (entry,) = fleet.infrastructures
        return replace(self, key=(fleet.name, entry.key))

    def image(self, name: str, digest: Input[str]) -> Output[str]:
        return resources.ImageFile(name, image=digest, form=ISO).path

    def machine(self, order: MachineOrder, opts: ResourceOptions | None = None) -> Machine:
        offering, place = self.offering, self.options.place
        need = need_of(order.shape, offering, place)
        made = IronicMachine(
            order.name,
            stack=self.stack,
            ironic=location_of(place),
            boot_service=place.boot_service,
            network=self.site_network,
            machine=order.name,
            address=str(order.address),
            image=order.image,
            boot=order.boot,
            cpus=need.cpus,
            memory_mib=need.memory_mib,
            hosts=list(offering.hosts or ()),
            resource_class=offering.resource_class,
            traits=list(offering.traits),
            opts=self.with_images(order, opts),
        )
        way = {"kind": NAME, "ironic": {"cloud": place.cloud, "cloudsFile": place.clouds_file}}
        return self.answering(order, made, offering.boot_timeout_s, way, opts)
