"""The network of a stack at AWS: its VPC or a given one, and a security group for each part of a cluster.

A machine's address is no address of its subnet but a route in the tables of the VPC, so that it keeps it in every zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from pulumi import Input, Output, ResourceOptions
from pulumi_aws import ec2, ec2transitgateway, vpc

from tidepool.cluster.firewall import ANYWHERE, Firewall
from tidepool.infrastructures.aws.access import (
    LUSTRE,
    MACHINES,
    Part,
    egress_rules,
    in_name,
    rules,
    through_endpoint,
    to_nodes_from_outside,
)
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
    groups: Mapping[Part, Output[str]]


def stack_network(
    own: Owner, place: SiteOptions, network: IPv4Network, firewall: Firewall, *, has_own: bool = True
) -> StackNetwork:
    """Register it. ``has_own`` says whether the cluster's own machines are in it, or elsewhere."""
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
        subnets, table = _own_subnets(own, place, made, firewall)
    groups = {
        part: ec2.SecurityGroup(
            part,
            # It is there as long as rules of others name it.
            name=named(own.stack, part),
            description=f"Tidepool: {part} of {own.stack}",
            vpc_id=of_vpc,
            **own.has(part, delete_before_replace=True),
        ).id
        for part in (*MACHINES, "files", "endpoints")
    }
    result = StackNetwork(own, place, of_vpc, subnets, table, groups)
    for rule in rules(lustre=place.home == "lustre"):
        _ingress(result, rule.name, rule.to, rule.ports, source=result.groups[rule.source], why=rule.why)
    if not has_own:
        for ports, why in to_nodes_from_outside().items():
            _ingress(result, f"node-from-elsewhere-{ports[0]}", "node", ports, cidr=str(network), why=why)
    _leaves(result, network)
    _apply(result, firewall)
    for i, administrators in enumerate(place.administrators):
        for part in MACHINES:
            _ingress(result, f"{part}-from-administrators-{i}", part, (22, 22), cidr=str(administrators))
    if owner is not None:
        _endpoint(result, owner)
    return result


def _own_subnets(
    own: Owner, place: SiteOptions, of: ec2.Vpc, firewall: Firewall
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
        ways = {f"administrators-{i}": network for i, network in enumerate(place.administrators)}
        for name, network in {**ways, **_ways_to_logins(place, firewall)}.items():
            ec2.Route(
                name,
                route_table_id=table.id,
                destination_cidr_block=str(network),
                transit_gateway_id=place.transit_gateway,
                opts=own.options(depends_on=[attachment]),
            )
    return subnets, table.id


def _ways_to_logins(place: SiteOptions, firewall: Firewall) -> Mapping[str, IPv4Network]:
    """Networks of those who log in, to which there is no route yet, by the names of their routes."""
    sources = {source for rule in firewall.logins.ingress for source in rule.sources}
    return {f"logins-{in_name(source)}": source for source in sorted(sources - {*place.administrators})}


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


def _ingress(
    made: StackNetwork,
    name: str,
    to: Part,
    ports: tuple[int, int] | None,
    *,
    source: Input[str] | None = None,
    cidr: str | None = None,
    why: str = "SSH",
) -> None:
    vpc.SecurityGroupIngressRule(
        name,
        security_group_id=made.groups[to],
        referenced_security_group_id=source,
        cidr_ipv4=cidr,
        description=why,
        tags=dict(made.owner.tags),
        opts=made.owner.opts,
        **_ports(ports),
    )


def _apply(made: StackNetwork, firewall: Firewall) -> None:
    """Register the firewall's rules."""
    sources = {source: rule.description for rule in firewall.logins.ingress for source in rule.sources}
    for source, why in sources.items():
        name = f"login-from-{in_name(source)}"
        _ingress(made, name, "login", (22, 22), cidr=str(source), why=why or "SSH")
    for rule in egress_rules(firewall):
        to = {"cidr_ipv4": str(rule.network), "description": rule.why or None}
        _egress(made, rule.name, rule.part, rule.ports, rule.protocol, **to)


def _leaves(made: StackNetwork, network: IPv4Network) -> None:
    for part in MACHINES:
        to: dict[str, tuple[tuple[int, int] | None, dict[str, Any]]] = {
            # Addresses of the cluster are of no group: AWS knows them as routes alone.
            "cluster": (None, {"cidr_ipv4": str(network)}),
            "files": (None, {"referenced_security_group_id": made.groups["files"]}),
            "endpoints": ((443, 443), {"referenced_security_group_id": made.groups["endpoints"]}),
        }
        if part == "node":
            to["node"] = (None, {"referenced_security_group_id": made.groups["node"]})
        if (given := made.place.given) is not None:
            # What machines boot by is in a VPC of somebody else's, at addresses that only they know.
            to["secrets"] = (
                (443, 443),
                {"referenced_security_group_id": given.endpoint_group}
                if given.endpoint_group
                else {"cidr_ipv4": str(ANYWHERE)},
            )
            if ":/" in made.place.home:
                to["home"] = ((2049, 2049), {"cidr_ipv4": str(ANYWHERE)})
        for where, (ports, destination) in to.items():
            _egress(made, f"{part}-to-{where}", part, ports, **destination)
    if made.place.home == "lustre":
        parts: tuple[Part, ...] = ("files", *MACHINES)
        for part in parts:
            for ports in LUSTRE:
                name, group = f"files-to-{part}-{ports[0]}", made.groups[part]
                _egress(made, name, "files", ports, referenced_security_group_id=group)


def _egress(
    made: StackNetwork,
    name: str,
    part: Part,
    ports: tuple[int, int] | None,
    protocol: str = "tcp",
    **destination: Any,
) -> None:
    vpc.SecurityGroupEgressRule(
        name,
        security_group_id=made.groups[part],
        tags=dict(made.owner.tags),
        opts=made.owner.opts,
        **_ports(ports, protocol),
        **destination,
    )


def _ports(ports: tuple[int, int] | None, protocol: str = "tcp") -> dict[str, Any]:
    if ports is None:
        return {"ip_protocol": "-1"}
    return {"ip_protocol": protocol, "from_port": ports[0], "to_port": ports[1]}
