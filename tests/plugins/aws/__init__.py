"""pulumi-aws 7.51 for the tests: the types that the graph uses in a VPC that is there, by boto3.

No registry has the real plugin, and none was recorded. Inputs are those that the graph registers, by their names in the package
(`pulumi_aws`), and what is replaced is what EC2, IAM, EFS, S3 and Secrets Manager have no call to change. Properties within a
launch template go to boto3 as they are, which refuses those that EC2 does not know.
"""

from __future__ import annotations

from typing import Final

from tests.plugins.aws import access, machines, storage
from tests.plugins.serving import Kinds

#: What a program and its plugin import for more than a second, for `tests.forking.ForkServer.import_ahead`.
IMPORTED: Final = (
    __name__,
    *(
        f"pulumi_aws.{service}"
        for service in (
            "ebs",
            "ec2",
            "ec2transitgateway",
            "efs",
            "fsx",
            "iam",
            "s3",
            "secretsmanager",
            "vpc",
        )
    ),
)

KINDS: Final[Kinds] = {
    kind.resource.token: kind
    for kind in (
        access.SecurityGroupKind,
        access.IngressRuleKind,
        access.EgressRuleKind,
        access.RoleKind,
        access.RolePolicyKind,
        access.InstanceProfileKind,
        access.SecretKind,
        access.SecretVersionKind,
        machines.LaunchTemplateKind,
        machines.InstanceKind,
        machines.RouteKind,
        machines.VolumeAttachmentKind,
        storage.BucketKind,
        storage.BucketPublicAccessBlockKind,
        storage.BucketPolicyKind,
        storage.ObjectKind,
        storage.SnapshotImportKind,
        storage.AmiKind,
        storage.VolumeKind,
        storage.FileSystemKind,
        storage.MountTargetKind,
    )
}
