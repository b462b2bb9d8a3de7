"""A region is asked what it has of what is asked of it, by boto3."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from ipaddress import IPv4Network
from typing import Any

from tidepool.cluster.failures import InfrastructureError, Permanent
from tidepool.infrastructures.aws.demand import Demands
from tidepool.infrastructures.aws.facts import Facts, TypeFacts, type_facts
from tidepool.infrastructures.aws.preflight import ROUTES_QUOTA, quota_of
from tidepool.infrastructures.aws.prices import PRICE_LISTS, price
from tidepool.infrastructures.aws.session import client, kinds_of_failures

Clients = Callable[[str], Any]


def ask(wanted: Demands, clients: Clients | None = None) -> Facts:
    """Ask what the region has.

    Raises:
        InfrastructureError: it cannot be asked; says why.
    """
    clients = clients or (
        lambda service: client(service, PRICE_LISTS if service == "pricing" else wanted.region)
    )
    with kinds_of_failures(f"the region {wanted.region} cannot be asked"):
        ec2 = clients("ec2")
        types = _types(ec2, {demand.instance_type for demand in wanted.demands})
        codes = {quota_of(demand.instance_type, demand.market) for demand in wanted.demands}
        quotas = {
            code: quota for code in codes if code and (quota := _quota(clients, "ec2", code)) is not None
        }
        routes = _quota(clients, "vpc", ROUTES_QUOTA)
        given = wanted.vpc is not None
        return Facts(
            types,
            quotas,
            None if routes is None else int(routes),
            _addresses(ec2, wanted.vpc) if given else None,
            _subnets(ec2, wanted.vpc) if given else None,
            _prices(clients, wanted) if wanted.counted else {},
        )


def _types(ec2: Any, names: Iterable[str]) -> dict[str, TypeFacts]:
    # By filters, as a name that does not exist fails the whole question elsewhere.
    told = sorted(names)
    zones: dict[str, set[str]] = {}
    filters = [{"Name": "instance-type", "Values": told}]
    pages = ec2.get_paginator("describe_instance_type_offerings")
    for page in pages.paginate(LocationType="availability-zone", Filters=filters):
        for each in page["InstanceTypeOfferings"]:
            zones.setdefault(each["InstanceType"], set()).add(each["Location"])
    found = ec2.get_paginator("describe_instance_types").paginate(Filters=filters)
    facts = (
        type_facts(said, frozenset(zones.get(said["InstanceType"], ())))
        for page in found
        for said in page["InstanceTypes"]
    )
    return {each.name: each for each in facts if each.name in told}


def _quota(clients: Clients, service: str, code: str) -> float | None:
    """None where the account says none, or lets nobody ask: a launch will tell."""
    with suppress(Permanent), kinds_of_failures(f"the quota {code}"):
        said = clients("service-quotas").get_service_quota(ServiceCode=service, QuotaCode=code)
        return float(said["Quota"]["Value"])
    return None


def _prices(clients: Clients, wanted: Demands) -> dict[tuple[str, str, str], float]:
    """Return the prices of offerings that have none in the spec; left out where AWS does not say."""
    found = {}
    for demand in wanted.demands:
        if demand.price_usd_per_hour == 0:
            with suppress(InfrastructureError), kinds_of_failures(f"the price of {demand.instance_type}"):
                if (usd := price(demand, wanted.region, clients)) is not None:
                    found[demand.instance_type, demand.zone, demand.market] = usd
    return found


def _addresses(ec2: Any, vpc: str | None) -> tuple[IPv4Network, ...]:
    found = ec2.describe_vpcs(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["Vpcs"]
    return tuple(
        IPv4Network(block["CidrBlock"])
        for each in found
        for block in each.get("CidrBlockAssociationSet", ())
        if block.get("CidrBlockState", {}).get("State", "associated") == "associated"
    )


def _subnets(ec2: Any, vpc: str | None) -> dict[str, str]:
    pages = ec2.get_paginator("describe_subnets").paginate(Filters=[{"Name": "vpc-id", "Values": [vpc]}])
    return {each["SubnetId"]: each["AvailabilityZone"] for page in pages for each in page["Subnets"]}
