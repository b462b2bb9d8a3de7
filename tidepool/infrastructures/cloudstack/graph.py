"""CloudStack as an infrastructure, by Tidepool's own resources: a VM for each machine, in a network of the stack's own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Network
from typing import Any, ClassVar, Final

import pulumi
from pulumi import CustomTimeouts, Input, Output, ResourceOptions

from tidepool import resources
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.names import ACCOUNTING_HOST, FILE_SERVER_HOST
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.cloud_init import Surroundings, by_disk, by_nfs, seed
from tidepool.infrastructures.cloudstack.demands import demands, shape_of
from tidepool.infrastructures.cloudstack.machine import group_of
from tidepool.infrastructures.cloudstack.options import Offering
from tidepool.infrastructures.cloudstack.reading import NAME, Options, read_options
from tidepool.infrastructures.cloudstack.resources import (
    CloudStackAffinityGroup,
    CloudStackMachine,
    CloudStackNetwork,
    CloudStackPortForwarding,
    CloudStackServiceOffering,
    CloudStackTemplate,
    CloudStackUserData,
    CloudStackVolume,
)
from tidepool.infrastructures.cloudstack.rules import Rule, router_of, rules
from tidepool.infrastructures.cloudstack.service_offering import Shape
from tidepool.infrastructures.cloudstack.volume import serial_of
from tidepool.infrastructures.contract import Boot, Infrastructure, Machine, MachineOrder, VolumeOrder
from tidepool.infrastructures.reading import has_own_machines
from tidepool.infrastructures.remote import Ssh, ssh
from tidepool.resources.declarations import preflight
from tidepool.resources.model import to_wire

#: The form that CloudStack fetches: a whole disk, packed.
_FORM: Final = "disk.qcow2"
#: The cluster's own machines, among the keys of offerings.
_OWN: Final = ("", "")
#: A disk by its serial number, as one that is attached to a machine that runs; by virtio or by SCSI, as its OS type has it.
_STORE: Final = "/dev/disk/by-id/*"


def make(spec: ClusterSpec, stack: str) -> Infrastructure:
    """The infrastructure of that spec's machines; registers what a stack has before any of them."""
    options = read_options(spec)
    asked = demands(spec, stack, options)
    fit = preflight("cloudstack", NAME, options.path, asked)
    # All that is made there waits for what says that the zone has it.
    opts = ResourceOptions(depends_on=[fit])
    api = to_wire(asked.api)
    made, groups = {}, {}
    for key, label, offering, shapes in _kinds_of_machines(spec, options):
        for shape in shapes:
            if shape not in made:
                made[shape] = _offering(api, stack, options, shape, opts)
        if offering.affinity is not None:
            groups[key] = CloudStackAffinityGroup(
                label,
                api=api,
                stack=stack,
                name=f"{group_of(stack)}-{label}",
                type=offering.affinity,
                opts=opts,
            ).id
    logins = spec.firewall.logins
    return CloudStack(
        stack,
        options,
        api,
        opts,
        ssh(spec, stack),
        Surroundings(spec.own_hosts, mounting=_mounting),
        str(router_of(spec.network)),
        rules(spec, options.place, NAME),
        made,
        groups,
        tuple(str(source) for rule in logins.ingress for source in rule.sources),
        logins.port,
        f"{spec.own_addresses.file_server}" if options.place.store else "",
        _store(api, stack, options, opts),
    )


def _store(api: Mapping[str, str], stack: str, options: Options, opts: ResourceOptions) -> Output[str] | None:
    """Register the volume of the file server, where there is one."""
    store = options.place.store
    if store is None:
        return None
    return CloudStackVolume(
        "store",
        api=api,
        stack=stack,
        zone=options.place.zone,
        name=f"{group_of(stack)}-store",
        size_gib=store.size_gib,
        offering=store.disk_offering,
        opts=ResourceOptions.merge(opts, ResourceOptions(retain_on_delete=True)),
    ).id


def _kinds_of_machines(
    spec: ClusterSpec, options: Options
) -> Iterator[tuple[tuple[str, str], str, Offering, Sequence[Shape]]]:
    """Yield for the cluster's own machines, and for each fleet's entry: its key, its label, its offering and its shapes."""
    if has_own_machines(spec, NAME):
        accounting, own = spec.controller.own_accounting, options.place.machines
        shapes = [spec.controller.shape]
        if accounting and ACCOUNTING_HOST in spec.own_hosts:
            shapes.append(accounting.shape)
        if spec.file_server is not None:
            shapes.append(spec.file_server.shape)
        yield _OWN, "own", own, [shape_of(shape, own) for shape in shapes]
    for found in spec.entries(NAME):
        fleet, entry = found.fleet, found.entry
        offering = options.offerings[fleet.name, entry.key]
        label = fleet.name if entry.offering is None else f"{fleet.name}-{entry.offering}"
        yield (fleet.name, entry.key), label, offering, [shape_of(fleet.shape, offering)]


def _offering(
    api: Mapping[str, str], stack: str, options: Options, shape: Shape, opts: ResourceOptions
) -> Output[str]:
    besides = "".join(f"-{key}={value}" for key, value in sorted(shape.details.items()))
    besides += "".join(f"-{tag}" for tag in shape.host_tags)
    return CloudStackServiceOffering(
        f"{shape.name or 'machine'}-{shape.cpus}x{shape.memory_mib}{besides}",
        api=api,
        stack=stack,
        name=shape.name,
        cpus=shape.cpus,
        memory_mib=shape.memory_mib,
        details=dict(shape.details),
        host_tags=list(shape.host_tags),
        make=options.place.make_offerings and not shape.name,
        cpu_mhz=options.place.cpu_mhz,
        opts=opts,
    ).id


@dataclass(frozen=True, slots=True)
class CloudStack:
    """Machines of CloudStack, of one offering: the cluster's own, or with ``key`` those of a fleet.

    ``service_offerings`` are there for each shape, ``affinity_groups`` for each offering that asks for one. ``ingress`` are
    those who reach login machines, the first of which answers at ``login_port`` of the network's public address.
    """

    forms: ClassVar[Sequence[str]] = (_FORM,)

    stack: str
    options: Options
    api: Mapping[str, str]
    opts: ResourceOptions
    ssh: Ssh
    surroundings: Surroundings
    router: str
    rules: Sequence[Rule]
    service_offerings: Mapping[Shape, Output[str]]
    affinity_groups: Mapping[tuple[str, str], Output[str]]
    ingress: tuple[str, ...]
    login_port: int
    #: The address of the cluster's own file server and the volume that it has; none where there is no such.
    file_server: str = ""
    stored: Output[str] | None = None
    key: tuple[str, str] = _OWN

    @property
    def offering(self) -> Offering:
        return self.options.place.machines if self.key == _OWN else self.options.offerings[self.key]

    def for_fleet(self, fleet: Fleet) -> Infrastructure:
        (entry,) = fleet.infrastructures
        return replace(self, key=(fleet.name, entry.key))

    def image(self, name: str, digest: Input[str]) -> Output[str]:
        place = self.options.place
        told: dict[str, Any] = {
            "api": self.api,
            "stack": self.stack,
            "zone": place.zone,
            "hypervisor": place.hypervisor,
            "os_type": place.os_type,
        }
        if place.template is not None:
            return CloudStackTemplate(name, name=place.template, **told, opts=self.opts).id
        file = resources.ImageFile(name, image=digest, form=_FORM)
        named = Output.from_input(digest).apply(lambda known: f"{name}-{known[:16]}")
        group, folder = group_of(self.stack), place.images
        return CloudStackTemplate(
            name,
            name=named.apply(lambda known: f"{group}-{known}"),
            url=named.apply(lambda known: f"{folder}/{known}.qcow2"),
            path=file.path,
            **told,
            opts=self.opts,
        ).id

    def network(self, name: str, cidr: IPv4Network) -> Output[str]:
        place = self.options.place
        return CloudStackNetwork(
            name,
            api=self.api,
            stack=self.stack,
            zone=place.zone,
            cidr=str(cidr),
            offering=place.offering_of_network,
            vpc=place.vpc or "",
            rules=list(self.rules),
            opts=self.opts,
        ).id

    def volume(self, order: VolumeOrder, opts: ResourceOptions | None = None) -> Output[str]:
        """It is on a file server, and nobody here makes it or takes it away; or on the cluster's own, on the volume of that."""
        if self.file_server:
            return Output.from_input(f"{self.file_server}:/{order.name}")
        return Output.from_input(self.options.place.volumes[order.name])

    def store(self) -> Output[str]:
        """It is attached to its machine while that boots."""
        assert self.stored is not None, "options of a file server have a store"
        return self.stored.apply(lambda known: f"{_STORE}{serial_of(known)}")

    def boot(self, name: str, boot: Boot, opts: ResourceOptions | None = None) -> Output[str]:
        parts = seed(replace(boot, files=(*boot.files, *self.ssh.files)), self.surroundings)
        return CloudStackUserData(
            name,
            api=self.api,
            stack=self.stack,
            boot=name,
            content=Output.secret(parts.apply(lambda known: at_each_boot(known.user_data, self.router))),
            opts=self._on(opts),
        ).id

    def machine(self, order: MachineOrder, opts: ResourceOptions | None = None) -> Machine:
        offering, group = self.offering, self.affinity_groups.get(self.key)
        shape = shape_of(order.shape, offering)
        made = CloudStackMachine(
            order.name,
            api=self.api,
            stack=self.stack,
            zone=self.options.place.zone,
            machine=order.name,
            address=str(order.address),
            network=order.network,
            template=order.image,
            offering=self.service_offerings[shape],
            boot=order.boot,
            cpus=shape.cpus,
            memory_mib=shape.memory_mib,
            disk_gib=offering.disk_gib,
            affinity_groups=[group] if group is not None else [],
            extra_config=offering.extra_config,
            volume=self.stored if order.name == FILE_SERVER_HOST and self.stored is not None else "",
            opts=self._on(opts),
        )
        if self.ingress and order.name.startswith("login-"):
            CloudStackPortForwarding(
                order.name,
                api=self.api,
                stack=self.stack,
                network=order.network,
                machine=made.id,
                port=self.login_port + int(order.name.removeprefix("login-")) - 1,
                sources=list(self.ingress),
                opts=self._on(opts),
            )
        in_time = ResourceOptions(custom_timeouts=CustomTimeouts(create=f"{offering.boot_timeout_s}s"))
        return self.ssh.machine(order, made.id, ResourceOptions.merge(opts, in_time))

    def _on(self, opts: pulumi.ResourceOptions | None) -> ResourceOptions:
        return ResourceOptions.merge(self.opts, opts)


def _mounting(source: str, target: str, mode: str) -> Sequence[str]:
    """Return the lines that mount a volume: an export, or the store, which comes when the machine runs already."""
    if not source.startswith(_STORE):
        return by_nfs(source, target, mode)
    return [
        # By SCSI it has two names.
        f'until disk=$(ls {source} 2>/dev/null | head -n 1) && test "$disk"; do say "waits for its disk {source}"; sleep 1; done',
        *by_disk('"$disk"', target, mode),
        f'resize2fs "$disk" >/dev/null 2>&1 || say the file system at {target} is as large as it was',
    ]


#: What cloud-init does for them anew whenever they boot. To it a VM is the same instance for as long as it is there, and of an
#: instance these are done once.
_AT_EACH_BOOT: Final[Mapping[str, Any]] = {
    "cloud_init_modules": [
        ["bootcmd", "always"],
        ["write_files", "always"],
        "set_hostname",
        "update_hostname",
    ],
    "cloud_config_modules": [["runcmd", "always"]],
    "cloud_final_modules": [["scripts_user", "always"]],
}


_ROOT_ALONE: Final = (
    'ip rule show pref 100 | grep -q prohibit || ip rule add "$@" || '
    '{ echo "tidepool: users could ask the router for keys, so this machine ends" >/dev/console; poweroff --force; }'
)


def at_each_boot(user_data: str, router: str) -> str:
    """Return the same user data for a VM that is told another one while it is there, and where root alone asks for it.

    A virtual router gives it to whoever asks from a machine's address, and there are keys in it: a machine that cannot keep its
    users from there ends at once.
    """
    first, _, text = user_data.partition("\n")
    told = json.loads(text)
    to = ("to", f"{router}/32", "ipproto", "tcp", "dport", "80", "uidrange", "1-4294967294")
    mine = ["/bin/sh", "-c", _ROOT_ALONE, "sh", "pref", "100", *to, "prohibit"]
    whole = {**told, "bootcmd": [mine, *told["bootcmd"]], **_AT_EACH_BOOT}
    return f"{first}\n{json.dumps(whole, indent=1)}\n"
