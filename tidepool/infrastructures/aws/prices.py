"""Prices of machines: by AWS's price list, and of spot machines by what they cost now."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from tidepool.infrastructures.aws.demand import Demand

#: Price lists are served in a few regions, for all of them.
PRICE_LISTS: Final = "us-east-1"
_ON_DEMAND: Final = {
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "tenancy": "Shared",
    "capacitystatus": "Used",
}


def price(demand: Demand, region: str, clients: Callable[[str], Any]) -> float | None:
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
        if (price := price_of(json.loads(text))) is not None:
            return price
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
