"""Storage of machines of AWS: images as AMIs, EBS volumes, which are one machine's, and file systems, which are all machines'.

An image of this machine's store is a file in a bucket of the stack, a snapshot that AWS makes of it, and an AMI.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from pulumi import FileAsset, Input, Output, ResourceOptions
from pulumi_aws import ebs, ec2, efs, fsx, iam, s3

from tidepool import resources
from tidepool.infrastructures.aws.access import assumed_by, imports_images, only_encrypted
from tidepool.infrastructures.aws.names import named
from tidepool.infrastructures.aws.network import Owner, StackNetwork
from tidepool.infrastructures.aws.options import SiteOptions
from tidepool.infrastructures.contract import VolumeOrder

#: VM Import takes raw disks, and no qcow2.
FORM: Final = "disk"
ROOT_DEVICE: Final = "/dev/xvda"


@dataclass(frozen=True, slots=True)
class Importer:
    """The bucket for images, the role by which AWS reads them, and the architecture that they are made for."""

    bucket: s3.Bucket
    role: iam.Role
    allowed: iam.RolePolicy
    owner: Owner
    place: SiteOptions
    architecture: str


def importer(owner: Owner, place: SiteOptions, architecture: str) -> Importer:
    """Register a bucket that is closed to everybody else, and the role."""
    tags, opts = dict(owner.tags), owner.opts
    bucket = s3.Bucket("images", force_destroy=True, tags=tags, opts=opts)
    s3.BucketPublicAccessBlock(
        "images",
        bucket=bucket.id,
        block_public_acls=True,
        block_public_policy=True,
        ignore_public_acls=True,
        restrict_public_buckets=True,
        opts=opts,
    )
    s3.BucketPolicy("images", bucket=bucket.id, policy=bucket.arn.apply(only_encrypted), opts=opts)
    role = iam.Role(
        "images",
        name=named(owner.stack, "images"),
        assume_role_policy=assumed_by("vmie.amazonaws.com", "vmimport"),
        tags=tags,
        opts=owner.options(delete_before_replace=True),
    )
    allowed = iam.RolePolicy(
        "images",
        role=role.id,
        policy=bucket.arn.apply(lambda arn: imports_images(arn, place.region, place.kms_key)),
        opts=opts,
    )
    return Importer(bucket, role, allowed, owner, place, architecture)


def ami(name: str, digest: Input[str], by: Importer) -> Output[str]:
    """Its id. Another digest is another object, snapshot and AMI; the old ones go when no machine is made from them."""
    told, tags = by.owner.opts, dict(by.owner.tags)
    file = resources.ImageFile(name, image=digest, form=FORM)
    short = Output.from_input(digest).apply(lambda known: f"{name.replace('/', '-')}-{known[:16]}")
    uploaded = s3.BucketObjectv2(
        name,
        bucket=by.bucket.id,
        key=short.apply(lambda known: f"{known}.raw"),
        # In a preview the file is not written yet, and the engine would read it.
        source=Output.all(file.id, file.path).apply(lambda known: FileAsset(known[1])),
        server_side_encryption="AES256",
        tags=tags,
        opts=told,
    )
    snapshot = ebs.SnapshotImport(
        name,
        description=short,
        disk_container=ebs.SnapshotImportDiskContainerArgs(
            format="RAW",
            user_bucket=ebs.SnapshotImportDiskContainerUserBucketArgs(
                s3_bucket=by.bucket.id, s3_key=uploaded.key
            ),
        ),
        encrypted=True,
        kms_key_id=by.place.kms_key,
        role_name=by.role.name,
        tags=tags,
        opts=by.owner.options(depends_on=[by.allowed]),
    )
    encrypted = _of_key(by.place.kms_key)
    made = ec2.Ami(
        name,
        name=short.apply(lambda known: named(by.owner.stack, f"{known}{encrypted}")),
        architecture=by.architecture,
        virtualization_type="hvm",
        ena_support=True,
        # By UEFI where a type can, else by BIOS: the disk boots by both. Graviton knows UEFI alone.
        boot_mode="uefi" if by.architecture == "arm64" else "uefi-preferred",
        # Machines of it have no other metadata.
        imds_support="v2.0",
        root_device_name=ROOT_DEVICE,
        ebs_block_devices=[
            ec2.AmiEbsBlockDeviceArgs(
                device_name=ROOT_DEVICE,
                snapshot_id=snapshot.id,
                volume_type="gp3",
                delete_on_termination=True,
            )
        ],
        tags=tags,
        opts=told,
    )
    return made.id


def _of_key(key: str | None) -> str:
    """Return the end of an AMI's name: one with another key is made while the old one is there, and AWS has a name once."""
    return f"-{sha256(key.encode()).hexdigest()[:8]}" if key else ""


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
        tags=made.owner.tagged(order.name),
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
        tags=made.owner.tagged(order.name),
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
        tags=made.owner.tagged(order.name),
        opts=_kept(order, opts),
        **more,
    )
    source: Callable[[list[str]], str] = lambda known: f"{known[0]}@tcp:/{known[1]}"  # noqa: E731
    return Output.all(system.dns_name, system.mount_name).apply(source)


def _kept(order: VolumeOrder, opts: ResourceOptions) -> ResourceOptions:
    return ResourceOptions.merge(opts, ResourceOptions(retain_on_delete=True)) if order.retain else opts
