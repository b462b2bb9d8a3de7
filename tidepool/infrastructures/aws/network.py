"""The network of a stack at AWS: its VPC or a given one, and a security group for each part of a cluster.

A machine's address is no address of its subnet but a route in the tables of the VPC, so that it keeps it in every zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from pulumi import Alias, Input, Output, ResourceOptions
from pulumi_aws import ec2, ec2transitgateway, vpc

from tidepool.infrastructures.aws.access import through_endpoint
from tidepool.infrastructures.aws.groups import PARTS, Groups, Rule
from tidepool.infrastructures.aws.names import named
from tidepool.infrastructures.aws.options import SiteOptions


@dataclass(frozen=True, slots=True)
class Owner:
    """The stack as the owner of all that is made: ``tags`` and ``opts`` are those of each resource."""

    stack: str
    tags: Mapping[str, str]
    opts: ResourceOptions

    def tagged(self, what: str) -> dict[str, str]:
        return {"Name": named(self.stack, what), **self.tags}

    def options(self, **more: Any) -> ResourceOptions:
        return ResourceOptions.merge(self.opts, ResourceOptions(**more))

    def has(self, what: str, **more: Any) -> dict[str, Any]:
        """Return the arguments ``tags`` and ``opts`` of something that the stack has."""
        return {"tags": self.tagged(what), "opts": self.options(**more)}


@dataclass(frozen=True, slots=True)
class StackNetwork:
    """Subnets and groups for a stack's machines. ``subnets`` are by zone, ``groups`` by the part of the cluster."""

    owner: Owner
    place: SiteOptions
    vpc: Input[str]
    subnets: Mapping[str, Input[str]]
    route_table: Input[str]
    groups: Mapping[str, Output[str]]


def stack_network(own: Owner, place: SiteOptions, asked: Groups) -> StackNetwork:
    """Register it, with a security group for each part of the cluster and the rules of all."""
    if place.given is not None:
        of_vpc: Input[str] = place.given.vpc
        subnets: Mapping[str, Input[str]] = place.given.subnets
        table: Input[str] = place.given.route_table
        owner = None
    else:
        made = ec2.Vpc(
            "vpc",
            cidr_block=str(place.cidr),
            enable_dns_support=True,
            enable_dns_hostnames=True,
            **own.has("vpc"),
        )
        of_vpc, owner = made.id, made.owner_id
        subnets, table = _own_subnets(own, place, made, asked)
    groups: dict[str, Output[str]] = {
        part: ec2.SecurityGroup(
            part,
            # It is there as long as rules of others name it.
            name=named(own.stack, part),
            description=f"Tidepool: {part} of {own.stack}",
            vpc_id=of_vpc,
            **own.has(part, delete_before_replace=True),
        ).id
        for part in PARTS
    }
    result = StackNetwork(own, place, of_vpc, subnets, table, groups)
    for rule in asked.rules():
        _rule(result, rule, _aliases(asked.former_names(rule)))
    if owner is not None:
        _endpoint(result, owner)
    return result


def _own_subnets(
    own: Owner, place: SiteOptions, of: ec2.Vpc, asked: Groups
) -> tuple[Mapping[str, Input[str]], Input[str]]:
    """A subnet for each zone, all with one route table: what is a route there leads to any of them."""
    # Sixteen parts: zones never move when another one comes, and the last is for the way out.
    parts = list(place.cidr.subnets(prefixlen_diff=4))
    table = ec2.RouteTable("machines", vpc_id=of.id, **own.has("machines"))
    subnets: dict[str, Input[str]] = {}
    for zone in place.zones:
        # By its letter, not by its place in the list.
        made = ec2.Subnet(
            zone,
            vpc_id=of.id,
            availability_zone=zone,
            cidr_block=str(parts[ord(zone[-1]) - ord("a")]),
            **own.has(zone, delete_before_replace=True),
        )
        ec2.RouteTableAssociation(zone, subnet_id=made.id, route_table_id=table.id, opts=own.opts)
        subnets[zone] = made.id
    if place.outside:
        _way_out(own, place, of, table, str(parts[-1]))
    if place.transit_gateway is not None:
        attachment = ec2transitgateway.VpcAttachment(
            "administrators",
            transit_gateway_id=place.transit_gateway,
            vpc_id=of.id,
            subnet_ids=list(subnets.values()),
            **own.has("administrators"),
        )
        for name, network in asked.ways().items():
            ec2.Route(
                name,
                route_table_id=table.id,
                destination_cidr_block=str(network),
                transit_gateway_id=place.transit_gateway,
                opts=own.options(depends_on=[attachment], aliases=_aliases(asked.former_ways(network))),
            )
    return subnets, table.id


def _way_out(own: Owner, place: SiteOptions, of: ec2.Vpc, table: ec2.RouteTable, cidr: str) -> None:
    """A NAT gateway in a subnet of its own, in the first zone."""
    tagged, opts = own.has("outside"), own.opts
    gateway = ec2.InternetGateway("outside", vpc_id=of.id, **tagged)
    subnet = ec2.Subnet("outside", vpc_id=of.id, availability_zone=place.zones[0], cidr_block=cidr, **tagged)
    public = ec2.RouteTable("outside", vpc_id=of.id, **tagged)
    ec2.RouteTableAssociation("outside", subnet_id=subnet.id, route_table_id=public.id, opts=opts)
    everywhere = "0.0.0.0/0"
    leads = ec2.Route(
        "internet",
        route_table_id=public.id,
        destination_cidr_block=everywhere,
        gateway_id=gateway.id,
        opts=opts,
    )
    address = ec2.Eip("outside", domain="vpc", **tagged)
    translates = ec2.NatGateway(
        "outside",
        allocation_id=address.id,
        subnet_id=subnet.id,
        **own.has("outside", depends_on=[leads]),
    )
    ec2.Route(
        "outside",
        route_table_id=table.id,
        destination_cidr_block=everywhere,
        nat_gateway_id=translates.id,
        opts=opts,
    )


def _endpoint(made: StackNetwork, owner: Output[str]) -> None:
    stack, region = made.owner.stack, made.place.region
    ec2.VpcEndpoint(
        "secrets",
        vpc_id=made.vpc,
        service_name=f"com.amazonaws.{region}.secretsmanager",
        vpc_endpoint_type="Interface",
        private_dns_enabled=True,
        subnet_ids=list(made.subnets.values()),
        security_group_ids=[made.groups["endpoints"]],
        policy=owner.apply(lambda account: through_endpoint(stack, region, account)),
        **made.owner.has("secrets"),
    )


def _aliases(names: Iterable[str]) -> list[Alias]:
    return [Alias(name=name) for name in names]


def _rule(made: StackNetwork, rule: Rule, aliases: list[Alias]) -> None:
    kind = vpc.SecurityGroupIngressRule if rule.way == "from" else vpc.SecurityGroupEgressRule
    first, last = rule.ports or (None, None)
    to: dict[str, Any] = (
        {"cidr_ipv4": str(rule.other)}
        if isinstance(rule.other, IPv4Network)
        # One that is none of ours is somebody else's id.
        else {"referenced_security_group_id": made.groups.get(rule.other, rule.other)}
    )
    kind(
        rule.name,
        security_group_id=made.groups[rule.part],
        ip_protocol=rule.protocol if rule.ports else "-1",
        from_port=first,
        to_port=last,
        description=rule.why or None,
        tags=dict(made.owner.tags),
        opts=made.owner.options(aliases=aliases),
        **to,
    )
