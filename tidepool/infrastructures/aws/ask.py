"""A region is asked what it has of what is asked of it, by boto3."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from ipaddress import IPv4Network
from typing import Any, Final

from tidepool.cluster.failures import InfrastructureError, Permanent
from tidepool.infrastructures.aws.demands import (
    ROUTES_QUOTA,
    RULES_QUOTA,
    Demand,
    Demands,
    Facts,
    TypeFacts,
    quota_of,
    type_facts,
)
from tidepool.infrastructures.aws.session import client, kinds_of_failures

#: Price lists are served in a few regions, for all of them.
PRICE_LISTS: Final = "us-east-1"
_ON_DEMAND: Final = {
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "tenancy": "Shared",
    "capacitystatus": "Used",
}


def price_of_machine(demand: Demand, region: str, clients: Callable[[str], Any]) -> float | None:
    """Return the price of a machine in US dollars an hour; None where AWS does not say."""
    if demand.market == "spot":
        return spot_price(clients("ec2"), demand.instance_type, demand.zone)
    return on_demand_price(clients("pricing"), demand.instance_type, region)


def on_demand_price(pricing: Any, instance_type: str, region: str) -> float | None:
    """From AWS's price list, for Linux."""
    wanted = {**_ON_DEMAND, "instanceType": instance_type, "regionCode": region}
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    said = pricing.get_products(ServiceCode="AmazonEC2", Filters=filters)
    for text in said["PriceList"]:
        if (price_of_machine := price_of(json.loads(text))) is not None:
            return price_of_machine
    return None


def price_of(product: Mapping[str, Any]) -> float | None:
    """Return the price of an hour of a product of the price list. None where it is free, which is no price of a machine."""
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            usd = float(dimension["pricePerUnit"].get("USD", 0))
            if dimension["unit"] == "Hrs" and usd > 0:
                return usd
    return None


def spot_price(ec2: Any, instance_type: str, zone: str) -> float | None:
    """Return the price of a spot machine in a zone now."""
    said = ec2.describe_spot_price_history(
        InstanceTypes=[instance_type],
        AvailabilityZone=zone,
        ProductDescriptions=["Linux/UNIX"],
        StartTime=datetime.now(UTC),
    )["SpotPriceHistory"]
    newest = max(said, key=lambda each: each["Timestamp"], default=None)
    return None if newest is None else float(newest["SpotPrice"])


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
        routes, rules = (_quota(clients, "vpc", code) for code in (ROUTES_QUOTA, RULES_QUOTA))
        given = wanted.vpc is not None
        return Facts(
            types,
            quotas,
            None if routes is None else int(routes),
            None if rules is None else int(rules),
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
    found = {}
    for demand in wanted.demands:
        if demand.price_usd_per_hour == 0:
            with suppress(InfrastructureError), kinds_of_failures(f"the price of {demand.instance_type}"):
                if (usd := price_of_machine(demand, wanted.region, clients)) is not None:
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
