"""An image of this machine's store as an AMI: a file in a bucket of the stack, a snapshot that AWS makes of it, an AMI."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from pulumi import FileAsset, Input, Output, ResourceOptions
from pulumi_aws import ebs, ec2, iam, s3

from tidepool import resources
from tidepool.infrastructures.aws.names import named
from tidepool.infrastructures.aws.options import SiteOptions
from tidepool.infrastructures.aws.policies import assumed_by, imports_images, only_encrypted

#: VM Import takes raw disks, and no qcow2.
FORM: Final = "disk"
ROOT_DEVICE: Final = "/dev/xvda"


@dataclass(frozen=True, slots=True)
class Importer:
    """The bucket for images, the role by which AWS reads them, and the architecture that they are made for."""

    bucket: s3.Bucket
    role: iam.Role
    allowed: iam.RolePolicy
    tags: dict[str, str]
    place: SiteOptions
    architecture: str
    opts: ResourceOptions


def importer(
    stack: str, place: SiteOptions, architecture: str, tags: dict[str, str], opts: ResourceOptions
) -> Importer:
    """Register a bucket that is closed to everybody else, and the role."""
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
        name=named(stack, "images"),
        assume_role_policy=assumed_by("vmie.amazonaws.com", "vmimport"),
        tags=tags,
        opts=ResourceOptions.merge(opts, ResourceOptions(delete_before_replace=True)),
    )
    allowed = iam.RolePolicy(
        "images",
        role=role.id,
        policy=bucket.arn.apply(lambda arn: imports_images(arn, place.region, place.kms_key)),
        opts=opts,
    )
    return Importer(bucket, role, allowed, tags, place, architecture, opts)


def ami(name: str, digest: Input[str], stack: str, by: Importer, opts: ResourceOptions | None) -> Output[str]:
    """Its id. Another digest is another object, snapshot and AMI; the old ones go when no machine is made from them."""
    told = ResourceOptions.merge(by.opts, opts)
    file = resources.ImageFile(name, image=digest, form=FORM, opts=opts)
    short = Output.from_input(digest).apply(lambda known: f"{name.replace('/', '-')}-{known[:16]}")
    uploaded = s3.BucketObjectv2(
        name,
        bucket=by.bucket.id,
        key=short.apply(lambda known: f"{known}.raw"),
        # In a preview the file is not written yet, and the engine would read it.
        source=Output.all(file.id, file.path).apply(lambda known: FileAsset(known[1])),
        server_side_encryption="AES256",
        tags=by.tags,
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
        tags=by.tags,
        opts=ResourceOptions.merge(told, ResourceOptions(depends_on=[by.allowed])),
    )
    encrypted = _of_key(by.place.kms_key)
    made = ec2.Ami(
        name,
        name=short.apply(lambda known: named(stack, f"{known}{encrypted}")),
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
        tags=by.tags,
        opts=told,
    )
    return made.id


def _of_key(key: str | None) -> str:
    """Return the end of an AMI's name: one with another key is made while the old one is there, and AWS has a name once."""
    return f"-{sha256(key.encode()).hexdigest()[:8]}" if key else ""
