"""Hosts that run libvirt as an infrastructure, by the resources of pulumi-libvirt; one provider for each host.

On each host a stack has a folder of disks (Pool), a network, each image once (Volume), and the seed of each kind of
machine (CloudInitDisk). A machine is a thin Volume over its image and a Domain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from typing import Any, ClassVar, Final

import pulumi_libvirt as libvirt
from pulumi import CustomTimeouts, Input, Output, ResourceOptions

from tidepool import resources
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.names import FILE_SERVER_HOST
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.cloud_init import Surroundings, by_disk, by_nfs, seed
from tidepool.infrastructures.contract import Boot, Infrastructure, Machine, MachineOrder, VolumeOrder
from tidepool.infrastructures.libvirt.domain import NETWORK, Identity, disk_of, pool_of, stylesheet
from tidepool.infrastructures.libvirt.filter import PARTS, Part, filter_name, filter_xml, part_of
from tidepool.infrastructures.libvirt.options import Offering
from tidepool.infrastructures.libvirt.preflight import demanded
from tidepool.infrastructures.libvirt.reading import Options, read_options
from tidepool.infrastructures.libvirt.resources import NetworkFilter
from tidepool.infrastructures.libvirt.seat import Seat, own_seats
from tidepool.infrastructures.libvirt.seat import seat as seat_of
from tidepool.infrastructures.remote import Ssh, ssh
from tidepool.resources.declarations import Preflight, preflight

_ARCHITECTURE: Final = "x86_64"
#: The disk of the file server, in its machine.
_STORE: Final = "/dev/vdb"
#: The form that is uploaded: a whole disk, packed.
_FORM: Final = "disk.qcow2"
#: All that a domain is told, but for whether it runs, now and when its host boots.
_OF_A_DOMAIN: Final = [
    "arch",
    "cloudinit",
    "consoles",
    "cpu",
    "description",
    "disks",
    "machine",
    "memory",
    "networkInterfaces",
    "type",
    "vcpu",
    "xml",
]


def make(spec: ClusterSpec, stack: str) -> Infrastructure:
    """The infrastructure of that spec's machines; registers what a stack has on each host."""
    options = read_options(spec)
    hosts, fits = {}, {}
    for name, uri in options.place.hosts.items():
        asked = demanded(spec, options, name)
        fit = fits[name] = preflight(
            f"libvirt@{name}", "libvirt", f"{spec.site_options('libvirt').path}.hosts.{name}", asked
        )
        # All that is made there waits for what says that the host has it.
        provider = libvirt.Provider(f"libvirt@{name}", uri=uri, opts=ResourceOptions(depends_on=[fit]))
        folder = f"{options.place.pool}/{stack}"
        pool = libvirt.Pool(
            f"pool@{name}",
            name=pool_of(stack),
            type="dir",
            target={"path": folder},
            opts=ResourceOptions(provider=provider, delete_before_replace=True),
        )
        hosts[name] = _Host(provider, pool, folder)
    offering = options.place.machines
    own = own_seats(spec, offering, options.hosts_of(offering))
    prefix = spec.network.prefixlen if options.place.bridge else None
    return Libvirt(
        stack,
        options,
        hosts,
        Surroundings(spec.own_hosts, prefix, _mounting, beside=True),
        ssh(spec, stack),
        offering,
        {machine.address: seat for machine, seat in own if seat is not None},
        {},
        _filters(spec, stack, options, fits),
        spec.own_addresses.file_server if options.place.store else None,
    )


def _filters(
    spec: ClusterSpec, stack: str, options: Options, fits: Mapping[str, Preflight]
) -> Mapping[Part, tuple[NetworkFilter, ...]]:
    """Filters of a network with a way out, by the part of the cluster: one on each host. Of one without, nothing leaves."""
    place = options.place
    if place.bridge is None and not place.outside:
        return {}
    return {
        part: tuple(
            NetworkFilter(
                f"{part}@{name}",
                uri=uri,
                filter=filter_name(stack, part),
                definition=filter_xml(
                    stack,
                    part,
                    spec.network,
                    spec.firewall,
                    mounts=bool(place.volumes),
                    administrators=place.administrators,
                ),
                opts=ResourceOptions(depends_on=[fits[name]]),
            )
            for name, uri in place.hosts.items()
        )
        for part in PARTS
    }


@dataclass(frozen=True, slots=True)
class _Host:
    """Resources of a stack on one host. ``folder`` is the pool's."""

    provider: libvirt.Provider
    pool: libvirt.Pool
    folder: str


@dataclass(frozen=True, slots=True)
class Libvirt:
    """Machines of hosts that run libvirt: of one offering, each in its seat.

    By their addresses, ``own`` are the seats of the cluster's own machines, ``numbers`` those of a fleet's: a machine's
    host, processors and devices follow from it.
    """

    forms: ClassVar[Sequence[str]] = (_FORM,)

    stack: str
    options: Options
    hosts: Mapping[str, _Host]
    surroundings: Surroundings
    ssh: Ssh
    offering: Offering
    own: Mapping[IPv4Address, Seat]
    numbers: Mapping[IPv4Address, int]
    filters: Mapping[Part, tuple[NetworkFilter, ...]]
    file_server: IPv4Address | None = None

    def for_fleet(self, fleet: Fleet) -> Infrastructure:
        numbers = {slot.address: slot.number for slot in fleet.slots()}
        offering = self.options.offerings[fleet.name, fleet.infrastructures[0].key]
        return replace(self, offering=offering, numbers=numbers)

    def image(self, name: str, digest: Input[str]) -> Output[str]:
        file = resources.ImageFile(name, image=digest, form=_FORM)
        named = Output.from_input(digest).apply(lambda known: f"{name}-{known[:16]}.qcow2")
        names = [
            libvirt.Volume(
                f"{name}@{at}",
                name=named,
                pool=host.pool.name,
                source=file.path,
                format="qcow2",
                opts=_on(host),
            ).name
            for at, host in self.hosts.items()
        ]
        return Output.all(*names).apply(lambda known: str(known[0]))

    def network(self, name: str, cidr: IPv4Network) -> Output[str]:
        place = self.options.place
        named = f"tidepool-{self.stack}"
        names = []
        for at, host in self.hosts.items():
            alone = _on(host, delete_before_replace=True)
            if place.bridge is not None:
                made = libvirt.Network(
                    f"{name}@{at}", name=named, mode="bridge", bridge=place.bridge, autostart=True, opts=alone
                )
            else:
                made = libvirt.Network(
                    f"{name}@{at}",
                    name=named,
                    mode="nat" if place.outside else "none",
                    addresses=[str(cidr)],
                    dhcp={"enabled": True},
                    autostart=True,
                    xml={"xslt": NETWORK},
                    opts=alone,
                )
            names.append(made.name)
        return Output.all(*names).apply(lambda known: str(known[0]))

    def volume(self, order: VolumeOrder, opts: ResourceOptions | None = None) -> Output[str]:
        """It is on a file server, and nobody here makes it or takes it away; or on the cluster's own, on the disk of that."""
        if self.file_server is not None:
            return Output.from_input(f"{self.file_server}:/{order.name}")
        return Output.from_input(self.options.place.volumes[order.name])

    def store(self) -> Output[str]:
        """It is the second disk of its machine."""
        return Output.from_input(_STORE)

    def boot(self, name: str, boot: Boot, opts: ResourceOptions | None = None) -> Output[str]:
        parts = seed(replace(boot, files=(*boot.files, *self.ssh.files)), self.surroundings)
        user_data: Output[str] = Output.secret(parts.apply(lambda known: known.user_data))
        names = [
            libvirt.CloudInitDisk(
                f"{name}@{at}",
                # The same name for whatever is in it: machines find the new one when they boot the next time.
                name=_seed_name(name),
                pool=host.pool.name,
                user_data=user_data,
                # Digests of what is random tell nothing of it.
                meta_data=Output.unsecret(parts.apply(lambda known: known.meta_data)),
                network_config=Output.unsecret(parts.apply(lambda known: known.network_config)),
                opts=_on(host, opts, delete_before_replace=True, additional_secret_outputs=["user_data"]),
            ).name
            for at, host in self.hosts.items()
        ]
        return Output.all(*names).apply(lambda _: name)

    def _store(self, machine: str) -> Sequence[Mapping[str, str]]:
        path = self.options.place.store
        return [{"block_device": path}] if machine == FILE_SERVER_HOST and path is not None else []

    def machine(self, order: MachineOrder, opts: ResourceOptions | None = None) -> Machine:
        offering, shape = self.offering, order.shape
        seat = self.own.get(order.address) or seat_of(
            offering, self.options.hosts_of(offering), shape.cpus, self.numbers[order.address]
        )
        host = self.hosts[seat.host]
        alone = _on(host, opts, delete_before_replace=True)
        disk = libvirt.Volume(
            order.name,
            name=disk_of(order.name),
            pool=host.pool.name,
            base_volume_name=order.image,
            base_volume_pool=host.pool.name,
            size=offering.disk_mib * 1024**2,
            # It may stand on any of them by now, and an image whose recipe has changed is taken away.
            opts=ResourceOptions.merge(
                alone,
                ResourceOptions(
                    replacement_trigger=[*order.role_images.values()] or None,
                    ignore_changes=["*"] if order.is_suspended else None,
                ),
            ),
        )
        folder, identity = host.folder, Identity(self.stack, order.name)
        imaging = self._imaging(order, seat, identity) if order.role_images else None
        part = part_of(order.name, is_own=order.address in self.own)
        filters = self.filters.get(part, ())
        domain = libvirt.Domain(
            order.name,
            name=identity.domain,
            # For the plugin another disk is no other machine, but another description is; and while its disk is made anew,
            # that is not known.
            description=disk.id.apply(lambda _: f"tidepool stack={self.stack} machine={order.name}"),
            type=offering.virtualization,
            arch=_ARCHITECTURE,
            machine=offering.machine_type,
            cpu={"mode": offering.cpu},
            vcpu=shape.cpus,
            memory=shape.memory_mib + offering.overhead_mib,
            disks=[{"volume_id": disk.id}, *self._store(order.name)],
            # Its path is its key to libvirt; what follows the semicolon only tells the plugin's own ids apart.
            cloudinit=Output.from_input(order.boot).apply(lambda name: f"{folder}/{_seed_name(name)};seed"),
            network_interfaces=_interfaces(order, offering),
            consoles=[{"type": "pty", "target_port": "0", "target_type": "serial"}],
            # A host that boots starts none whose memory is saved; and a look at one takes it for as it should be.
            autostart=not order.is_suspended,
            running=False if order.is_suspended else None,
            xml={
                "xslt": stylesheet(
                    identity, shape, offering, seat, filter_name(self.stack, part) if filters else ""
                )
            },
            # The plugin takes these for changes in place, and then changes nothing.
            opts=ResourceOptions.merge(
                alone,
                ResourceOptions(
                    depends_on=[*filters],
                    replace_on_changes=["arch", "cpu", "machine"],
                    # One that is suspended stays as it was made: it is made anew, where it should be another, when it goes on.
                    ignore_changes=_OF_A_DOMAIN if order.is_suspended else None,
                ),
            ),
        )
        in_time = ResourceOptions(custom_timeouts=CustomTimeouts(create=f"{offering.boot_timeout_s}s"))
        made = self.ssh.machine(order, domain.id, ResourceOptions.merge(opts, in_time))
        return replace(made, imaging=imaging, suspension=self._suspension(seat, identity))

    def _suspension(self, seat: Seat, identity: Identity) -> Output[Mapping[str, Any]]:
        """Return the inputs of `tidepool.infrastructures.libvirt.suspension`."""
        uri = self.options.place.hosts[seat.host]
        return Output.from_input({"kind": "libvirt", "uri": uri, "domain": identity.domain})

    def _imaging(self, order: MachineOrder, seat: Seat, identity: Identity) -> Output[Mapping[str, Any]]:
        """Return the inputs of `tidepool.infrastructures.libvirt.imaging`."""
        return Output.from_input(
            {
                "kind": "libvirt",
                "uri": self.options.place.hosts[seat.host],
                "domain": identity.domain,
                "pool": pool_of(self.stack),
                "volume": disk_of(order.name),
                "bytes": self.offering.disk_mib * 1024**2,
                "images": dict(order.role_images),
            }
        )


def _mounting(source: str, target: str, mode: str) -> Sequence[str]:
    """Return the lines that mount a volume: an export, or the store."""
    return by_nfs(source, target, mode) if source != _STORE else by_disk(_STORE, target, mode)


def _interfaces(order: MachineOrder, offering: Offering) -> list[Mapping[str, Any]]:
    """The cluster's network, with the machine's reservation; and where it is asked for a virtual function."""
    first = {
        "network_name": order.network,
        "mac": order.mac.upper(),
        "addresses": [str(order.address)],
        "hostname": order.name,
    }
    if offering.sriov_network is None:
        return [first]
    # Locally administered as the first one, and another: 06 for 02.
    return [first, {"network_name": offering.sriov_network, "mac": f"06{order.mac[2:]}".upper()}]


def _on(host: _Host, opts: ResourceOptions | None = None, **more: Any) -> ResourceOptions:
    return ResourceOptions.merge(opts, ResourceOptions(provider=host.provider, **more))


def _seed_name(boot: str) -> str:
    return f"{boot}-seed.iso"
