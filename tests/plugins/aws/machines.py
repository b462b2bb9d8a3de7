"""Machines: launch templates, instances, the routes to them and the volumes at them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from tests.plugins.aws.calls import AwsKind, api_value, drift, patiently, tagging, tags_of
from tidepool.resources.kind import AS_KNOWN, Made, Task
from tidepool.resources.model import Field, Model, Resource, given, output, to_wire
from tidepool.resources.values import Plain

Tags = Mapping[str, str]
_GONE: Final = ("shutting-down", "terminated")


class LaunchTemplateModel(Model):
    """Properties of a launch template."""

    name: Field[str] = given(replaces=True)
    update_default_version: Field[bool] = given(default=False)
    instance_type: Field[str] = given(default="")
    iam_instance_profile: Field[Any] = given(default=None)
    user_data: Field[str] = given(default="")
    metadata_options: Field[Any] = given(default=None)
    block_device_mappings: Field[Any] = given(default=None)
    instance_initiated_shutdown_behavior: Field[str] = given(default="")
    instance_market_options: Field[Any] = given(default=None)
    tag_specifications: Field[Any] = given(default=None)
    vpc_security_group_ids: Field[Any] = given(default=None)
    network_interfaces: Field[Any] = given(default=None)
    placement: Field[Any] = given(default=None)
    tags: Field[Tags] = given(default={})
    latest_version: Field[int] = output(default=0)
    default_version: Field[int] = output(default=0)


class LaunchTemplate(
    Resource, LaunchTemplateModel, token="aws:ec2/launchTemplate:LaunchTemplate", delete_first=False
):
    """A template that instances are made by."""


class LaunchTemplateKind(AwsKind[LaunchTemplateModel]):
    """A template that instances are made by. Another content is another version of it."""

    resource = LaunchTemplate

    def make(self, wanted: LaunchTemplateModel, task: Task) -> Made:
        said = self.api.create_launch_template(
            LaunchTemplateName=wanted.name,
            LaunchTemplateData=_data(wanted),
            ClientToken=str(uuid4()),
            **tagging("launch-template", wanted.tags),
        )["LaunchTemplate"]
        return Made(said["LaunchTemplateId"], {"latestVersion": 1, "defaultVersion": 1})

    def found(self, id: str, state: LaunchTemplateModel) -> Mapping[str, Plain] | None:
        found = self.api.describe_launch_templates(LaunchTemplateIds=[id])["LaunchTemplates"]
        # AWS answers with an error, and moto with none.
        if not found:
            return None
        (there,) = found
        return drift(state, {"name": there["LaunchTemplateName"], "tags": tags_of(there)})

    def change(
        self, id: str, old: LaunchTemplateModel, wanted: LaunchTemplateModel, task: Task
    ) -> Mapping[str, Plain]:
        self.tag(id, old.tags, wanted.tags)
        latest, default = old.latest_version, old.default_version
        if _data(old) != _data(wanted):
            said = self.api.create_launch_template_version(
                LaunchTemplateId=id, LaunchTemplateData=_data(wanted), ClientToken=str(uuid4())
            )
            latest = said["LaunchTemplateVersion"]["VersionNumber"]
            if wanted.update_default_version:
                self.api.modify_launch_template(LaunchTemplateId=id, DefaultVersion=str(latest))
                default = latest
        return {"latestVersion": latest, "defaultVersion": default}

    def remove(self, id: str, state: LaunchTemplateModel, task: Task) -> None:
        self.api.delete_launch_template(LaunchTemplateId=id)


#: What of a template is not in its versions.
_OF_THE_TEMPLATE: Final = ("name", "update_default_version", "tags", "latest_version", "default_version")


def _data(wanted: LaunchTemplateModel) -> Any:
    inputs = {
        each.wire: to_wire(getattr(wanted, name))
        for name, each in wanted.properties.items()
        if name not in _OF_THE_TEMPLATE
    }
    return api_value({key: value for key, value in inputs.items() if value})


class InstanceModel(Model):
    """Properties of an instance."""

    ami: Field[str] = given(replaces=True)
    instance_type: Field[str] = given()
    launch_template: Field[Any] = given(replaces=True)
    subnet_id: Field[str] = given(default="", replaces=True)
    source_dest_check: Field[bool] = given(default=True)
    disable_api_termination: Field[bool] = given(default=False)
    force_destroy: Field[bool] = given(default=False)
    tags: Field[Tags] = given(default={})
    arn: Field[str] = output()
    instance_state: Field[str] = output()
    private_ip: Field[str] = output()
    primary_network_interface_id: Field[str] = output()


class Instance(Resource, InstanceModel, token="aws:ec2/instance:Instance", delete_first=False):
    """An instance."""


class InstanceKind(AwsKind[InstanceModel]):
    """An instance: made when it runs, gone when it is terminated."""

    resource = Instance

    def make(self, wanted: InstanceModel, task: Task) -> Made:
        template = {"LaunchTemplateId": wanted.launch_template["id"]}
        asked: dict[str, Any] = {
            "ImageId": wanted.ami,
            "InstanceType": wanted.instance_type,
            "LaunchTemplate": {**template, "Version": wanted.launch_template.get("version", "$Default")},
            **({"SubnetId": wanted.subnet_id} if wanted.subnet_id else {}),
        }
        said = self.api.run_instances(
            MinCount=1, MaxCount=1, ClientToken=str(uuid4()), **asked, **tagging("instance", wanted.tags)
        )
        id = said["Instances"][0]["InstanceId"]
        patiently(task, lambda: self._state(id) == "running", f"the instance {id}")
        if not wanted.source_dest_check:
            self.api.modify_instance_attribute(InstanceId=id, SourceDestCheck={"Value": False})
        # AWS takes it with the launch, of which moto forgets it.
        self._protect(id, wanted.disable_api_termination)
        return Made(id, self._outputs(self._there(id)))

    def found(self, id: str, state: InstanceModel) -> Mapping[str, Plain] | None:
        there = self._there(id)
        if there["State"]["Name"] in _GONE:
            return None
        inputs = {
            "ami": there["ImageId"],
            "instance_type": there["InstanceType"],
            "source_dest_check": there.get("SourceDestCheck", True),
            "disable_api_termination": self._is_protected(id),
            "tags": tags_of(there),
        }
        return {**drift(state, inputs), **self._outputs(there)}

    def change(self, id: str, old: InstanceModel, wanted: InstanceModel, task: Task) -> Mapping[str, Plain]:
        self.tag(id, old.tags, wanted.tags)
        if old.source_dest_check != wanted.source_dest_check:
            check = {"Value": wanted.source_dest_check}
            self.api.modify_instance_attribute(InstanceId=id, SourceDestCheck=check)
        if old.disable_api_termination != wanted.disable_api_termination:
            self._protect(id, wanted.disable_api_termination)
        if old.instance_type != wanted.instance_type:
            self.api.stop_instances(InstanceIds=[id])
            patiently(task, lambda: self._state(id) == "stopped", f"the instance {id}")
            self.api.modify_instance_attribute(InstanceId=id, InstanceType={"Value": wanted.instance_type})
            self.api.start_instances(InstanceIds=[id])
            patiently(task, lambda: self._state(id) == "running", f"the instance {id}")
        return self._outputs(self._there(id))

    def remove(self, id: str, state: InstanceModel, task: Task) -> None:
        if state.force_destroy:
            self._protect(id, False)
        self.api.terminate_instances(InstanceIds=[id])
        patiently(task, lambda: self._state(id) == "terminated", f"the end of the instance {id}")

    def _protect(self, id: str, on: bool) -> None:
        self.api.modify_instance_attribute(InstanceId=id, DisableApiTermination={"Value": on})

    def _is_protected(self, id: str) -> bool:
        said = self.api.describe_instance_attribute(InstanceId=id, Attribute="disableApiTermination")
        return bool(said["DisableApiTermination"]["Value"])

    def _state(self, id: str) -> str:
        return str(self._there(id)["State"]["Name"])

    def _there(self, id: str) -> Any:
        return self.api.describe_instances(InstanceIds=[id])["Reservations"][0]["Instances"][0]

    def _outputs(self, there: Any) -> dict[str, Plain]:
        interfaces = there.get("NetworkInterfaces", ())
        return {
            "instanceState": there["State"]["Name"],
            "privateIp": there.get("PrivateIpAddress", ""),
            "primaryNetworkInterfaceId": interfaces[0]["NetworkInterfaceId"] if interfaces else "",
        }


class RouteModel(Model):
    """Properties of a route to a network interface."""

    route_table_id: Field[str] = given(replaces=True)
    destination_cidr_block: Field[str] = given(replaces=True)
    network_interface_id: Field[str] = given()
    state: Field[str] = output()


class Route(Resource, RouteModel, token="aws:ec2/route:Route", delete_first=False):
    """A route to a network interface."""


class RouteKind(AwsKind[RouteModel]):
    """A route to a network interface; its id is made of its table and its destination."""

    resource = Route

    def make(self, wanted: RouteModel, task: Task) -> Made:
        self.api.create_route(
            RouteTableId=wanted.route_table_id,
            DestinationCidrBlock=wanted.destination_cidr_block,
            NetworkInterfaceId=wanted.network_interface_id,
        )
        digest = hashlib.sha256(wanted.destination_cidr_block.encode()).hexdigest()[:10]
        return Made(f"r-{wanted.route_table_id}{digest}", {"state": "active"})

    def found(self, id: str, state: RouteModel) -> Mapping[str, Plain] | None:
        (table,) = self.api.describe_route_tables(RouteTableIds=[state.route_table_id])["RouteTables"]
        for each in table["Routes"]:
            if each.get("DestinationCidrBlock") == state.destination_cidr_block:
                return drift(state, {"network_interface_id": each.get("NetworkInterfaceId", "")})
        return None

    def change(self, id: str, old: RouteModel, wanted: RouteModel, task: Task) -> Mapping[str, Plain]:
        self.api.replace_route(
            RouteTableId=wanted.route_table_id,
            DestinationCidrBlock=wanted.destination_cidr_block,
            NetworkInterfaceId=wanted.network_interface_id,
        )
        return {}

    def remove(self, id: str, state: RouteModel, task: Task) -> None:
        self.api.delete_route(
            RouteTableId=state.route_table_id, DestinationCidrBlock=state.destination_cidr_block
        )


class VolumeAttachmentModel(Model):
    """Properties of a volume at an instance."""

    device_name: Field[str] = given(replaces=True)
    instance_id: Field[str] = given(replaces=True)
    volume_id: Field[str] = given(replaces=True)
    stop_instance_before_detaching: Field[bool] = given(default=False)


class VolumeAttachment(
    Resource, VolumeAttachmentModel, token="aws:ec2/volumeAttachment:VolumeAttachment", delete_first=False
):
    """A volume at an instance."""


class VolumeAttachmentKind(AwsKind[VolumeAttachmentModel]):
    """A volume at an instance, which may be stopped before it is taken away."""

    resource = VolumeAttachment

    def make(self, wanted: VolumeAttachmentModel, task: Task) -> Made:
        self.api.attach_volume(
            Device=wanted.device_name, InstanceId=wanted.instance_id, VolumeId=wanted.volume_id
        )
        digest = hashlib.sha256(f"{wanted.volume_id} {wanted.instance_id}".encode()).hexdigest()[:10]
        return Made(f"vai-{digest}")

    def found(self, id: str, state: VolumeAttachmentModel) -> Mapping[str, Plain] | None:
        (there,) = self.api.describe_volumes(VolumeIds=[state.volume_id])["Volumes"]
        at = [each["InstanceId"] for each in there["Attachments"]]
        return AS_KNOWN if state.instance_id in at else None

    def change(
        self, id: str, old: VolumeAttachmentModel, wanted: VolumeAttachmentModel, task: Task
    ) -> Mapping[str, Plain]:
        return {}

    def remove(self, id: str, state: VolumeAttachmentModel, task: Task) -> None:
        if state.stop_instance_before_detaching:
            self.api.stop_instances(InstanceIds=[state.instance_id])

            def is_stopped() -> bool:
                said = self.api.describe_instances(InstanceIds=[state.instance_id])
                return said["Reservations"][0]["Instances"][0]["State"]["Name"] in ("stopped", *_GONE)

            patiently(task, is_stopped, f"the instance {state.instance_id} to stop")
        self.api.detach_volume(VolumeId=state.volume_id, InstanceId=state.instance_id)
