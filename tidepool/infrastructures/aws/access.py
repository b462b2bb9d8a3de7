"""Policies of IAM in a cluster at AWS, each for one thing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tidepool.infrastructures.aws.names import named


def assumed_by(service: str, external_id: str | None = None) -> str:
    """Return the policy by which a service of AWS, and nobody else, may take on a role."""
    condition = {"Condition": {"StringEquals": {"sts:ExternalId": external_id}}} if external_id else {}
    return policy(
        {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole", **condition}
    )


def reads_secret(secret: str) -> str:
    """A machine reads what it is for, and nothing besides. ``secret`` is an ARN."""
    return policy(allow("secretsmanager:GetSecretValue", secret))


def through_endpoint(stack: str, region: str, account: str) -> str:
    """Return the policy of the endpoint of a stack's VPC: roles of the account read the stack's secrets through it."""
    # *: all kinds of machines go through it, and AWS ends the name of each secret with letters of its own.
    secrets = f"arn:{partition_of(region)}:secretsmanager:{region}:{account}:secret:{named(stack, '*')}"
    return policy(
        {
            **allow("secretsmanager:GetSecretValue", secrets),
            # *: roles are made after the endpoint; the condition leaves those of one account, and what each may its own says.
            "Principal": "*",
            "Condition": {"StringEquals": {"aws:PrincipalAccount": account}},
        }
    )


#: What writes a disk that is encrypted with a key of one's own. As AWS asks for it of VM Import, each by its name.
_ENCRYPTS: Final = tuple(
    f"kms:{action}"
    for action in (
        "CreateGrant",
        "Decrypt",
        "DescribeKey",
        "Encrypt",
        "GenerateDataKey",
        "GenerateDataKeyWithoutPlaintext",
        "ReEncryptFrom",
        "ReEncryptTo",
    )
)


def imports_images(bucket: str, region: str, key: str | None = None) -> str:
    """VM Import reads an image from the stack's bucket and makes a snapshot of it. ``bucket`` is an ARN.

    ``key`` is that of the key which the snapshot is encrypted with, if it is not AWS's own.
    """
    ec2 = f"arn:{partition_of(region)}:ec2:{region}"
    return policy(
        allow(("s3:GetBucketLocation", "s3:ListBucket"), bucket),
        # *: an object is named by the digest of an image that is not made yet.
        allow("s3:GetObject", f"{bucket}/*"),
        # *: AWS gives a snapshot its id while it imports it.
        allow(("ec2:ModifySnapshotAttribute", "ec2:CopySnapshot"), f"{ec2}::snapshot/*"),
        # *: and an image its own.
        allow("ec2:RegisterImage", f"{ec2}::image/*", f"{ec2}::snapshot/*"),
        # *: IAM takes no resource for what only describes.
        allow(("ec2:DescribeSnapshots", "ec2:DescribeImages"), "*"),
        *(() if key is None else (allow(_ENCRYPTS, key),)),
    )


def only_encrypted(bucket: str) -> str:
    """Return the policy of a bucket that nobody reads or writes without TLS. ``bucket`` is an ARN."""
    return policy(
        {
            "Effect": "Deny",
            # *: what is denied is denied to all, of all that is in it.
            "Principal": "*",
            "Action": "s3:*",
            "Resource": [bucket, f"{bucket}/*"],
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
    )


def partition_of(region: str) -> str:
    """Return the partition of ARNs: China and the government have their own."""
    if region.startswith("us-gov-"):
        return "aws-us-gov"
    return "aws-cn" if region.startswith("cn-") else "aws"


def allow(actions: str | Sequence[str], *resources: str) -> Mapping[str, Any]:
    """Return the statement that allows these actions with these resources, ARNs."""
    return {
        "Effect": "Allow",
        "Action": [actions] if isinstance(actions, str) else list(actions),
        "Resource": list(resources),
    }


def policy(*statements: Mapping[str, Any]) -> str:
    """Return the policy of these statements, as IAM takes it."""
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
