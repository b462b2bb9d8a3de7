"""Bare metal as an infrastructure: a host for each machine, which boots the image's ISO from the stack's boot service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, Final

from pulumi import CustomTimeouts, Input, Output, ResourceOptions

from tidepool import resources
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.boot_media.graph import ISO, OWN, BootedHosts
from tidepool.infrastructures.cloud_init import Surroundings
from tidepool.infrastructures.contract import Infrastructure, Machine, MachineOrder
from tidepool.infrastructures.metal.options import Disk, Offering
from tidepool.infrastructures.metal.preflight import demands
from tidepool.infrastructures.metal.reading import NAME, Options, entries_of, need_of, read_options
from tidepool.infrastructures.metal.resources import MetalMachine, MetalSite
from tidepool.infrastructures.remote import ssh
from tidepool.resources.declarations import preflight

_DISK: Final = "disk"
#: For BMCs to do what they are told.
_BMCS_S: Final = 900


def make(spec: ClusterSpec, stack: str) -> Infrastructure:
    """The infrastructure of that spec's machines; registers what a stack has before any of them."""
    options = read_options(spec)
    place = options.place
    fit = preflight(NAME, NAME, options.path, demands(spec, stack, options))
    opts = ResourceOptions(depends_on=[fit])
    site = MetalSite(
        NAME,
        stack=stack,
        hosts=entries_of(place),
        boot_service=place.boot_service,
        prefix=spec.network.prefixlen,
        gateway=str(place.gateway or ""),
        nameservers=[str(each) for each in place.nameservers],
        opts=opts,
    )
    return Metal(
        stack, opts, ssh(spec, stack), Surroundings(spec.own_hosts), place.volumes, OWN, options, site.id
    )


@dataclass(frozen=True, slots=True)
class Metal(BootedHosts):
    """Hosts of bare metal of one offering."""

    options: Options
    site: Output[str]

    @property
    def offering(self) -> Offering:
        return self.options.place.machines if self.key == OWN else self.options.offerings[self.key]

    @property
    def forms(self) -> Sequence[str]:
        return (ISO, _DISK) if self._writes_disks else (ISO,)

    @property
    def _writes_disks(self) -> bool:
        """Tell if any machine's root is on a disk: an image is made for all of them."""
        everyone = (self.options.place.machines, *self.options.offerings.values())
        return any(offering.root == "disk" for offering in everyone)

    def for_fleet(self, fleet: Fleet) -> Infrastructure:
        (entry,) = fleet.infrastructures
        return replace(self, key=(fleet.name, entry.key))

    def image(self, name: str, digest: Input[str]) -> Output[str]:
        iso = resources.ImageFile(name, image=digest, form=ISO).path
        if not self._writes_disks:
            return iso
        disk = resources.ImageFile(f"{name}-{_DISK}", image=digest, form=_DISK).path
        return Output.all(iso, disk).apply(lambda made: str(made[0]))

    def machine(self, order: MachineOrder, opts: ResourceOptions | None = None) -> Machine:
        offering = self.offering
        need = need_of(order.shape, offering)
        made = MetalMachine(
            order.name,
            stack=self.stack,
            site=self.site,
            machine=order.name,
            address=str(order.address),
            image=order.image,
            boot=order.boot,
            cpus=need.cpus,
            memory_mib=need.memory_mib,
            hosts=list(offering.hosts or ()),
            bios=dict(need.bios),
            boot_timeout_s=offering.boot_timeout_s,
            **({} if offering.root == "memory" else _on_disk(order, offering.disk)),
            opts=self.with_images(
                order, ResourceOptions.merge(opts, ResourceOptions(custom_timeouts=_time(offering)))
            ),
        )
        # A root on a disk is there again when its host is switched on.
        way = {"kind": NAME} if offering.root == "memory" else {}
        return self.answering(order, made, offering.boot_timeout_s, way, opts)


def _on_disk(order: MachineOrder, disk: Disk) -> dict[str, Any]:
    # Forms of an image are beside each other.
    image = Output.from_input(order.image).apply(lambda iso: str(PurePath(iso).with_suffix(f".{_DISK}")))
    return {"disk_image": image, "disk": disk.hints, "wipe": disk.wipe}


def _time(offering: Offering) -> CustomTimeouts:
    """Time for one host that does not come up, and one that does; and for what is done to a disk."""
    disk_s = 0 if offering.root == "memory" else offering.wipe_timeout_s + offering.boot_timeout_s
    create, delete = 2 * offering.boot_timeout_s + _BMCS_S + disk_s, _BMCS_S + disk_s
    return CustomTimeouts(create=f"{create}s", update=f"{create}s", delete=f"{delete}s")
