"""Storage of machines of AWS: EBS volumes, which are one machine's, and file systems, which are all machines'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pulumi import Output, ResourceOptions
from pulumi_aws import ebs, ec2, efs, fsx

from tidepool.infrastructures.aws.network import StackNetwork
from tidepool.infrastructures.contract import VolumeOrder

#: Where a machine of Nitro is told that it is; it finds it by its id.
DEVICE: Final = "/dev/sdf"
_LUSTRE: Final = "2.15"


def disk(order: VolumeOrder, size_gib: int, made: StackNetwork, opts: ResourceOptions) -> ebs.Volume:
    """A volume that outlives its machine; with ``retain`` the stack too."""
    return ebs.Volume(
        order.name,
        # Where the cluster's own machines are.
        availability_zone=made.place.all_zones[0],
        size=size_gib,
        type="gp3",
        encrypted=True,
        kms_key_id=made.place.kms_key,
        tags=made.tagged(order.name),
        opts=_kept(order, opts),
    )


def attached(name: str, volume: ebs.Volume, machine: ec2.Instance, opts: ResourceOptions) -> None:
    """A machine that goes is stopped first: the volume's file system is whole."""
    ec2.VolumeAttachment(
        name,
        device_name=DEVICE,
        instance_id=machine.id,
        volume_id=volume.id,
        stop_instance_before_detaching=True,
        # It is at one machine at a time.
        opts=ResourceOptions.merge(opts, ResourceOptions(delete_before_replace=True)),
    )


def shared_by_efs(order: VolumeOrder, made: StackNetwork, opts: ResourceOptions) -> Output[str]:
    """A file system of its own, reached in each zone."""
    system = efs.FileSystem(
        order.name,
        encrypted=True,
        kms_key_id=made.place.kms_key,
        throughput_mode="elastic",
        tags=made.tagged(order.name),
        opts=_kept(order, opts),
    )
    targets = [
        efs.MountTarget(
            f"{order.name}@{zone}",
            file_system_id=system.id,
            subnet_id=subnet,
            security_groups=[made.groups["files"]],
            opts=opts,
        )
        for zone, subnet in made.subnets.items()
    ]
    # Its name is known to the VPC when it is reached.
    return Output.all(system.dns_name, *(target.id for target in targets)).apply(
        lambda known: f"{known[0]}:/"
    )


def shared_by_lustre(order: VolumeOrder, made: StackNetwork, opts: ResourceOptions) -> Output[str]:
    """FSx for Lustre, in the first zone."""
    place, wanted = made.place, made.place.lustre
    lasts = wanted.deployment == "PERSISTENT_2"
    more: dict[str, Any] = {"per_unit_storage_throughput": wanted.throughput} if lasts else {}
    system = fsx.LustreFileSystem(
        order.name,
        deployment_type=wanted.deployment,
        storage_capacity=wanted.storage_gib,
        subnet_ids=made.subnets[place.all_zones[0]],
        security_group_ids=[made.groups["files"]],
        data_compression_type="LZ4",
        file_system_type_version=_LUSTRE,
        kms_key_id=place.kms_key if lasts else None,
        tags=made.tagged(order.name),
        opts=_kept(order, opts),
        **more,
    )
    source: Callable[[list[str]], str] = lambda known: f"{known[0]}@tcp:/{known[1]}"  # noqa: E731
    return Output.all(system.dns_name, system.mount_name).apply(source)


def _kept(order: VolumeOrder, opts: ResourceOptions) -> ResourceOptions:
    return ResourceOptions.merge(opts, ResourceOptions(retain_on_delete=True)) if order.retain else opts
