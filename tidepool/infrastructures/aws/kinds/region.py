"""tidepool:aws:Region."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network

from tidepool.infrastructures.aws.checks import Ask, ask_aws, lacks_of_region
from tidepool.infrastructures.aws.demand import Demand, Wanted
from tidepool.resources.difference import Rules
from tidepool.resources.kind import Home, Kind, Made, Task
from tidepool.resources.reading import Mistake, Reader


class AwsRegionKind(Kind[Wanted]):
    """A region that has all that is asked of it. It is asked in previews, before anything is made there."""

    token = "tidepool:aws:Region"  # noqa: S105 - a type of resource
    keys = frozenset({"region", "path", "network", "demands", "vpc", "subnets", "counted", "architecture"})
    rules = Rules(replaces=frozenset({"region"}))

    def __init__(self, home: Home, ask: Ask = ask_aws) -> None:
        self._ask = ask

    def read(self, reader: Reader) -> Wanted:
        return Wanted(
            reader.text("region"),
            reader.text("path"),
            IPv4Network(reader.text("network") or "0.0.0.0/0"),
            tuple(_demand(each) for each in reader.maps("demands")),
            reader.text("vpc", "") or None,
            reader.texts_by_name("subnets", {}) or None,
            reader.flag("counted", False),
            reader.text("architecture", "x86_64"),
        )

    def mistakes(self, wanted: Wanted) -> Iterable[Mistake]:
        # Of the region, which is short: Pulumi shows the value beside the reason.
        yield from (Mistake("region", lack) for lack in lacks_of_region(wanted, self._ask))

    def create(self, wanted: Wanted, task: Task) -> Made:
        return Made(wanted.region)


def _demand(reader: Reader) -> Demand:
    demand = Demand(
        path=reader.text("path"),
        instance_type=reader.text("instanceType"),
        zone=reader.text("zone"),
        market=reader.text("market"),
        machines=reader.integer("machines", least=1),
        cpus=reader.integer("cpus", least=1),
        threads_per_core=reader.integer("threadsPerCore", least=1),
        memory_mib=reader.integer("memoryMib", least=1),
        gpus=reader.integer("gpus", 0),
        efa=reader.integer("efa", 0),
        clustered=reader.flag("clustered", False),
        price_usd_per_hour=reader.number("priceUsdPerHour", 0, least=0),
    )
    reader.refuse_others()
    return demand
