"""AWS as an infrastructure, by the resources of pulumi-aws: an instance for each machine, a launch template for each kind."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network
from typing import Any, ClassVar, Final

import pulumi
import pulumi_aws as aws
from pulumi import Input, Output, ResourceOptions
from pulumi_aws import ebs, ec2

from tidepool.cluster.boot import Service
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.names import ACCOUNTING_HOST, BACKUP_CONTROLLER_HOST, CONTROLLER_HOST
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.aws.demands import architecture, wanted
from tidepool.infrastructures.aws.groups import Groups, in_name
from tidepool.infrastructures.aws.guest import guest_program
from tidepool.infrastructures.aws.launch_template import KindOrder, launch_template
from tidepool.infrastructures.aws.names import machine_tags, named, stack_tags
from tidepool.infrastructures.aws.network import Owner, StackNetwork, stack_network
from tidepool.infrastructures.aws.options import Offering
from tidepool.infrastructures.aws.reading import Options, read_options
from tidepool.infrastructures.aws.resources import AwsForwarding
from tidepool.infrastructures.aws.storage import (
    FORM,
    Importer,
    ami,
    attached,
    disk,
    importer,
    shared_by_efs,
    shared_by_lustre,
)
from tidepool.infrastructures.cloud_init import Surroundings, seed
from tidepool.infrastructures.contract import Boot, File, Infrastructure, Machine, MachineOrder, VolumeOrder
from tidepool.infrastructures.remote import Ssh, ssh
from tidepool.resources.declarations import preflight

#: As AWS recommends for EFS.
_EFS: Final = "nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport"


def mounting(source: str, target: str, mode: str) -> Sequence[str]:
    """Return the lines that mount a volume: an id (EBS), ``NAME@tcp:/NAME`` (Lustre), or ``SERVER:/PATH`` (EFS, NFS); ``mode`` is `ro` or `rw`.

    An EBS volume that has no file system is given one: it is new. One whose content is not understood is left as it is.
    """
    at = shlex.quote(target)
    if source.startswith("vol-"):
        device = f"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{source.replace('-', '')}"
        return [
            f"until test -b {device}; do sleep 1; done",
            f"blkid -p {device} >/dev/null 2>&1 || test $? -ne 2 || mkfs.ext4 -q {device}",
            f"mountpoint -q {at} || mount -o {mode} {device} {at}",
        ]
    if "@tcp:/" in source:
        command = f"mount -t lustre -o {mode},flock,noatime {shlex.quote(source)} {at}"
    elif ".efs." in source:
        command = f"mount -t nfs4 -o {mode},{_EFS} {shlex.quote(source)} {at}"
    else:
        command = f"mount -t nfs -o {mode},hard {shlex.quote(source)} {at}"
    return [f"mountpoint -q {at} || until {command}; do sleep 2; done"]


#: Of the plugin's own: what is sold out stays so, and is to be told soon.
_RETRIES: Final = 4
#: Whose volume each is, where it is one machine's.
_DISKS: Final = {"slurmctld": CONTROLLER_HOST, "database": ACCOUNTING_HOST}
_SPOT: Final = "/usr/local/lib/tidepool/spot"


def make(spec: ClusterSpec, stack: str) -> Infrastructure:
    """The infrastructure of that spec's machines; registers what a stack has before any of them."""
    options = read_options(spec, stack)
    place = options.place
    built_for = architecture()
    fit = preflight("aws", "aws", options.path, wanted(spec, options, built_for))
    provider = aws.Provider(
        "aws",
        region=place.region,
        max_retries=_RETRIES,
        # All that is made there waits for what says that the region has it.
        opts=ResourceOptions(depends_on=[fit]),
    )
    owner = Owner(stack, stack_tags(stack), ResourceOptions(provider=provider))
    made = stack_network(owner, place, Groups.of(spec, place, has_own=options.has_own))
    groups = {
        claim.offering.placement_group: ec2.PlacementGroup(
            claim.offering.placement_group,
            name=named(stack, claim.offering.placement_group),
            strategy="cluster",
            tags=dict(owner.tags),
            opts=owner.options(delete_before_replace=True),
        ).name
        for claim in {each.offering.placement_group: each for each in options.claims}.values()
        if claim.offering.placement_group is not None
    }
    return Aws(
        stack,
        options,
        made,
        importer(owner, place, built_for),
        groups,
        Surroundings(spec.own_hosts, mounting=mounting),
        ssh(spec, stack),
        place.machines,
        one_controller=not spec.controller.backup,
    )


@dataclass(frozen=True, slots=True)
class Aws:
    """Machines of AWS, of one offering. ``disks`` are those that were made so far, by the machine that has each."""

    forms: ClassVar[Sequence[str]] = (FORM,)
    #: What is on the way between two machines is the VPC's router.
    routes_pods: ClassVar[bool] = True

    stack: str
    options: Options
    stack_network: StackNetwork
    importer: Importer
    groups: Mapping[str, Output[str]]
    surroundings: Surroundings
    ssh: Ssh
    offering: Offering
    one_controller: bool = True
    smt: bool = True
    disks: dict[str, ebs.Volume] = field(default_factory=dict)

    def for_fleet(self, fleet: Fleet) -> Infrastructure:
        offering = self.options.of_fleet(fleet.name, fleet.infrastructures[0])
        return replace(self, offering=offering, smt=fleet.shape.threads_per_core > 1)

    def image(self, name: str, digest: Input[str]) -> Output[str]:
        return ami(name, digest, self.importer)

    def network(self, name: str, cidr: IPv4Network) -> Output[str]:
        """The VPC, in which the cluster's network is routes."""
        return Output.from_input(self.stack_network.vpc)

    def volume(self, order: VolumeOrder, opts: ResourceOptions | None = None) -> Output[str]:
        """A disk, where it is one machine's; else a file system, which all reach."""
        place, merged = self.options.place, self._on(opts)
        owner = _DISKS.get(order.name)
        # Two controllers share the state, and a disk is one machine's.
        if owner == ACCOUNTING_HOST or (owner == CONTROLLER_HOST and self.one_controller):
            size = place.state_gib if owner == CONTROLLER_HOST else place.database_gib
            self.disks[owner] = made = disk(order, size, self.stack_network, merged)
            return made.id
        if order.name == "home" and place.home != "efs":
            if place.home == "lustre":
                return shared_by_lustre(order, self.stack_network, merged)
            return Output.from_input(place.home)
        return shared_by_efs(order, self.stack_network, merged)

    def boot(self, name: str, boot: Boot, opts: ResourceOptions | None = None) -> Output[str]:
        all_of_it = replace(boot, files=(*boot.files, *self.ssh.files))
        if self.offering.market == "spot":
            all_of_it = _watching(all_of_it)
        told = seed(all_of_it, self.surroundings).apply(lambda parts: parts.user_data)
        group = self.offering.placement_group
        order = KindOrder(
            name,
            self.offering,
            self.options.zone_of(self.offering),
            self.smt,
            self.groups[group] if group else None,
        )
        return launch_template(order, Output.secret(told), self.stack_network, self._on(opts))

    def machine(self, order: MachineOrder, opts: ResourceOptions | None = None) -> Machine:
        merged = self._on(opts)
        # Of several interfaces EC2 wants to be told by which, and no longer by the instance. One adapter may become several.
        adapters, by_image = self.offering.efa > 0, bool(order.role_images)
        whole = ResourceOptions(
            delete_before_replace=True,
            # What a launch template says is looked at when a machine is made; a type is another machine's.
            replace_on_changes=["instanceType", "subnetId"],
            # Once the template has another version, the plugin reads the number of a machine's own in place of $Default, and would
            # make another machine of it. One that is made takes $Default all the same.
            ignore_changes=[
                "launchTemplate.version",
                *(["sourceDestCheck"] if adapters else []),
                # A conversion gives it another one (`tidepool.infrastructures.aws.imaging`), and a refresh may see it.
                *(["ami"] if by_image else []),
            ],
            # Its root volume may be of any of them by now, and an image whose recipe has changed is taken away.
            replacement_trigger=[*order.role_images.values()] or None,
        )
        made = ec2.Instance(
            order.name,
            ami=order.image,
            instance_type=self.offering.instance_type,
            launch_template=ec2.InstanceLaunchTemplateArgs(id=order.boot, version="$Default"),
            subnet_id=None if self.offering.efa else self.stack_network.subnets[self._zone_of(order.name)],
            # It answers to an address that is none of its subnet.
            source_dest_check=None if adapters else False,
            # Whoever ends it by hand is told to take the protection off first; this stack does. Spot machines cannot have it.
            disable_api_termination=self.offering.market == "on-demand" or None,
            force_destroy=self.offering.market == "on-demand" or None,
            tags=dict(machine_tags(self.stack, order.name, order.address)),
            opts=ResourceOptions.merge(merged, whole),
        )
        if (volume := self.disks.get(order.name)) is not None:
            attached(order.name, volume, made, merged)
        leads = ec2.Route(
            order.name,
            route_table_id=self.stack_network.route_table,
            destination_cidr_block=f"{order.address}/32",
            network_interface_id=made.primary_network_interface_id,
            opts=merged,
        )
        reachable: list[pulumi.Resource] = [leads]
        if order.pods is not None:
            reachable.append(
                ec2.Route(
                    # Named by where it leads: a subnet that another machine has from now on is changed, for no table has it twice.
                    f"pods-{in_name(order.pods)}",
                    route_table_id=self.stack_network.route_table,
                    destination_cidr_block=str(order.pods),
                    network_interface_id=made.primary_network_interface_id,
                    opts=merged,
                )
            )
        if adapters:
            reachable.append(
                AwsForwarding(
                    order.name,
                    region=self.options.place.region,
                    interface=made.primary_network_interface_id,
                    opts=opts,
                )
            )
        machine = self.ssh.machine(
            order, made.id, ResourceOptions.merge(opts, ResourceOptions(depends_on=reachable))
        )
        return replace(machine, imaging=self._imaging(order, made.id)) if by_image else machine

    def _imaging(self, order: MachineOrder, instance: Output[str]) -> Output[Mapping[str, Any]]:
        """Return the inputs of `tidepool.infrastructures.aws.imaging`."""
        region = self.options.place.region
        return Output.from_input(
            {"kind": "aws", "region": region, "instance": instance, "images": dict(order.role_images)}
        )

    def _zone_of(self, machine: str) -> str:
        """A backup controller is in the second zone, where there is one: not both go down with a zone."""
        zones = self.options.place.all_zones
        if machine == BACKUP_CONTROLLER_HOST:
            return zones[1 % len(zones)]
        return self.options.zone_of(self.offering)

    def _on(self, opts: ResourceOptions | None) -> ResourceOptions:
        return ResourceOptions.merge(self.stack_network.owner.opts, opts)


def _watching(boot: Boot) -> Boot:
    """The same on a machine that AWS may take back: it drains its node when AWS says so."""
    watch = Service("spot", ("/bin/sh", "-ec", f'exec /usr/bin/python3 -I {_SPOT} "$(hostname)"'))
    return replace(
        boot,
        services=(*boot.services, watch),
        files=(*boot.files, File(_SPOT, guest_program("spot"))),
    )
