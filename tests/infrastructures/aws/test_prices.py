"""What machines cost: by AWS's price list, spot machines by what they cost now; and that limits count something."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.infrastructures.aws.regions import FACTS, asked, demand
from tests.infrastructures.aws.specs import REGION, ZONE, mapping
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.aws.ask import price_of, price_of_machine
from tidepool.infrastructures.aws.demands import lacks, wanted
from tidepool.infrastructures.aws.reading import read_options


def product(usd: str, unit: str = "Hrs") -> str:
    dimension = {"unit": unit, "pricePerUnit": {"USD": usd}}
    return json.dumps({"terms": {"OnDemand": {"A.B": {"priceDimensions": {"A.B.C": dimension}}}}})


class Services:
    """Clients by service; what they were asked is kept."""

    def __init__(self, *products: str) -> None:
        self.products = products
        self.asked: list[dict[str, Any]] = []

    def __call__(self, service: str) -> Services:
        return self

    def get_products(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(asked)
        return {"PriceList": list(self.products)}

    def describe_spot_price_history(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(asked)
        old, new = (datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2))
        return {
            "SpotPriceHistory": [
                {"Timestamp": new, "SpotPrice": "0.12"},
                {"Timestamp": old, "SpotPrice": "0.5"},
            ]
        }


def test_a_machine_on_demand_costs_what_the_price_list_says() -> None:
    services = Services(product("0.00"), product("0.1008"))
    assert price_of_machine(demand(), REGION, services) == 0.1008
    fields = {each["Field"]: each["Value"] for each in services.asked[0]["Filters"]}
    assert (fields["instanceType"], fields["regionCode"]) == ("c7i.2xlarge", REGION)
    assert price_of_machine(demand(), REGION, Services()) is None


def test_a_spot_machine_costs_what_it_costs_now_in_its_zone() -> None:
    services = Services()
    assert price_of_machine(demand(market="spot"), REGION, services) == 0.12
    assert services.asked[0]["AvailabilityZone"] == ZONE


@pytest.mark.parametrize(
    ("text", "usd"),
    [
        (product("0.5"), 0.5),
        (product("0.5", "Quantity"), None),
        (product("0.0000000000"), None),
        ("{}", None),
    ],
)
def test_a_price_is_that_of_an_hour(text: str, usd: float | None) -> None:
    assert price_of(json.loads(text)) == usd


def test_a_cluster_whose_limits_count_prices_needs_them_and_is_told_what_aws_asks() -> None:
    path = "fleets[0].infrastructures[0]"
    free = demand(path=f"{path}.options")
    assert lacks(FACTS, asked(free)) == ()
    assert lacks(FACTS, asked(replace(free, price_usd_per_hour=0.4), counted=True)) == ()
    facts = replace(FACTS, prices={("c7i.2xlarge", ZONE, "on-demand"): 0.4284})
    (lack,) = lacks(facts, asked(free, counted=True))
    assert lack == (
        f"{path}.price_usd_per_hour: the cluster's limits count what machines cost, and c7i.2xlarge has no price: write "
        "0.4284, as AWS asks for it now"
    )
    assert lacks(FACTS, asked(free, counted=True))[0].endswith("has no price: write what it costs")


def test_prices_of_a_spec_are_its_entries() -> None:
    described = mapping() | {"limits": {"budget_usd_per_month": 1000}}
    described["fleets"][0]["infrastructures"][0]["price_usd_per_hour"] = 0.4
    read = ClusterSpec.model_validate(described)
    found = wanted(read, read_options(read, "dev"))
    assert found.counted
    assert [(each.price_path, each.price_usd_per_hour) for each in found.demands] == [
        ("controller.infrastructure.price_usd_per_hour", 0),
        ("fleets[0].infrastructures[0].price_usd_per_hour", 0.4),
    ]
