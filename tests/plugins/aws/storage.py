"""Storage: a bucket and what is in it, snapshots and AMIs of that, volumes and file systems."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.plugins.aws.calls import (
    AwsKind,
    api_value,
    auto_name,
    drift,
    listed,
    patiently,
    tagging,
    tags_of,
)
from tidepool.resources.kind import AS_KNOWN, Made, Task
from tidepool.resources.model import Field, Model, Resource, given, output
from tidepool.resources.values import Plain

Tags = Mapping[str, str]


class BucketModel(Model):
    """Properties of a bucket."""

    force_destroy: Field[bool] = given(default=False)
    tags: Field[Tags] = given(default={})
    bucket: Field[str] = output()
    arn: Field[str] = output()


class Bucket(Resource, BucketModel, token="aws:s3/bucket:Bucket", delete_first=False):
    """A bucket of S3."""


class BucketKind(AwsKind[BucketModel]):
    """A bucket of S3; its id is its name."""

    resource = Bucket
    service = "s3"

    def make(self, wanted: BucketModel, task: Task) -> Made:
        name = auto_name(task.urn.rpartition("::")[2])
        self.api.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": self.region})
        self.api.put_bucket_tagging(Bucket=name, Tagging={"TagSet": listed(wanted.tags)})
        return Made(name, {"bucket": name, "arn": f"arn:aws:s3:::{name}"})

    def found(self, id: str, state: BucketModel) -> Mapping[str, Plain]:
        self.api.head_bucket(Bucket=id)
        return AS_KNOWN

    def remove(self, id: str, state: BucketModel, task: Task) -> None:
        if state.force_destroy:
            for each in self.api.list_objects_v2(Bucket=id).get("Contents", ()):
                self.api.delete_object(Bucket=id, Key=each["Key"])
        self.api.delete_bucket(Bucket=id)


class BucketPublicAccessBlockModel(Model):
    """Properties of what keeps a bucket from the public."""

    bucket: Field[str] = given(replaces=True)
    block_public_acls: Field[bool] = given(default=False)
    block_public_policy: Field[bool] = given(default=False)
    ignore_public_acls: Field[bool] = given(default=False)
    restrict_public_buckets: Field[bool] = given(default=False)


class BucketPublicAccessBlock(
    Resource,
    BucketPublicAccessBlockModel,
    token="aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
    delete_first=False,
):
    """A bucket that is not for the public."""


class BucketPublicAccessBlockKind(AwsKind[BucketPublicAccessBlockModel]):
    """A bucket that is not for the public; its id is the bucket's."""

    resource = BucketPublicAccessBlock
    service = "s3"

    def make(self, wanted: BucketPublicAccessBlockModel, task: Task) -> Made:
        self.api.put_public_access_block(
            Bucket=wanted.bucket,
            PublicAccessBlockConfiguration={
                "BlockPublicAcls": wanted.block_public_acls,
                "BlockPublicPolicy": wanted.block_public_policy,
                "IgnorePublicAcls": wanted.ignore_public_acls,
                "RestrictPublicBuckets": wanted.restrict_public_buckets,
            },
        )
        return Made(wanted.bucket)

    def found(self, id: str, state: BucketPublicAccessBlockModel) -> Mapping[str, Plain]:
        there = self.api.get_public_access_block(Bucket=id)["PublicAccessBlockConfiguration"]
        return drift(state, {"block_public_policy": there["BlockPublicPolicy"]})

    def remove(self, id: str, state: BucketPublicAccessBlockModel, task: Task) -> None:
        self.api.delete_public_access_block(Bucket=id)


class BucketPolicyModel(Model):
    """Properties of a bucket's policy."""

    bucket: Field[str] = given(replaces=True)
    policy: Field[str] = given()


class BucketPolicy(Resource, BucketPolicyModel, token="aws:s3/bucketPolicy:BucketPolicy", delete_first=False):
    """A bucket's policy."""


class BucketPolicyKind(AwsKind[BucketPolicyModel]):
    """A bucket's policy; its id is the bucket's."""

    resource = BucketPolicy
    service = "s3"

    def make(self, wanted: BucketPolicyModel, task: Task) -> Made:
        self.api.put_bucket_policy(Bucket=wanted.bucket, Policy=wanted.policy)
        return Made(wanted.bucket)

    def found(self, id: str, state: BucketPolicyModel) -> Mapping[str, Plain]:
        there = self.api.get_bucket_policy(Bucket=id)["Policy"]
        return AS_KNOWN if json.loads(there) == json.loads(state.policy) else {"policy": there}

    def change(
        self, id: str, old: BucketPolicyModel, wanted: BucketPolicyModel, task: Task
    ) -> Mapping[str, Plain]:
        self.make(wanted, task)
        return {}

    def remove(self, id: str, state: BucketPolicyModel, task: Task) -> None:
        self.api.delete_bucket_policy(Bucket=id)


class ObjectModel(Model):
    """Properties of an object in a bucket."""

    bucket: Field[str] = given(replaces=True)
    key: Field[str] = given(replaces=True)
    source: Field[str] = given()
    server_side_encryption: Field[str] = given(default="")
    tags: Field[Tags] = given(default={})


class Object(Resource, ObjectModel, token="aws:s3/bucketObjectv2:BucketObjectv2", delete_first=False):
    """A file in a bucket."""


class ObjectKind(AwsKind[ObjectModel]):
    """A file in a bucket; its id is its key."""

    resource = Object
    service = "s3"
    timeout_s = 1800.0

    def make(self, wanted: ObjectModel, task: Task) -> Made:
        more = (
            {"ServerSideEncryption": wanted.server_side_encryption} if wanted.server_side_encryption else {}
        )
        with Path(wanted.source).open("rb") as file:
            self.api.put_object(Bucket=wanted.bucket, Key=wanted.key, Body=file, **more)
        self.api.put_object_tagging(
            Bucket=wanted.bucket, Key=wanted.key, Tagging={"TagSet": listed(wanted.tags)}
        )
        return Made(wanted.key)

    def found(self, id: str, state: ObjectModel) -> Mapping[str, Plain] | None:
        listed_ = self.api.list_objects_v2(Bucket=state.bucket, Prefix=id).get("Contents", ())
        return AS_KNOWN if id in [each["Key"] for each in listed_] else None

    def change(self, id: str, old: ObjectModel, wanted: ObjectModel, task: Task) -> Mapping[str, Plain]:
        self.make(wanted, task)
        return {}

    def remove(self, id: str, state: ObjectModel, task: Task) -> None:
        self.api.delete_object(Bucket=state.bucket, Key=id)


class SnapshotImportModel(Model):
    """Properties of a snapshot that is imported."""

    disk_container: Field[Any] = given(replaces=True)
    description: Field[str] = given(default="", replaces=True)
    encrypted: Field[bool] = given(default=False, replaces=True)
    kms_key_id: Field[str] = given(default="", replaces=True)
    role_name: Field[str] = given(default="vmimport", replaces=True)
    tags: Field[Tags] = given(default={})
    arn: Field[str] = output()


class SnapshotImport(
    Resource, SnapshotImportModel, token="aws:ebs/snapshotImport:SnapshotImport", delete_first=False
):
    """A snapshot of a disk that is in a bucket."""


class SnapshotImportKind(AwsKind[SnapshotImportModel]):
    """A snapshot of a disk that is in a bucket, which AWS reads and converts."""

    resource = SnapshotImport
    timeout_s = 3600.0

    def make(self, wanted: SnapshotImportModel, task: Task) -> Made:
        where = api_value(wanted.disk_container["userBucket"])
        bucket = {"S3Bucket": where["S3Bucket"], "S3Key": where["S3Key"]}
        more = {"KmsKeyId": wanted.kms_key_id} if wanted.kms_key_id else {}
        asked = self.api.import_snapshot(
            DiskContainer={"Format": wanted.disk_container["format"], "UserBucket": bucket},
            Description=wanted.description,
            Encrypted=wanted.encrypted,
            RoleName=wanted.role_name,
            **more,
        )
        ids = [asked["ImportTaskId"]]
        told: dict[str, Any] = {}

        def is_done() -> bool:
            (task_,) = self.api.describe_import_snapshot_tasks(ImportTaskIds=ids)["ImportSnapshotTasks"]
            told.update(task_["SnapshotTaskDetail"])
            return bool(told["Status"] == "completed")

        patiently(task, is_done, "the import of the snapshot")
        id = str(told["SnapshotId"])
        self.tag(id, {}, wanted.tags)
        return Made(id, {"arn": f"arn:aws:ec2:{self.region}::snapshot/{id}"})

    def found(self, id: str, state: SnapshotImportModel) -> Mapping[str, Plain]:
        (there,) = self.api.describe_snapshots(SnapshotIds=[id])["Snapshots"]
        return drift(state, {"tags": tags_of(there)})

    def change(
        self, id: str, old: SnapshotImportModel, wanted: SnapshotImportModel, task: Task
    ) -> Mapping[str, Plain]:
        self.tag(id, old.tags, wanted.tags)
        return {}

    def remove(self, id: str, state: SnapshotImportModel, task: Task) -> None:
        self.api.delete_snapshot(SnapshotId=id)


class AmiModel(Model):
    """Properties of an AMI."""

    name: Field[str] = given(replaces=True)
    architecture: Field[str] = given(default="x86_64", replaces=True)
    virtualization_type: Field[str] = given(default="paravirtual", replaces=True)
    ena_support: Field[bool] = given(default=False, replaces=True)
    boot_mode: Field[str] = given(default="", replaces=True)
    imds_support: Field[str] = given(default="", replaces=True)
    root_device_name: Field[str] = given(default="", replaces=True)
    ebs_block_devices: Field[Any] = given(replaces=True)
    tags: Field[Tags] = given(default={})


class Ami(Resource, AmiModel, token="aws:ec2/ami:Ami", delete_first=False):
    """An image that instances are made of."""


class AmiKind(AwsKind[AmiModel]):
    """An image that instances are made of."""

    resource = Ami

    def make(self, wanted: AmiModel, task: Task) -> Made:
        devices = []
        for each in wanted.ebs_block_devices:
            ebs = {key: value for key, value in each.items() if key != "deviceName"}
            devices.append({"DeviceName": each["deviceName"], "Ebs": api_value(ebs)})
        said = self.api.register_image(
            Name=wanted.name,
            Architecture=wanted.architecture,
            VirtualizationType=wanted.virtualization_type,
            EnaSupport=wanted.ena_support,
            BootMode=wanted.boot_mode,
            ImdsSupport=wanted.imds_support,
            RootDeviceName=wanted.root_device_name,
            BlockDeviceMappings=devices,
        )
        self.tag(said["ImageId"], {}, wanted.tags)
        return Made(said["ImageId"])

    def found(self, id: str, state: AmiModel) -> Mapping[str, Plain]:
        (there,) = self.api.describe_images(ImageIds=[id])["Images"]
        return drift(state, {"name": there["Name"], "tags": tags_of(there)})

    def change(self, id: str, old: AmiModel, wanted: AmiModel, task: Task) -> Mapping[str, Plain]:
        self.tag(id, old.tags, wanted.tags)
        return {}

    def remove(self, id: str, state: AmiModel, task: Task) -> None:
        self.api.deregister_image(ImageId=id)


class VolumeModel(Model):
    """Properties of a volume."""

    availability_zone: Field[str] = given(replaces=True)
    size: Field[int] = given()
    type: Field[str] = given(default="gp2")
    encrypted: Field[bool] = given(default=False, replaces=True)
    kms_key_id: Field[str] = given(default="", replaces=True)
    tags: Field[Tags] = given(default={})


class Volume(Resource, VolumeModel, token="aws:ebs/volume:Volume", delete_first=False):
    """A volume of EBS."""


class VolumeKind(AwsKind[VolumeModel]):
    """A volume of EBS."""

    resource = Volume

    def make(self, wanted: VolumeModel, task: Task) -> Made:
        said = self.api.create_volume(
            AvailabilityZone=wanted.availability_zone,
            Size=wanted.size,
            VolumeType=wanted.type,
            Encrypted=wanted.encrypted,
            **({"KmsKeyId": wanted.kms_key_id} if wanted.kms_key_id else {}),
            **tagging("volume", wanted.tags),
        )
        id = said["VolumeId"]
        patiently(task, lambda: self._there(id)["State"] == "available", f"the volume {id}")
        return Made(id)

    def found(self, id: str, state: VolumeModel) -> Mapping[str, Plain]:
        there = self._there(id)
        return drift(state, {"size": there["Size"], "tags": tags_of(there)})

    def change(self, id: str, old: VolumeModel, wanted: VolumeModel, task: Task) -> Mapping[str, Plain]:
        if (old.size, old.type) != (wanted.size, wanted.type):
            self.api.modify_volume(VolumeId=id, Size=wanted.size, VolumeType=wanted.type)
        self.tag(id, old.tags, wanted.tags)
        return {}

    def remove(self, id: str, state: VolumeModel, task: Task) -> None:
        self.api.delete_volume(VolumeId=id)

    def _there(self, id: str) -> Any:
        (found,) = self.api.describe_volumes(VolumeIds=[id])["Volumes"]
        return found


class FileSystemModel(Model):
    """Properties of a file system of EFS."""

    encrypted: Field[bool] = given(default=False, replaces=True)
    kms_key_id: Field[str] = given(default="", replaces=True)
    throughput_mode: Field[str] = given(default="bursting")
    tags: Field[Tags] = given(default={})
    dns_name: Field[str] = output()
    arn: Field[str] = output()


class FileSystem(Resource, FileSystemModel, token="aws:efs/fileSystem:FileSystem", delete_first=False):
    """A file system of EFS."""


class FileSystemKind(AwsKind[FileSystemModel]):
    """A file system of EFS."""

    resource = FileSystem
    service = "efs"

    def make(self, wanted: FileSystemModel, task: Task) -> Made:
        said = self.api.create_file_system(
            # One that is asked for twice is made once.
            CreationToken=hashlib.sha256(task.urn.encode()).hexdigest()[:32],
            Encrypted=wanted.encrypted,
            ThroughputMode=wanted.throughput_mode,
            Tags=listed(wanted.tags),
            **({"KmsKeyId": wanted.kms_key_id} if wanted.kms_key_id else {}),
        )
        id = said["FileSystemId"]
        dns_name = f"{id}.efs.{self.region}.amazonaws.com"
        return Made(id, {"dnsName": dns_name, "arn": str(said.get("FileSystemArn", ""))})

    def found(self, id: str, state: FileSystemModel) -> Mapping[str, Plain]:
        (there,) = self.api.describe_file_systems(FileSystemId=id)["FileSystems"]
        return drift(state, {"tags": tags_of(there)})

    def remove(self, id: str, state: FileSystemModel, task: Task) -> None:
        self.api.delete_file_system(FileSystemId=id)


class MountTargetModel(Model):
    """Properties of a mount target."""

    file_system_id: Field[str] = given(replaces=True)
    subnet_id: Field[str] = given(replaces=True)
    security_groups: Field[tuple[str, ...]] = given()
    ip_address: Field[str] = output()


class MountTarget(Resource, MountTargetModel, token="aws:efs/mountTarget:MountTarget", delete_first=False):
    """A file system of EFS in a subnet."""


class MountTargetKind(AwsKind[MountTargetModel]):
    """A file system of EFS in a subnet."""

    resource = MountTarget
    service = "efs"

    def make(self, wanted: MountTargetModel, task: Task) -> Made:
        said = self.api.create_mount_target(
            FileSystemId=wanted.file_system_id,
            SubnetId=wanted.subnet_id,
            SecurityGroups=list(wanted.security_groups),
        )
        return Made(said["MountTargetId"], {"ipAddress": str(said.get("IpAddress", ""))})

    def found(self, id: str, state: MountTargetModel) -> Mapping[str, Plain]:
        self.api.describe_mount_targets(MountTargetId=id)
        return AS_KNOWN

    def change(
        self, id: str, old: MountTargetModel, wanted: MountTargetModel, task: Task
    ) -> Mapping[str, Plain]:
        groups = list(wanted.security_groups)
        self.api.modify_mount_target_security_groups(MountTargetId=id, SecurityGroups=groups)
        return {}

    def remove(self, id: str, state: MountTargetModel, task: Task) -> None:
        self.api.delete_mount_target(MountTargetId=id)
