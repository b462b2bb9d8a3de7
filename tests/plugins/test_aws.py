"""The plugin of pulumi-aws's types, against moto: what is made is as it was asked for, is seen when it is gone, and goes."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from tests import versions
from tests.infrastructures.aws.front import client, front
from tests.infrastructures.aws.specs import REGION, ZONE
from tests.plugins.aws import KINDS
from tidepool.infrastructures.aws.access import assumed_by, reads_secret
from tidepool.resources.kind import AS_KNOWN, Refusal, Task
from tidepool.resources.reading import read

pytestmark = [pytest.mark.runs("aws", versions.installed("moto"))]

GROUP, RULE = (
    "aws:ec2/securityGroup:SecurityGroup",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
)
ROLE, POLICY = "aws:iam/role:Role", "aws:iam/rolePolicy:RolePolicy"
PROFILE, TEMPLATE = "aws:iam/instanceProfile:InstanceProfile", "aws:ec2/launchTemplate:LaunchTemplate"
SECRET, VERSION = "aws:secretsmanager/secret:Secret", "aws:secretsmanager/secretVersion:SecretVersion"
INSTANCE, ROUTE = "aws:ec2/instance:Instance", "aws:ec2/route:Route"
VOLUME, ATTACHMENT = "aws:ebs/volume:Volume", "aws:ec2/volumeAttachment:VolumeAttachment"
TAGS = {"tidepool:stack": "dev"}


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """moto, without faults."""
    made, where = front()
    made.forget()
    monkeypatch.setenv("AWS_ENDPOINT_URL", where)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


class Resource:
    """One that is made, of the type ``token``."""

    def __init__(self, token: str, **inputs: Any) -> None:
        self.kind: Any = KINDS[token]({"region": REGION, "maxRetries": "4"})
        self.inputs = inputs
        made = self.kind.create(self._read(inputs), task())
        self.id: str = made.id
        self.outputs = dict(made.outputs)

    def look(self) -> Any:
        return self.kind.look(self.id, self._read({**self.inputs, **self.outputs}))

    def update(self, **inputs: Any) -> None:
        new = {**self.inputs, **inputs}
        old = self._read({**self.inputs, **self.outputs})
        self.outputs |= self.kind.update(self.id, old, self._read(new), task())
        self.inputs = new

    def delete(self) -> None:
        self.kind.delete(self.id, self._read({**self.inputs, **self.outputs}), task())

    def _read(self, inputs: dict[str, Any]) -> Any:
        found = read(self.kind.resource.model, inputs)
        assert not found.mistakes
        return found.value


def task() -> Task:
    say = lambda _: None  # noqa: E731
    return Task("urn::images", 30, time.monotonic() + 30, say, say, say)


def unique(what: str) -> str:
    return f"{what}-{uuid4().hex[:8]}"


def a_vpc() -> tuple[str, str, str]:
    """The ids of a VPC that is there, of its subnet and of its route table."""
    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock="172.30.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="172.30.0.0/20", AvailabilityZone=ZONE)["Subnet"]
    (table,) = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["RouteTables"]
    return vpc, subnet["SubnetId"], table["RouteTableId"]


def gone(*resources: Resource) -> None:
    """They are as they were asked for; then they are deleted, twice, and are seen to be gone."""
    for each in resources:
        assert not {key for key in each.look() if key in each.inputs}, each.kind.resource.token
    for each in resources:
        each.delete()
        each.delete()


def test_groups_begin_without_rules_and_rules_change_in_place() -> None:
    vpc, _, _ = a_vpc()
    group = Resource(GROUP, name=unique("node"), description="nodes", vpcId=vpc, tags=TAGS)
    (there,) = client("ec2").describe_security_groups(GroupIds=[group.id])["SecurityGroups"]
    assert there["IpPermissionsEgress"] == []
    ports = {"ipProtocol": "tcp", "fromPort": 22.0, "toPort": 22.0}
    rule = Resource(
        RULE, securityGroupId=group.id, cidrIpv4="10.0.0.0/16", description="SSH", tags=TAGS, **ports
    )
    rule.update(cidrIpv4="10.1.0.0/16")
    gone(rule, group)
    assert rule.look() is None
    assert group.look() is None


def test_secrets_roles_and_templates_are_kept_and_go() -> None:
    name = unique("tidepool-dev-cpu")
    secret = Resource(SECRET, name=name, description="it", recoveryWindowInDays=0.0, tags=TAGS)
    version = Resource(VERSION, secretId=secret.id, secretString="what it is for")
    role = Resource(ROLE, name=name, assumeRolePolicy=assumed_by("ec2.amazonaws.com"), tags=TAGS)
    policy = Resource(POLICY, role=role.id, policy=reads_secret(secret.id))
    profile = Resource(PROFILE, name=name, role=role.id, tags=TAGS)
    template = Resource(
        TEMPLATE, name=name, updateDefaultVersion=True, instanceType="c7i.2xlarge", userData="IyE=", tags=TAGS
    )
    template.update(userData="IyEK")
    assert template.outputs == {"latestVersion": 2, "defaultVersion": 2}
    gone(template, profile, policy, role, version, secret)
    assert [each.look() for each in (template, profile, policy, role, secret)] == [None] * 5


def test_an_instance_that_was_terminated_is_gone_with_what_is_at_it() -> None:
    _, subnet, table = a_vpc()
    template = Resource(TEMPLATE, name=unique("cpu"), updateDefaultVersion=True, userData="IyE=")
    image = client("ec2").describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    instance = Resource(
        INSTANCE,
        ami=image,
        instanceType="m7i.large",
        launchTemplate={"id": template.id, "version": "$Default"},
        subnetId=subnet,
        sourceDestCheck=False,
        tags=TAGS,
    )
    interface = instance.outputs["primaryNetworkInterfaceId"]
    route = Resource(
        ROUTE, routeTableId=table, destinationCidrBlock="10.80.0.2/32", networkInterfaceId=interface
    )
    volume = Resource(VOLUME, availabilityZone=ZONE, size=8.0, type="gp3", encrypted=True, tags=TAGS)
    attached = Resource(ATTACHMENT, deviceName="/dev/sdf", instanceId=instance.id, volumeId=volume.id)
    assert [route.look(), attached.look(), volume.look()] == [AS_KNOWN] * 3
    assert not {key for key in instance.look() if key in instance.inputs}
    attached.delete()
    client("ec2").terminate_instances(InstanceIds=[instance.id])
    assert instance.look() is None
    gone(volume)
    route.delete()
    assert route.look() is None


def test_an_instance_that_is_protected_goes_with_force_destroy_and_by_nobody_else() -> None:
    _, subnet, _ = a_vpc()
    template = Resource(TEMPLATE, name=unique("cpu"), updateDefaultVersion=True, userData="IyE=")
    image = client("ec2").describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    instance = Resource(
        INSTANCE,
        ami=image,
        instanceType="m7i.large",
        launchTemplate={"id": template.id, "version": "$Default"},
        subnetId=subnet,
        disableApiTermination=True,
        forceDestroy=True,
        tags=TAGS,
    )
    with pytest.raises(ClientError, match="disableApiTermination"):
        client("ec2").terminate_instances(InstanceIds=[instance.id])
    client("ec2").modify_instance_attribute(InstanceId=instance.id, DisableApiTermination={"Value": False})
    assert instance.look()["disableApiTermination"] is False
    client("ec2").modify_instance_attribute(InstanceId=instance.id, DisableApiTermination={"Value": True})
    gone(instance)


def test_settings_that_it_does_not_know_are_refused() -> None:
    with pytest.raises(Refusal, match="does not know the settings assumeRoles"):
        KINDS[ROLE]({"region": REGION, "assumeRoles": "[]"})
