"""Costs of machines: what this month has cost, and what it is bound to cost until its end. Months are in UTC."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.capacity import node_prices
from tidepool.scaling.decide.node_status import NodeAction
from tidepool.scaling.decide.reconcile import Entry, Reconciled
from tidepool.scaling.decision import Phase
from tidepool.scaling.memory import MachineTime, Memory, Spent, at_location
from tidepool.scaling.usage import month_begin

_HOUR = timedelta(hours=1)
#: So many months of machine time are remembered, for reports.
_MONTHS = 24


@dataclass(frozen=True, slots=True)
class Books:
    """In US dollars. ``committed_usd`` is what the rest of the month costs if nothing more is launched."""

    usd_per_hour: float
    spent: Spent
    committed_usd: float
    #: That part of it which could not be saved by draining all: jobs that run, and the cluster's own machines.
    bound_usd: float

    @property
    def projected_usd(self) -> float:
        """Return what the month comes to, if nothing more is launched."""
        return self.spent.usd + self.committed_usd


def books(state: ClusterState, memory: Memory, reconciled: Reconciled) -> Books:
    """Return what all that is there costs."""
    prices = node_prices(state.spec)
    own = own_usd_per_hour(state.spec)
    there = Counter((each.fleet, each.location) for each in reconciled.entries.values() if has_machine(each))
    rates = {"": (own_machines(state.spec), own)} | {
        at_location(*where): (count, count * _price(*where, prices)) for where, count in there.items()
    }
    rate = sum(usd_per_hour for _, usd_per_hour in rates.values())
    own_usd = own * ((month_end(state.at) - state.at) / _HOUR)
    committed, bound = _of_nodes(state, memory, reconciled, prices)
    now = with_machines(spent(memory.spent, state.at, rate), memory.spent, rates)
    return Books(rate, now, own_usd + committed, own_usd + bound)


def has_machine(entry: Entry) -> bool:
    """Return whether a machine is paid for, as far as can be seen."""
    return entry.phase is not Phase.ABSENT and entry.action is not NodeAction.RELEASE_SLOT


def price_of(entry: Entry, prices: Mapping[tuple[str, str], float]) -> float:
    """Return what the machine of a node costs an hour where it is, by `node_prices`."""
    return _price(entry.fleet, entry.location, prices)


def _price(fleet: str, location: str, prices: Mapping[tuple[str, str], float]) -> float:
    return prices.get((fleet, location), prices.get((fleet, ""), 0.0))


def own_usd_per_hour(spec: ClusterSpec) -> float:
    """Return what the cluster's own machines cost an hour."""
    return own_machines(spec) * spec.controller.infrastructure.price_usd_per_hour


def own_machines(spec: ClusterSpec) -> int:
    """Return how many machines are the cluster's own."""
    controller = spec.controller
    return 1 + int(controller.backup) + int(controller.own_accounting is not None) + controller.login_machines


def spent(before: Spent | None, at: datetime, usd_per_hour: float) -> Spent:
    """Return what the month has cost by ``at``, when there was so much an hour since ``before``."""
    month = f"{at:%Y-%m}"
    if before is None:
        return Spent(month, 0, at)
    if before.until >= at:
        return before  # the clock went back: what is counted stays counted
    begin = at if before.is_down else max(before.until, month_begin(at))
    usd = before.usd if before.month == month else 0.0
    return Spent(month, usd + usd_per_hour * ((at - begin) / _HOUR), at)


def with_machines(now: Spent, before: Spent | None, rates: Mapping[str, tuple[int, float]]) -> Spent:
    """``now`` with the time of machines since ``before``. ``rates``: by `at_location` how many, and what they cost an hour."""
    if before is None:
        return replace(now, since=now.until)
    found = {month: dict(times) for month, times in before.machines.items()}
    begin = now.until if before.is_down else before.until
    while begin < now.until:
        end = min(month_end(begin), now.until)
        times = found.setdefault(f"{begin:%Y-%m}", {})
        for where, (count, usd_per_hour) in rates.items():
            known = times.get(where, MachineTime())
            times[where] = MachineTime(
                known.seconds + count * (end - begin).total_seconds(),
                known.usd + usd_per_hour * ((end - begin) / _HOUR),
            )
        begin = end
    kept = sorted(found)[-_MONTHS:]
    return replace(
        now,
        machines=FrozenDict({month: FrozenDict(found[month]) for month in kept}),
        since=before.since or before.until,
    )


@lru_cache(maxsize=4)
def month_end(at: datetime) -> datetime:
    """When the month of ``at`` ends."""
    return month_begin(month_begin(at) + timedelta(days=32))


def node_usd(price_usd_per_hour: float, lasting: timedelta | None, at: datetime) -> float:
    """Return what a node that is there so long (None: without end) costs of what is left of the month."""
    left = month_end(at) - at
    there = left if lasting is None else min(left, max(lasting, timedelta()))
    return price_usd_per_hour * (there / _HOUR)


def _of_nodes(
    state: ClusterState, memory: Memory, reconciled: Reconciled, prices: Mapping[tuple[str, str], float]
) -> tuple[float, float]:
    """Return what the nodes that there are will have cost, with what they are idle; and what of it cannot be saved."""
    by_fleet: dict[str, list[float]] = {}
    idle = {fleet.name: timedelta(seconds=fleet.idle_timeout_s) for fleet in state.spec.fleets}
    bound = 0.0
    for entry in reconciled.entries.values():
        price = price_of(entry, prices)
        if price and has_machine(entry):
            jobs = _jobs_last(entry, state, reconciled)
            bound += node_usd(price, jobs, state.at)
            lasting = _launch_lasts(entry, state, memory) if entry.phase is Phase.LAUNCHING else jobs
            if lasting is not None:
                lasting += idle[entry.fleet]
            by_fleet.setdefault(entry.fleet, []).append(node_usd(price, lasting, state.at))
    committed = 0.0
    for fleet in state.spec.fleets:
        each = sorted(by_fleet.get(fleet.name, ()))
        # As many as min_nodes stay until the month's end.
        kept = min(fleet.min_nodes, len(each))
        committed += kept * node_usd(prices[fleet.name, ""], None, state.at) + sum(each[kept:])
    return committed, bound


def _launch_lasts(entry: Entry, state: ClusterState, memory: Memory) -> timedelta | None:
    """Until it is up, and for its jobs; None: without end. From its beginning, so that looking twice is the same."""
    boot = timedelta(seconds=state.spec.scaling.boot_timeout_s)
    launch = memory.launches.get(entry.name)
    if launch is None:
        return boot
    if launch.lasting_s is None:
        return None
    return max(timedelta(), launch.since + boot + timedelta(seconds=launch.lasting_s) - state.at)


def _jobs_last(entry: Entry, state: ClusterState, reconciled: Reconciled) -> timedelta | None:
    """Until the last of the jobs that run on it must have ended; None: without end."""
    longest = timedelta()
    for job in reconciled.running.get(entry.name, ()):
        if job.time_limit_s is None or job.end_time is None:
            return None
        longest = max(longest, job.end_time - state.at)
    return longest
