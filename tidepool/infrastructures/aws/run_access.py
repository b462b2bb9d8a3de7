"""Policies of IAM for who ends one run's stack at AWS, and for who writes one run's outputs: of that run, and of nothing else.

They are for roles that the service of runs takes on, or a pipeline, in place of an administrator's; machines of a run have neither. The stack
has a VPC of its own: in one that is given, routes of others stand in the same table, which IAM does not tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tidepool.infrastructures.aws.access import allow, partition_of, policy
from tidepool.infrastructures.aws.names import STACK, named

#: By service and type of resource, what takes away what a stack has of it.
ENDS: Final[Mapping[tuple[str, str], Sequence[str]]] = {
    ("ec2", "image"): ("DeregisterImage",),
    ("ec2", "instance"): ("ModifyInstanceAttribute", "StopInstances", "TerminateInstances", "DetachVolume"),
    ("ec2", "launch-template"): ("DeleteLaunchTemplate",),
    ("ec2", "placement-group"): ("DeletePlacementGroup",),
    ("ec2", "route-table"): ("DeleteRoute", "DeleteRouteTable", "DisassociateRouteTable"),
    ("ec2", "security-group"): (
        "DeleteSecurityGroup",
        "RevokeSecurityGroupEgress",
        "RevokeSecurityGroupIngress",
    ),
    ("ec2", "snapshot"): ("DeleteSnapshot",),
    ("ec2", "subnet"): ("DeleteSubnet", "DisassociateRouteTable"),
    ("ec2", "volume"): ("DeleteVolume", "DetachVolume"),
    ("ec2", "vpc"): ("DeleteVpc",),
    ("ec2", "vpc-endpoint"): ("DeleteVpcEndpoints",),
    ("elasticfilesystem", "file-system"): ("DeleteFileSystem", "DeleteMountTarget"),
    ("fsx", "file-system"): ("DeleteFileSystem",),
    ("iam", "instance-profile"): ("DeleteInstanceProfile", "RemoveRoleFromInstanceProfile"),
    ("iam", "role"): ("DeleteRole", "DeleteRolePolicy"),
    ("secretsmanager", "Secret"): ("DeleteSecret",),
}
#: What is looked at before and while it goes; IAM takes no resource for most of it, and none of it is anybody's data.
LOOKS: Final[Mapping[str, Sequence[str]]] = {
    "ec2": (
        *("DescribeImages", "DescribeInstanceAttribute", "DescribeInstanceCreditSpecifications"),
        *("DescribeInstances", "DescribeInstanceTypes", "DescribeLaunchTemplates"),
        *("DescribeLaunchTemplateVersions", "DescribeNetworkInterfaces", "DescribePlacementGroups"),
        *("DescribeRouteTables", "DescribeSecurityGroupRules", "DescribeSecurityGroups", "DescribeSnapshots"),
        *(
            "DescribeSubnets",
            "DescribeTags",
            "DescribeVolumes",
            "DescribeVpcAttribute",
            "DescribeVpcEndpoints",
        ),
        "DescribeVpcs",
    ),
    "elasticfilesystem": (
        *("DescribeFileSystems", "DescribeLifecycleConfiguration", "DescribeMountTargets"),
        "DescribeMountTargetSecurityGroups",
    ),
    "fsx": ("DescribeFileSystems",),
}
#: Of roles, profiles and secrets it looks at the stack's own alone.
_OWN_LOOKS: Final[Mapping[tuple[str, str], Sequence[str]]] = {
    ("iam", "instance-profile"): ("GetInstanceProfile",),
    ("iam", "role"): (
        *("GetRole", "GetRolePolicy", "ListAttachedRolePolicies", "ListInstanceProfilesForRole"),
        "ListRolePolicies",
    ),
    ("secretsmanager", "Secret"): ("DescribeSecret", "GetResourcePolicy"),
}
_BUCKET: Final = (
    *("DeleteBucket", "DeleteBucketPolicy", "GetBucketPolicy", "GetBucketPublicAccessBlock", "ListBucket"),
    *("ListBucketVersions", "PutBucketPublicAccessBlock"),
)


def ends_stack(stack: str, region: str, account: str, images: str) -> str:
    """Whoever has it takes down one stack, and can make or change nothing. ``images`` is the ARN of its bucket of images.

    What the stack has is told by its tag; roles and secrets also by their names, which begin as the stack's.
    """
    tagged = {"StringEquals": {f"aws:ResourceTag/{STACK}": stack}}
    return policy(
        *(
            {
                **allow(
                    [f"{service}:{action}" for action in actions], _arn(stack, region, account, service, kind)
                ),
                "Condition": tagged,
            }
            for (service, kind), actions in ENDS.items()
        ),
        *(
            allow([f"{service}:{action}" for action in actions], _arn(stack, region, account, service, kind))
            for (service, kind), actions in _OWN_LOOKS.items()
        ),
        allow([f"s3:{action}" for action in _BUCKET], images),
        # *: objects have digests of images for their names.
        allow(["s3:DeleteObject", "s3:DeleteObjectVersion", "s3:GetObject"], f"{images}/*"),
        # *: IAM takes no resource for what only describes.
        allow([f"{service}:{action}" for service, actions in LOOKS.items() for action in actions], "*"),
    )


def writes_outputs(bucket: str, folder: str, run: str) -> str:
    """Whoever has it writes outputs of one run, each once, and reads nothing. ``bucket`` is an ARN, ``folder`` ends in ``/`` or is empty."""
    # *: a job names its outputs.
    outputs = f"{bucket}/{folder}{run}/outputs/*"
    return policy(
        allow(["s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:PutObject"], outputs),
        {
            "Effect": "Deny",
            "Action": ["s3:PutObject"],
            "Resource": [outputs],
            # What makes an object, and not a part of one, has to ask that there is none of its name.
            "Condition": {
                "Null": {"s3:if-none-match": "true"},
                "Bool": {"s3:ObjectCreationOperation": "true"},
            },
        },
    )


def _arn(stack: str, region: str, account: str, service: str, kind: str) -> str:
    """Return the pattern of ARNs of a stack's resources of that type, as narrow as names are known before."""
    partition = partition_of(region)
    if service == "iam":
        # *: each kind of machine has its own.
        return f"arn:{partition}:iam::{account}:{kind}/{named(stack, '*')}"
    if service == "secretsmanager":
        # *: the same; AWS ends each name with letters of its own.
        return f"arn:{partition}:secretsmanager:{region}:{account}:secret:{named(stack, '*')}"
    # Images and snapshots are of no account to IAM.
    owner = "" if kind in ("image", "snapshot") else account
    # *: AWS gives ids when it makes them; the tag tells whose each is.
    return f"arn:{partition}:{service}:{region}:{owner}:{kind}/*"
