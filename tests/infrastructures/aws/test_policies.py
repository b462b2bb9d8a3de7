"""Policies: what they let anybody do is one thing each, and no wildcard stands where an ARN can."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.infrastructures.aws.graph import POLICY, of_aws, registered
from tests.infrastructures.aws.specs import COUPLED, GIVEN, spec
from tidepool.infrastructures.aws import access

SECRET = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:tidepool-dev-cpu-Ab"
KEY = "arn:aws:kms:eu-central-1:123456789012:key/0a"


def statements(policy: str) -> Iterator[dict[str, Any]]:
    yield from json.loads(policy)["Statement"]


#: Every wildcard that is allowed anything: what it stands in, and why no ARN can stand there. There is no other.
WILDCARDS = {
    (
        "secretsmanager:GetSecretValue",
        "arn:aws:secretsmanager:eu-central-1:123456789012:secret:tidepool-dev-*",
    ): ("of the endpoint that all kinds of machines go through; AWS ends each secret's name itself"),
    (
        "s3:GetObject",
        "arn:aws:s3:::images-1/*",
    ): "within one bucket; objects have digests of images that are not made yet",
    (
        "ec2:ModifySnapshotAttribute",
        "arn:aws:ec2:eu-central-1::snapshot/*",
    ): "AWS gives the id while it imports",
    ("ec2:CopySnapshot", "arn:aws:ec2:eu-central-1::snapshot/*"): "AWS gives the id while it imports",
    ("ec2:RegisterImage", "arn:aws:ec2:eu-central-1::snapshot/*"): "AWS gives the id while it imports",
    ("ec2:RegisterImage", "arn:aws:ec2:eu-central-1::image/*"): "AWS gives the id when it is registered",
    ("ec2:DescribeSnapshots", "*"): "IAM takes no resource for it",
    ("ec2:DescribeImages", "*"): "IAM takes no resource for it",
}


def allowed(policy: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each action with each resource, or none, and the statement that allows it."""
    for each in statements(policy):
        if each["Effect"] == "Allow":
            actions = [each["Action"]] if isinstance(each["Action"], str) else each["Action"]
            for action in actions:
                for resource in each.get("Resource", [""]):
                    yield action, resource, each


def wildcards(policy: str) -> set[tuple[str, str]]:
    return {
        (action, resource) for action, resource, _ in allowed(policy) if set("*?") & set(action + resource)
    }


def unsafe(policy: str) -> list[str]:
    """What a policy allows that it need not."""
    found = [
        f"action {action}" if "*" in action else f"resource {resource} of {action}"
        for action, resource in sorted(wildcards(policy) - set(WILDCARDS))
    ]
    for _, resource, each in allowed(policy):
        anybody = each.get("Principal") in ("*", {"AWS": "*"})
        if anybody and "aws:PrincipalAccount" not in json.dumps(each.get("Condition", {})):
            found.append("anybody")
        if "Principal" not in each and not resource:
            found.append("no resource")
    return found


@pytest.mark.parametrize(
    "policy",
    [
        access.reads_secret(SECRET),
        access.imports_images("arn:aws:s3:::images-1", "eu-central-1"),
        access.imports_images("arn:aws:s3:::images-1", "eu-central-1", KEY),
        access.through_endpoint("dev", "eu-central-1", "123456789012"),
        access.only_encrypted("arn:aws:s3:::images-1"),
        access.assumed_by("ec2.amazonaws.com"),
        access.assumed_by("vmie.amazonaws.com", "vmimport"),
    ],
)
def test_a_policy_allows_what_it_is_for_and_nothing_besides(policy: str) -> None:
    assert unsafe(policy) == []


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ({"Action": "s3:*", "Resource": ["arn:aws:s3:::x"]}, "action s3:*"),
        ({"Action": ["s3:GetObject"], "Resource": ["*"]}, "resource * of s3:GetObject"),
        ({"Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::*/x"]}, "resource arn:aws:s3:::*/x of"),
        ({"Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::x"], "Principal": "*"}, "anybody"),
        ({"Action": ["s3:GetObject"]}, "no resource"),
    ],
)
def test_the_check_finds_what_it_is_for(statement: dict[str, Any], found: str) -> None:
    (said,) = unsafe(json.dumps({"Statement": [{"Effect": "Allow", **statement}]}))
    assert said.startswith(found)


def test_every_wildcard_that_is_named_is_needed() -> None:
    made = (
        access.imports_images("arn:aws:s3:::images-1", "eu-central-1"),
        access.through_endpoint("dev", "eu-central-1", "123456789012"),
    )
    assert set().union(*map(wildcards, made)) == set(WILDCARDS)


def test_every_wildcard_has_its_reason_next_to_it() -> None:
    lines = Path(access.__file__).read_text().splitlines()
    excused = 0
    for above, line in pairwise(lines):
        if line.lstrip().startswith("# *:"):
            excused = 5
        elif '"*"' in line or "/*" in line or "'*'" in line or ":*" in line:
            assert excused > 0, f"why: {line}, below {above}"
        excused -= 1


def test_all_policies_of_a_graph_are_such() -> None:
    for described in (spec(COUPLED, controller={"accounting": {}}), spec(given=GIVEN, kms_key=KEY)):
        graph = registered(described)
        keys = ("policy", "assumeRolePolicy")
        found = {
            name: each.inputs[key]
            for name, each in of_aws(graph).items()
            for key in keys
            if key in each.inputs
        }
        assert len(found) >= 9
        assert {name: unsafe(policy) for name, policy in found.items() if unsafe(policy)} == {}


def test_a_machine_may_read_its_own_secret_and_do_nothing_else() -> None:
    graph = registered(spec())
    roles = {name: each for name, each in of_aws(graph).items() if each.type == "aws:iam/role:Role"}
    assert not [
        name for name, each in roles.items() if {"managedPolicyArns", "inlinePolicies"} & set(each.inputs)
    ]
    of_kinds = {
        name.partition(" ")[2]: list(statements(each.inputs["policy"]))
        for name, each in of_aws(graph).items()
        if each.type == "aws:iam/rolePolicy:RolePolicy" and not name.endswith(" images")
    }
    assert {kind: [s["Resource"] for s in found] for kind, found in of_kinds.items()} == {
        kind: [[f"arn:aws:secretsmanager:eu-central-1:123456789012:secret:tidepool-dev-{kind}-Ab"]]
        for kind in ("ctl", "login", "cpu")
    }


def test_images_are_imported_with_the_one_key_that_disks_are_encrypted_with() -> None:
    of_import = f"{POLICY} images"
    with_key = registered(spec(kms_key=KEY))
    by_kms = {
        (action, resource)
        for action, resource, _ in allowed(with_key[of_import].inputs["policy"])
        if action.startswith("kms:")
    }
    assert {resource for _, resource in by_kms} == {KEY}
    assert {action.removeprefix("kms:") for action, _ in by_kms} == {
        *("CreateGrant", "Decrypt", "DescribeKey", "Encrypt"),
        *("GenerateDataKey", "GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo"),
    }
    assert "kms:" not in registered(spec())[of_import].inputs["policy"]


@pytest.mark.parametrize(
    ("region", "partition"),
    [
        ("eu-central-1", "aws"),
        ("cn-north-1", "aws-cn"),
        ("us-gov-west-1", "aws-us-gov"),
        ("us-east-1", "aws"),
    ],
)
def test_arns_are_of_the_regions_partition(region: str, partition: str) -> None:
    assert access.partition_of(region) == partition
    assert f"arn:{partition}:ec2:{region}::snapshot/*" in access.imports_images("arn:x", region)
