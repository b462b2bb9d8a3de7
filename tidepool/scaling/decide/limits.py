"""The number of nodes that the limits of the spec, its prices and its budget allow. It is growth's `Allowance`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Literal

from tidepool.cluster.fleet import Fleet
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.decide.budget import Books, has_machine, node_usd
from tidepool.scaling.decide.capacity import Capacity, capacities_of, next_capacities
from tidepool.scaling.decide.packing.launch_limits import Grant
from tidepool.scaling.decide.reconcile import Reconciled
from tidepool.scaling.memory import Memory

#: US dollars that are no sum of money: what is left of adding up many small ones.
_DUST: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Limits:
    """The nodes that are there, and what the limits leave beside them. It answers and remembers nothing."""

    spec: ClusterSpec
    at: datetime
    #: By fleet: how many nodes are there, coming or going; and the capacities that are left beside them.
    present: Mapping[str, int]
    capacities: Mapping[str, tuple[Capacity, ...]]
    usd_per_hour: float
    projected_usd: float
    #: By account that has a cap, how many nodes more it may have for the jobs of it that wait.
    capped_accounts: Mapping[str, int]
    blind: frozenset[str]
    #: By fleet, how many were launched since then.
    since: Mapping[str, int] = field(default_factory=dict)
    #: Why no node at all is made, in words.
    closed: str = ""

    def more(
        self,
        fleet: str,
        nodes: int,
        launched: Mapping[str, int],
        *,
        time_limit_s: int | None,
        account: str = "",
        launched_usd: float | None = None,
    ) -> Grant:
        """Return how many of ``nodes`` more of ``fleet`` may be launched beside ``launched``: see `Allowance`."""
        found = next((each for each in self.spec.fleets if each.name == fleet), None)
        if found is None:
            return Grant(0, f"there is no fleet {fleet}")
        # Where they would go, and what they would cost there: the first are the first to be granted.
        ahead = [
            (capacity, count, self._usd(found, capacity.usd_per_hour, time_limit_s))
            for capacity, count in next_capacities(
                self.capacities[fleet], self.since.get(fleet, 0) + launched.get(fleet, 0), nodes
            )
        ]
        grants = (
            Grant(nodes),
            *([Grant(0, self.closed)] if self.closed else []),
            *self._fleet(found, launched.get(fleet, 0)),
            *self._all(sum(launched.values())),
            *self._price(found, ahead, launched),
            *self._budget(found, ahead, launched, launched_usd),
        )
        least = min(grants, key=lambda grant: grant.nodes)
        granted = max(0, least.nodes)
        return replace(least, nodes=granted, usd_per_node=_dearest(ahead, granted))

    def with_launched(self, launched: Mapping[str, int], launched_usd: float) -> Limits:
        present, since = Counter(self.present), Counter(self.since)
        present.update(launched)
        since.update(launched)
        return replace(
            self,
            present=present,
            since=since,
            usd_per_hour=self.usd_per_hour + self._usd_per_hour(launched),
            projected_usd=self.projected_usd + launched_usd,
        )

    def usd_of(self, fleet: Fleet, lasting_s: Iterable[int | None]) -> float:
        """Return what new nodes of a fleet could cost of this month, the next ones: each with how long its job may run."""
        ahead = list(lasting_s)
        found = 0.0
        for capacity, count in next_capacities(
            self.capacities[fleet.name], self.since.get(fleet.name, 0), len(ahead)
        ):
            found += sum(self._usd(fleet, capacity.usd_per_hour, each) for each in ahead[:count])
            ahead = ahead[count:]
        return found

    def _usd(self, fleet: Fleet, usd_per_hour: float, time_limit_s: int | None) -> float:
        """Return what a new node could cost of this month: until it is up, for its job, and idle behind it."""
        beside = timedelta(seconds=self.spec.scaling.boot_timeout_s + fleet.idle_timeout_s)
        lasting = None if time_limit_s is None else timedelta(seconds=time_limit_s) + beside
        return node_usd(usd_per_hour, lasting, self.at)

    def _usd_per_hour(self, launched: Mapping[str, int]) -> float:
        """Return what so many more cost an hour, where they would be."""
        return sum(
            capacity.usd_per_hour * here
            for fleet, count in launched.items()
            for capacity, here in next_capacities(
                self.capacities.get(fleet, ()), self.since.get(fleet, 0), count
            )
        )

    def _fleet(self, fleet: Fleet, launched: int) -> Iterable[Grant]:
        if fleet.name in self.blind:
            yield Grant(0, f"Slurm lists no slot of fleet {fleet.name}", "setback")
        yield Grant(
            fleet.max_nodes - self.present.get(fleet.name, 0) - launched,
            f"fleet {fleet.name} may have {fleet.max_nodes} nodes (max_nodes)",
        )
        capacities = self.capacities[fleet.name]
        closed = [capacity for capacity in capacities if capacity.backoff is not None]
        left = sum(capacity.left for capacity in capacities) - self.since.get(fleet.name, 0) - launched
        if len(capacities) > 1:
            standing: Literal["limit", "setback"] = "setback" if closed else "limit"
            yield Grant(
                left,
                f"fleet {fleet.name}: {'; '.join(capacity.obstacle for capacity in capacities)}",
                standing,
            )
            return
        for capacity in closed:
            assert capacity.backoff is not None
            until = f"{capacity.backoff.until:%H:%M:%S} UTC"
            yield Grant(0, f"fleet {fleet.name} backs off until {until}: {capacity.backoff.text}", "setback")
        if capacities[0].most < fleet.max_nodes:
            yield Grant(
                left,
                f"fleet {fleet.name} may have {capacities[0].most} nodes on {capacities[0].name} (its max_nodes)",
            )

    def _all(self, launched: int) -> Iterable[Grant]:
        most = self.spec.limits.max_nodes
        if most is not None:
            taken = sum(self.present.values()) + launched
            yield Grant(most - taken, f"all fleets together may have {most} nodes (limits.max_nodes)")

    def _price(self, fleet: Fleet, ahead: _Ahead, launched: Mapping[str, int]) -> Iterable[Grant]:
        most = self.spec.limits.price_usd_per_hour
        if most is not None and any(capacity.usd_per_hour > 0 for capacity, _, _ in ahead):
            taken = self.usd_per_hour + self._usd_per_hour(launched)
            nodes, price = _affordable(
                most - taken, [(count, capacity.usd_per_hour) for capacity, count, _ in ahead]
            )
            yield Grant(
                nodes,
                f"all machines together may cost {most:g} USD an hour (limits.price_usd_per_hour): they cost "
                f"{taken:.2f}, and a node of {fleet.name} {price:g}",
            )

    def _budget(
        self, fleet: Fleet, ahead: _Ahead, launched: Mapping[str, int], launched_usd: float | None
    ) -> Iterable[Grant]:
        most = self.spec.limits.budget_usd_per_month
        if most is None or all(usd <= 0 for _, _, usd in ahead):
            return
        if launched_usd is None:
            # Until the month's end, which is the most that they can cost.
            launched_usd = node_usd(self._usd_per_hour(launched), None, self.at)
        taken = self.projected_usd + launched_usd
        nodes, usd = _affordable(most - taken, [(count, usd) for _, count, usd in ahead])
        yield Grant(
            nodes,
            f"the month may cost {most:g} USD (limits.budget_usd_per_month): {taken:.2f} are spent or bound, and a node "
            f"of {fleet.name} could add {usd:.2f}",
        )


#: Where the next nodes go, how many to each, and what each of them could cost of this month.
_Ahead = Sequence[tuple[Capacity, int, float]]


def _dearest(ahead: _Ahead, nodes: int) -> float:
    """Return what the dearest of the first ``nodes`` costs; where there are none, what the next one would."""
    costs = []
    for _, count, usd in ahead:
        costs.append(usd)
        nodes -= count
        if nodes <= 0:
            break
    return max(costs, default=0.0)


def _affordable(left: float, ahead: Iterable[tuple[int, float]]) -> tuple[int, float]:
    """Return how many of those ahead ``left`` is enough for, and what the first costs that it is not enough for."""
    found, cost = 0, 0.0
    for count, cost in ahead:
        if cost <= 0:
            found += count
            continue
        here = min(count, max(0, int((left + _DUST) / cost)))
        found += here
        left -= here * cost
        if here < count:
            break
    return found, cost


def limits(
    spec: ClusterSpec,
    at: datetime,
    memory: Memory,
    reconciled: Reconciled,
    books: Books,
    caps: Mapping[str, int],
) -> Limits:
    """Return what is left beside all that is there. ``caps``: by account, how many nodes its jobs may have."""
    there = [entry for entry in reconciled.entries.values() if has_machine(entry)]
    present = Counter(entry.fleet for entry in there)
    spanning = {fleet.name: fleet for fleet in spec.fleets if len(fleet.infrastructures) > 1}
    taken = Counter((entry.fleet, entry.location if entry.fleet in spanning else "") for entry in there)
    for (name, key), count in list(taken.items()):
        if name in spanning and not key:
            # Where they are is not known yet: the first is what a program takes for those that nobody decided on.
            taken[name, spanning[name].infrastructures[0].key] += count
    capacities = {fleet.name: capacities_of(fleet, taken, memory, at) for fleet in spec.fleets}
    used = Counter[str]()
    for jobs in reconciled.running.values():
        used.update({job.account for job in jobs})
    capped = {account: max(0, most - used[account]) for account, most in sorted(caps.items())}
    return Limits(
        spec,
        at,
        present,
        capacities,
        books.usd_per_hour,
        books.projected_usd,
        capped,
        reconciled.blind,
    )
