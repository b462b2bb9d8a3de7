"""Bare metal as an infrastructure: a host for each machine, which boots the image's ISO from the stack's boot service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Network
from typing import ClassVar, Final

from pulumi import CustomTimeouts, Input, Output, ResourceOptions

from tidepool import resources
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.cloud_init import Surroundings, seed
from tidepool.infrastructures.contract import Boot, Infrastructure, Machine, MachineOrder, VolumeOrder
from tidepool.infrastructures.metal.options import Offering
from tidepool.infrastructures.metal.preflight import demands
from tidepool.infrastructures.metal.reading import NAME, Options, entries_of, need_of, read_options
from tidepool.infrastructures.metal.resources import MetalBoot, MetalMachine, MetalSite
from tidepool.infrastructures.remote import Ssh, ssh
from tidepool.resources.declarations import preflight

_FORM: Final = "iso"
#: The cluster's own machines, among the keys of offerings.
_OWN: Final = ("", "")


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
    return Metal(stack, options, site.id, opts, ssh(spec, stack), Surroundings(spec.own_hosts))


@dataclass(frozen=True, slots=True)
class Metal:
    """Hosts of one offering: those of the cluster's own machines, or with ``key`` those of a fleet."""

    forms: ClassVar[Sequence[str]] = (_FORM,)

    stack: str
    options: Options
    site: Output[str]
    opts: ResourceOptions
    ssh: Ssh
    surroundings: Surroundings
    key: tuple[str, str] = _OWN

    @property
    def offering(self) -> Offering:
        return self.options.place.machines if self.key == _OWN else self.options.offerings[self.key]

    def for_fleet(self, fleet: Fleet) -> Infrastructure:
        (entry,) = fleet.infrastructures
        return replace(self, key=(fleet.name, entry.key))

    def image(self, name: str, digest: Input[str]) -> Output[str]:
        return resources.ImageFile(name, image=digest, form=_FORM).path

    def network(self, name: str, cidr: IPv4Network) -> Output[str]:
        """Hosts have theirs, and their addresses in it are the nodes'."""
        return Output.from_input(name)

    def volume(self, order: VolumeOrder, opts: ResourceOptions | None = None) -> Output[str]:
        """It is on a file server, and nobody here makes it or takes it away."""
        return Output.from_input(self.options.place.volumes[order.name])

    def boot(self, name: str, boot: Boot, opts: ResourceOptions | None = None) -> Output[str]:
        parts = seed(replace(boot, files=(*boot.files, *self.ssh.files)), self.surroundings)
        content: Output[str] = parts.apply(lambda known: known.user_data)
        return MetalBoot(
            name, stack=self.stack, boot=name, content=Output.secret(content), opts=self._on(opts)
        ).id

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
            opts=self._on(opts),
        )
        in_time = ResourceOptions(custom_timeouts=CustomTimeouts(create=f"{offering.boot_timeout_s}s"))
        return self.ssh.machine(order, made.id, ResourceOptions.merge(opts, in_time))

    def _on(self, opts: ResourceOptions | None) -> ResourceOptions:
        return ResourceOptions.merge(self.opts, opts)
