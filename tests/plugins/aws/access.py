"""Access: security groups with their rules, roles of IAM, and secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import uuid4

from tests.plugins.aws.calls import AwsKind, auto_name, drift, listed, tagging, tags_of
from tidepool.resources.kind import AS_KNOWN, Made, Refusal, Task
from tidepool.resources.model import Field, Model, Resource, given, output
from tidepool.resources.values import Plain

Tags = Mapping[str, str]


class SecurityGroupModel(Model):
    """Properties of a security group."""

    name: Field[str] = given(replaces=True)
    description: Field[str] = given(default="Managed by Pulumi", replaces=True)
    vpc_id: Field[str] = given(replaces=True)
    tags: Field[Tags] = given(default={})
    arn: Field[str] = output()


class SecurityGroup(
    Resource, SecurityGroupModel, token="aws:ec2/securityGroup:SecurityGroup", delete_first=False
):
    """A security group, without the rule that AWS gives a new one."""


class SecurityGroupKind(AwsKind[SecurityGroupModel]):
    """A security group."""

    resource = SecurityGroup

    def make(self, wanted: SecurityGroupModel, task: Task) -> Made:
        said = self.api.create_security_group(
            GroupName=wanted.name,
            Description=wanted.description,
            VpcId=wanted.vpc_id,
            **tagging("security-group", wanted.tags),
        )
        id = said["GroupId"]
        anything = self._there(id)["IpPermissionsEgress"]
        if anything:
            self.api.revoke_security_group_egress(GroupId=id, IpPermissions=anything)
        return Made(id, {"arn": str(said.get("SecurityGroupArn", ""))})

    def found(self, id: str, state: SecurityGroupModel) -> Mapping[str, Plain]:
        there = self._there(id)
        return drift(state, {"description": there["Description"], "tags": tags_of(there)})

    def change(
        self, id: str, old: SecurityGroupModel, wanted: SecurityGroupModel, task: Task
    ) -> Mapping[str, Plain]:
        self.tag(id, old.tags, wanted.tags)
        return {}

    def remove(self, id: str, state: SecurityGroupModel, task: Task) -> None:
        self.api.delete_security_group(GroupId=id)

    def _there(self, id: str) -> Any:
        (found,) = self.api.describe_security_groups(GroupIds=[id])["SecurityGroups"]
        return found


class RuleModel(Model):
    """Properties of a rule of a security group."""

    security_group_id: Field[str] = given(replaces=True)
    ip_protocol: Field[str] = given()
    from_port: Field[int] = given(default=-1)
    to_port: Field[int] = given(default=-1)
    cidr_ipv4: Field[str] = given(default="")
    referenced_security_group_id: Field[str] = given(default="")
    description: Field[str] = given(default="")
    tags: Field[Tags] = given(default={})
    security_group_rule_id: Field[str] = output()


class IngressRule(
    Resource,
    RuleModel,
    token="aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
    delete_first=False,
):
    """A rule of who may come."""


class EgressRule(
    Resource, RuleModel, token="aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule", delete_first=False
):
    """A rule of where to one may go."""


class _RuleKind(AwsKind[RuleModel]):
    direction: ClassVar[str]

    def make(self, wanted: RuleModel, task: Task) -> Made:
        more = {"Description": wanted.description} if wanted.description else {}
        permission: dict[str, Any] = {"IpProtocol": wanted.ip_protocol}
        if wanted.ip_protocol != "-1":
            permission |= {"FromPort": wanted.from_port, "ToPort": wanted.to_port}
        if wanted.cidr_ipv4:
            permission["IpRanges"] = [{"CidrIp": wanted.cidr_ipv4, **more}]
        else:
            permission["UserIdGroupPairs"] = [{"GroupId": wanted.referenced_security_group_id, **more}]
        authorize = getattr(self.api, f"authorize_security_group_{self.direction}")
        said = authorize(
            GroupId=wanted.security_group_id,
            IpPermissions=[permission],
            **tagging("security-group-rule", wanted.tags),
        )
        (rule,) = said["SecurityGroupRules"]
        id = rule["SecurityGroupRuleId"]
        return Made(id, {"securityGroupRuleId": id})

    def found(self, id: str, state: RuleModel) -> Mapping[str, Plain]:
        (there,) = self.api.describe_security_group_rules(SecurityGroupRuleIds=[id])["SecurityGroupRules"]
        other = there.get("ReferencedGroupInfo", {}).get("GroupId", "")
        return drift(
            state,
            {
                "cidr_ipv4": there.get("CidrIpv4", ""),
                "referenced_security_group_id": other,
                "ip_protocol": there["IpProtocol"],
            },
        )

    def change(self, id: str, old: RuleModel, wanted: RuleModel, task: Task) -> Mapping[str, Plain]:
        rule: dict[str, Any] = {"IpProtocol": wanted.ip_protocol, "Description": wanted.description}
        if wanted.ip_protocol != "-1":
            rule |= {"FromPort": wanted.from_port, "ToPort": wanted.to_port}
        rule |= (
            {"CidrIpv4": wanted.cidr_ipv4}
            if wanted.cidr_ipv4
            else {"ReferencedGroupId": wanted.referenced_security_group_id}
        )
        self.api.modify_security_group_rules(
            GroupId=wanted.security_group_id,
            SecurityGroupRules=[{"SecurityGroupRuleId": id, "SecurityGroupRule": rule}],
        )
        self.tag(id, old.tags, wanted.tags)
        return {}

    def remove(self, id: str, state: RuleModel, task: Task) -> None:
        revoke = getattr(self.api, f"revoke_security_group_{self.direction}")
        revoke(GroupId=state.security_group_id, SecurityGroupRuleIds=[id])


class IngressRuleKind(_RuleKind):
    """A rule of who may come."""

    resource = IngressRule
    direction = "ingress"


class EgressRuleKind(_RuleKind):
    """A rule of where to one may go."""

    resource = EgressRule
    direction = "egress"


class RoleModel(Model):
    """Properties of a role."""

    name: Field[str] = given(replaces=True)
    assume_role_policy: Field[str] = given()
    tags: Field[Tags] = given(default={})
    arn: Field[str] = output()


class Role(Resource, RoleModel, token="aws:iam/role:Role", delete_first=False):
    """A role of IAM."""


class RoleKind(AwsKind[RoleModel]):
    """A role of IAM; its id is its name."""

    resource = Role
    service = "iam"

    def make(self, wanted: RoleModel, task: Task) -> Made:
        said = self.api.create_role(
            RoleName=wanted.name,
            AssumeRolePolicyDocument=wanted.assume_role_policy,
            Tags=listed(wanted.tags),
        )
        return Made(wanted.name, {"arn": said["Role"]["Arn"]})

    def found(self, id: str, state: RoleModel) -> Mapping[str, Plain]:
        there = self.api.get_role(RoleName=id)["Role"]
        if json.loads(state.assume_role_policy) != there["AssumeRolePolicyDocument"]:
            return {"assumeRolePolicy": json.dumps(there["AssumeRolePolicyDocument"])}
        return AS_KNOWN

    def change(self, id: str, old: RoleModel, wanted: RoleModel, task: Task) -> Mapping[str, Plain]:
        self.api.update_assume_role_policy(RoleName=id, PolicyDocument=wanted.assume_role_policy)
        return {}

    def remove(self, id: str, state: RoleModel, task: Task) -> None:
        self.api.delete_role(RoleName=id)


class RolePolicyModel(Model):
    """Properties of a policy of a role."""

    role: Field[str] = given(replaces=True)
    policy: Field[str] = given()
    name: Field[str] = output()


class RolePolicy(Resource, RolePolicyModel, token="aws:iam/rolePolicy:RolePolicy", delete_first=False):
    """A policy of one role."""


class RolePolicyKind(AwsKind[RolePolicyModel]):
    """A policy of one role; its id is ``ROLE:NAME``."""

    resource = RolePolicy
    service = "iam"

    def make(self, wanted: RolePolicyModel, task: Task) -> Made:
        name = auto_name(wanted.role)
        self._put(name, wanted)
        return Made(f"{wanted.role}:{name}", {"name": name})

    def found(self, id: str, state: RolePolicyModel) -> Mapping[str, Plain]:
        there = self.api.get_role_policy(RoleName=state.role, PolicyName=state.name)["PolicyDocument"]
        return AS_KNOWN if json.loads(state.policy) == there else {"policy": json.dumps(there)}

    def change(
        self, id: str, old: RolePolicyModel, wanted: RolePolicyModel, task: Task
    ) -> Mapping[str, Plain]:
        self._put(old.name, wanted)
        return {}

    def remove(self, id: str, state: RolePolicyModel, task: Task) -> None:
        self.api.delete_role_policy(RoleName=state.role, PolicyName=state.name)

    def _put(self, name: str, wanted: RolePolicyModel) -> None:
        self.api.put_role_policy(RoleName=wanted.role, PolicyName=name, PolicyDocument=wanted.policy)


class InstanceProfileModel(Model):
    """Properties of an instance profile."""

    name: Field[str] = given(replaces=True)
    role: Field[str] = given()
    tags: Field[Tags] = given(default={})
    arn: Field[str] = output()


class InstanceProfile(
    Resource, InstanceProfileModel, token="aws:iam/instanceProfile:InstanceProfile", delete_first=False
):
    """A role as instances have it."""


class InstanceProfileKind(AwsKind[InstanceProfileModel]):
    """A role as instances have it; its id is its name."""

    resource = InstanceProfile
    service = "iam"

    def make(self, wanted: InstanceProfileModel, task: Task) -> Made:
        said = self.api.create_instance_profile(InstanceProfileName=wanted.name, Tags=listed(wanted.tags))
        self.api.add_role_to_instance_profile(InstanceProfileName=wanted.name, RoleName=wanted.role)
        return Made(wanted.name, {"arn": said["InstanceProfile"]["Arn"]})

    def found(self, id: str, state: InstanceProfileModel) -> Mapping[str, Plain]:
        there = self.api.get_instance_profile(InstanceProfileName=id)["InstanceProfile"]
        return drift(state, {"role": next((each["RoleName"] for each in there["Roles"]), "")})

    def change(
        self, id: str, old: InstanceProfileModel, wanted: InstanceProfileModel, task: Task
    ) -> Mapping[str, Plain]:
        if old.role:
            self.api.remove_role_from_instance_profile(InstanceProfileName=id, RoleName=old.role)
        self.api.add_role_to_instance_profile(InstanceProfileName=id, RoleName=wanted.role)
        return {}

    def remove(self, id: str, state: InstanceProfileModel, task: Task) -> None:
        self.api.remove_role_from_instance_profile(InstanceProfileName=id, RoleName=state.role)
        self.api.delete_instance_profile(InstanceProfileName=id)


class SecretModel(Model):
    """Properties of a secret."""

    name: Field[str] = given(replaces=True)
    description: Field[str] = given(default="")
    recovery_window_in_days: Field[int] = given(default=30)
    tags: Field[Tags] = given(default={})
    arn: Field[str] = output()


class Secret(Resource, SecretModel, token="aws:secretsmanager/secret:Secret", delete_first=False):
    """A secret, without what it says."""


class SecretKind(AwsKind[SecretModel]):
    """A secret, without what it says; its id is its ARN."""

    resource = Secret
    service = "secretsmanager"

    def make(self, wanted: SecretModel, task: Task) -> Made:
        said = self.api.create_secret(
            Name=wanted.name, Description=wanted.description, Tags=listed(wanted.tags)
        )
        return Made(said["ARN"], {"arn": said["ARN"]})

    def found(self, id: str, state: SecretModel) -> Mapping[str, Plain] | None:
        there = self.api.describe_secret(SecretId=id)
        return None if there.get("DeletedDate") else drift(state, {"tags": tags_of(there)})

    def change(self, id: str, old: SecretModel, wanted: SecretModel, task: Task) -> Mapping[str, Plain]:
        if old.tags != wanted.tags:
            raise Refusal("this plugin of the tests does not change the tags of a secret")
        self.api.update_secret(SecretId=id, Description=wanted.description)
        return {}

    def remove(self, id: str, state: SecretModel, task: Task) -> None:
        days = state.recovery_window_in_days
        how: dict[str, Any] = {"RecoveryWindowInDays": days} if days else {"ForceDeleteWithoutRecovery": True}
        self.api.delete_secret(SecretId=id, **how)


class SecretVersionModel(Model):
    """Properties of what a secret says."""

    secret_id: Field[str] = given(replaces=True)
    secret_string: Field[str] = given(replaces=True, secret=True)
    version_id: Field[str] = output()


class SecretVersion(
    Resource, SecretVersionModel, token="aws:secretsmanager/secretVersion:SecretVersion", delete_first=False
):
    """A version of what a secret says."""


class SecretVersionKind(AwsKind[SecretVersionModel]):
    """A version of what a secret says; the newest one is current."""

    resource = SecretVersion
    service = "secretsmanager"

    def make(self, wanted: SecretVersionModel, task: Task) -> Made:
        said = self.api.put_secret_value(
            SecretId=wanted.secret_id, SecretString=wanted.secret_string, ClientRequestToken=str(uuid4())
        )
        return Made(f"{wanted.secret_id}|{said['VersionId']}", {"versionId": said["VersionId"]})

    def found(self, id: str, state: SecretVersionModel) -> Mapping[str, Plain]:
        there = self.api.get_secret_value(SecretId=state.secret_id, VersionId=state.version_id)
        return drift(state, {"secret_string": there["SecretString"]})

    def remove(self, id: str, state: SecretVersionModel, task: Task) -> None:
        """Leave it: AWS forgets versions that are not current, and the current one goes with its secret."""
