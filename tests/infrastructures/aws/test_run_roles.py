"""Roles of one run at AWS as a program makes them: with the policies that are pinned, for one who takes them on, out of their own reach."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from tests.infrastructures.aws.graph import POLICY, ROLE
from tidepool.infrastructures.aws.names import STACK
from tidepool.infrastructures.aws.run_roles import run_roles
from tidepool.testing import Graph, register

PINNED = Path(__file__).parent / "run_policies"
RUN = "physics-261127-204512-4c1f"
TRUSTED = "arn:aws:iam::123456789012:role/pipelines/ci"
GIVEN: dict[str, Any] = {
    "trusted": TRUSTED,
    "region": "eu-central-1",
    "account": "123456789012",
    "images": "arn:aws:s3:::images-1",
    "bucket": "arn:aws:s3:::results-1",
    "folder": "lab/",
}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return register(lambda: run_roles(RUN, **GIVEN))


def test_each_role_has_its_pinned_policy_and_no_other(graph: Graph) -> None:
    pinned = {"ends": "ends_stack", "writes": "writes_outputs"}
    policies = graph.of_type(POLICY)
    assert {*policies} == {f"{RUN}-{name}" for name in pinned}
    for name, file in pinned.items():
        given = json.loads(policies[f"{RUN}-{name}"].inputs["policy"])
        assert given == json.loads((PINNED / f"{file}.json").read_text())
    for role in graph.of_type(ROLE).values():
        assert not {"inlinePolicies", "managedPolicyArns", "permissionsBoundary"} & {*role.inputs}


def test_one_principal_takes_them_on(graph: Graph) -> None:
    for role in graph.of_type(ROLE).values():
        (statement,) = json.loads(role.inputs["assumeRolePolicy"])["Statement"]
        assert statement == {"Effect": "Allow", "Action": ["sts:AssumeRole"], "Principal": {"AWS": TRUSTED}}


def test_no_role_reaches_a_role_of_its_run(graph: Graph) -> None:
    """Names of a stack's roles begin as theirs do, and what the policy allows there asks for the stack's tag."""
    for role in graph.of_type(ROLE).values():
        assert STACK not in role.inputs["tags"]
    for each in graph.of_type(POLICY).values():
        for statement in json.loads(each.inputs["policy"])["Statement"]:
            if any(":role/" in resource for resource in statement["Resource"]):
                changing = [action for action in statement["Action"] if "Delete" in action]
                assert not changing or statement["Condition"] == {
                    "StringEquals": {f"aws:ResourceTag/{STACK}": RUN}
                }


@pytest.fixture
def iam() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("iam", region_name="eu-central-1")


def test_iam_takes_what_is_made(graph: Graph, iam: Any) -> None:
    for name, role in graph.of_type(ROLE).items():
        inputs = role.inputs
        iam.create_role(
            RoleName=inputs["name"],
            AssumeRolePolicyDocument=inputs["assumeRolePolicy"],
            MaxSessionDuration=int(inputs["maxSessionDuration"]),
            Tags=[{"Key": key, "Value": value} for key, value in inputs["tags"].items()],
        )
        document = graph.of_type(POLICY)[name].inputs["policy"]
        iam.put_role_policy(RoleName=inputs["name"], PolicyName=name, PolicyDocument=document)
    assert {each["RoleName"] for each in iam.list_roles()["Roles"]} == {
        f"tidepool-{RUN}-ends",
        f"tidepool-{RUN}-writes",
    }


@pytest.mark.parametrize(
    "trusted",
    [
        "*",
        "arn:aws:iam::123456789012:root",
        "arn:aws:iam::*:role/ci",
        "arn:aws:iam::123456789012:role/*",
        "ci",
        "",
    ],
)
def test_whoever_is_not_one_role_or_user_is_refused(trusted: str) -> None:
    with pytest.raises(ValueError, match="write the ARN of one role or user"):
        run_roles(RUN, **{**GIVEN, "trusted": trusted})


def test_a_name_that_iam_does_not_take_is_refused() -> None:
    with pytest.raises(ValueError, match="has more than 64 characters"):
        run_roles("x" * 60, **GIVEN)
