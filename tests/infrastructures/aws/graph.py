"""A cluster on AWS as a user's program registers it, run against mocks."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest
from pulumi.runtime.mocks import MockResourceArgs

from tests.components import cluster_graph
from tests.components.cluster_graph import Outputs
from tidepool.cluster.spec import ClusterSpec
from tidepool.testing import Graph, Registered

pytest.importorskip("pulumi_aws", reason="pulumi-aws is not installed: scripts/setup installs it")

INSTANCE, TEMPLATE = "aws:ec2/instance:Instance", "aws:ec2/launchTemplate:LaunchTemplate"
ROUTE, VOLUME = "aws:ec2/route:Route", "aws:ebs/volume:Volume"
ATTACHMENT, GROUP = "aws:ec2/volumeAttachment:VolumeAttachment", "aws:ec2/securityGroup:SecurityGroup"
ARRIVES = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
LEAVES = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
VPC, SUBNET, ENDPOINT = "aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet", "aws:ec2/vpcEndpoint:VpcEndpoint"
SECRET = "aws:secretsmanager/secret:Secret"
VERSION = "aws:secretsmanager/secretVersion:SecretVersion"
ROLE, POLICY, PROFILE = (
    "aws:iam/role:Role",
    "aws:iam/rolePolicy:RolePolicy",
    "aws:iam/instanceProfile:InstanceProfile",
)
EFS, TARGET = "aws:efs/fileSystem:FileSystem", "aws:efs/mountTarget:MountTarget"
LUSTRE, PLACEMENT = "aws:fsx/lustreFileSystem:LustreFileSystem", "aws:ec2/placementGroup:PlacementGroup"
OBJECT, SNAPSHOT = "aws:s3/bucketObjectv2:BucketObjectv2", "aws:ebs/snapshotImport:SnapshotImport"
AMI, BUCKET = "aws:ec2/ami:Ami", "aws:s3/bucket:Bucket"
PROVIDER, REGION = "pulumi:providers:aws", "tidepool:infrastructure:Preflight"
FORWARDING = "tidepool:aws:Forwarding"
FLEET = "tidepool:components:ComputeFleet cpu"
CONTROLLER = "tidepool:components:SlurmController physics"
ACCESS, FILE, MACHINE, connection = (
    cluster_graph.ACCESS,
    cluster_graph.FILE,
    cluster_graph.MACHINE,
    cluster_graph.connection,
)


def registered(spec: ClusterSpec, nodes: Mapping[str, str] | None = None, **how: Any) -> Graph:
    """As `cluster_graph.registered`, on AWS."""
    return cluster_graph.registered(spec, nodes, outputs=outputs_of, **how)


def outputs_of(args: MockResourceArgs) -> Outputs:
    secret = f"arn:aws:secretsmanager:eu-central-1:123456789012:secret:tidepool-dev-{args.name}-Ab"
    return {
        INSTANCE: {"primaryNetworkInterfaceId": f"eni-{args.name}"},
        VPC: {"ownerId": "123456789012"},
        SECRET: {"arn": secret},
        PROFILE: {"arn": f"arn:aws:iam::123456789012:instance-profile/tidepool-dev-{args.name}"},
        BUCKET: {"arn": f"arn:aws:s3:::{args.name}-1"},
        EFS: {"dnsName": f"fs-{args.name}.efs.eu-central-1.amazonaws.com"},
        LUSTRE: {"dnsName": "fs-1.fsx.eu-central-1.amazonaws.com", "mountName": "abcde"},
        VOLUME: {"id": f"vol-{args.name}"},
    }


def of_aws(graph: Graph) -> dict[str, Registered]:
    """What of a graph is made at AWS."""
    return {name: each for name, each in graph.resources.items() if each.type.startswith("aws:")}


def changed(before: ClusterSpec, after: ClusterSpec, **more: Any) -> set[str]:
    """What of AWS an `up` from one to the other would look at again."""
    old, new = registered(before), registered(after, **more)
    assert set(old.resources) == set(new.resources)
    return {name for name in of_aws(old) if plain(old, name) != plain(new, name)}


def plain(graph: Graph, name: str) -> str:
    """Its inputs as text; of a file that is uploaded, its path."""
    return json.dumps(graph[name].inputs, sort_keys=True, default=lambda asset: asset.path)


def user_data(graph: Graph, kind: str) -> str:
    return base64.b64decode(graph[f"{TEMPLATE} {kind}"].inputs["userData"]).decode()


def told(graph: Graph, kind: str) -> dict[str, Any]:
    """What machines of that kind do when they boot."""
    said: str = graph[f"{VERSION} {kind}"].inputs["secretString"]
    read = json.loads(said.partition("\n")[2])
    assert isinstance(read, dict)
    return read
