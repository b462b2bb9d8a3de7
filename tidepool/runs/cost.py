"""Cost of a run's cluster so far: pure, from what its scaler has counted, and what is there while that does not count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.spec import ClusterSpec
from tidepool.runs.record import Cost
from tidepool.scaling.decide.budget import own_machines, own_usd_per_hour
from tidepool.scaling.decide.capacity import node_prices
from tidepool.scaling.memory import Spent, located_fleet

_HOUR: Final = timedelta(hours=1)
#: Stands for the cluster's own machines where fleets are named, as the scaler has it.
_OWN: Final = ""


def cost(
    spec: ClusterSpec, since: datetime, spent: Spent | None, nodes: Mapping[str, int], now: datetime
) -> Cost:
    """Return the cost from ``since``, when the cluster began to come up, until ``now``.

    ``spent`` is the scaler's count; None where it has not looked yet. Before its first look and after its last one the cluster's
    own machines are counted, and ``nodes``, which there are now, by fleet: where they are is not known, so at the first price.
    """
    prices = node_prices(spec)
    hours: defaultdict[str, float] = defaultdict(float)
    usd = 0.0
    for times in ({} if spent is None else spent.machines).values():
        for where, time in times.items():
            hours[located_fleet(where)] += time.seconds / _HOUR.total_seconds()
            usd += time.usd
    uncounted = _uncounted(since, spent, now) / _HOUR
    hours[_OWN] += own_machines(spec) * uncounted
    usd += own_usd_per_hour(spec) * uncounted
    for fleet, count in nodes.items():
        hours[fleet] += count * uncounted
        usd += count * prices.get((fleet, ""), 0.0) * uncounted
    return Cost(usd, FrozenDict({fleet: each for fleet, each in sorted(hours.items()) if each}))


def _uncounted(since: datetime, spent: Spent | None, now: datetime) -> timedelta:
    if spent is None or spent.since is None:
        return max(timedelta(), now - since)
    return max(timedelta(), spent.since - since) + max(timedelta(), now - spent.until)
