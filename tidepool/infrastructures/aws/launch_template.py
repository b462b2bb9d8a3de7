"""A kind of machine at AWS: its secret, the role that reads it and nothing else, and the launch template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi import Input, Output, ResourceOptions
from pulumi_aws import ec2, iam, secretsmanager

from tidepool.infrastructures.aws.access import assumed_by, reads_secret
from tidepool.infrastructures.aws.groups import part_of
from tidepool.infrastructures.aws.guest import MOST_SECRET_BYTES, user_data
from tidepool.infrastructures.aws.names import named
from tidepool.infrastructures.aws.network import StackNetwork
from tidepool.infrastructures.aws.options import Offering
from tidepool.infrastructures.aws.storage import ROOT_DEVICE
from tidepool.infrastructures.container import packed


@dataclass(frozen=True, slots=True)
class KindOrder:
    """Machines that are alike. ``smt`` says whether a core has more than one thread, where its type has them.

    ``group`` is the name of their placement group, if they have one.
    """

    name: str
    offering: Offering
    zone: str
    smt: bool = True
    group: Input[str] | None = None


def launch_template(
    order: KindOrder, told: Output[str], made: StackNetwork, opts: ResourceOptions
) -> Output[str]:
    """The id of the launch template of a kind.

    ``told`` is what its machines do when they boot. Another one changes the secret alone: machines that run read it when they
    boot the next time.
    """
    name, offering, stack, place = order.name, order.offering, made.owner.stack, made.place
    alone = ResourceOptions.merge(opts, ResourceOptions(delete_before_replace=True))
    secret = secretsmanager.Secret(
        name,
        name=named(stack, name),
        description=f"What machines {name} of {stack} do when they boot",
        # A stack that is made again under its name needs it.
        recovery_window_in_days=0,
        tags=dict(made.owner.tags),
        opts=alone,
    )
    text: Output[str] = Output.secret(told.apply(lambda known: _fits(name, known)))
    version = secretsmanager.SecretVersion(
        name,
        secret_id=secret.id,
        secret_string=text,
        opts=opts,
    )
    role = iam.Role(
        name,
        name=named(stack, name),
        assume_role_policy=assumed_by("ec2.amazonaws.com"),
        tags=dict(made.owner.tags),
        opts=alone,
    )
    allowed = iam.RolePolicy(name, role=role.id, policy=secret.arn.apply(reads_secret), opts=opts)
    profile = iam.InstanceProfile(
        name, name=named(stack, name), role=role.name, tags=dict(made.owner.tags), opts=alone
    )
    template = ec2.LaunchTemplate(
        name,
        name=named(stack, name),
        update_default_version=True,
        instance_type=offering.instance_type,
        iam_instance_profile=ec2.LaunchTemplateIamInstanceProfileArgs(arn=profile.arn),
        user_data=secret.arn.apply(
            lambda arn: packed(user_data(place.region, arn, offering.first_boot, smt=order.smt))
        ),
        metadata_options=ec2.LaunchTemplateMetadataOptionsArgs(
            http_endpoint="enabled",
            http_tokens="required",
            # No container on the machine comes so far.
            http_put_response_hop_limit=1,
            # By them a machine knows who it is.
            instance_metadata_tags="enabled",
        ),
        block_device_mappings=[
            ec2.LaunchTemplateBlockDeviceMappingArgs(
                device_name=ROOT_DEVICE,
                ebs=ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
                    volume_size=offering.disk_gib,
                    volume_type="gp3",
                    encrypted="true",
                    kms_key_id=place.kms_key,
                    delete_on_termination="true",
                ),
            )
        ],
        # One that shuts itself down is stopped, and comes again: only its stack takes it away.
        instance_initiated_shutdown_behavior="stop" if offering.market == "on-demand" else None,
        tag_specifications=[
            ec2.LaunchTemplateTagSpecificationArgs(resource_type=each, tags=dict(made.owner.tags))
            for each in ("volume", "network-interface")
        ],
        tags=dict(made.owner.tags),
        opts=ResourceOptions.merge(alone, ResourceOptions(depends_on=[version, allowed])),
        **_market(offering),
        **_network(order, made),
        placement=ec2.LaunchTemplatePlacementArgs(group_name=order.group)
        if order.group is not None
        else None,
    )
    return template.id


def _fits(name: str, text: str) -> str:
    if (size := len(text.encode())) > MOST_SECRET_BYTES:
        raise pulumi.RunError(
            f"what machines {name} are told when they boot has {size} bytes, and a secret of AWS holds {MOST_SECRET_BYTES}: put "
            "files into the image, by a role of its recipe"
        )
    return text


def _market(offering: Offering) -> dict[str, Any]:
    if offering.market == "on-demand":
        return {}
    price = offering.max_price_usd_per_hour
    spot = ec2.LaunchTemplateInstanceMarketOptionsSpotOptionsArgs(
        spot_instance_type="one-time",
        instance_interruption_behavior="terminate",
        max_price=None if price is None else f"{price:g}",
    )
    return {
        "instance_market_options": ec2.LaunchTemplateInstanceMarketOptionsArgs(
            market_type="spot", spot_options=spot
        )
    }


def _network(order: KindOrder, made: StackNetwork) -> dict[str, Any]:
    """Adapters are interfaces of the template, which then says all of the network; else the machine does."""
    group, adapters = made.groups[part_of(order.name)], order.offering.efa
    if not adapters:
        return {"vpc_security_group_ids": [group]}
    alike: dict[str, Any] = {
        "subnet_id": made.subnets[order.zone],
        "security_groups": [group],
        "delete_on_termination": "true",
    }
    if adapters == 1:
        # EC2 lets it be said of machines with one interface; those with several have no public address anyway.
        alike["associate_public_ip_address"] = "false"
    first = ec2.LaunchTemplateNetworkInterfaceArgs(device_index=0, interface_type="efa", **alike)
    # The first alone has an address, by which the machine is reached, and a device index of 0, by which it is known.
    others = [
        ec2.LaunchTemplateNetworkInterfaceArgs(
            network_card_index=card, device_index=1, interface_type="efa-only", **alike
        )
        for card in range(1, adapters)
    ]
    return {"network_interfaces": [first, *others]}
