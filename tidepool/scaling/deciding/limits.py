"""How many nodes more the limits of the spec, its prices and its budget allow. It is growth's `Allowance`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from tidepool.cluster.spec import ClusterSpec, Fleet
from tidepool.scaling.deciding.allowance import Grant
from tidepool.scaling.deciding.budget import Books, fleet_prices, has_machine, node_usd
from tidepool.scaling.deciding.ledger import Ledger
from tidepool.scaling.memory import Memory

#: US dollars that are no sum of money: what is left of adding up many small ones.
_DUST: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Limits:
    """What is there already, and what that leaves. It answers and remembers nothing."""

    spec: ClusterSpec
    at: datetime
    memory: Memory
    #: By fleet: how many nodes are there, coming or going.
    present: Mapping[str, int]
    usd_per_hour: float
    projected_usd: float
    capped: Mapping[str, int]
    blind: frozenset[str]
    #: Why no node at all is made, in words.
    closed: str = ""

    @property
    def capped_accounts(self) -> Mapping[str, int]:
        """The accounts that have a cap, and how many nodes more each may have for the jobs of it that wait."""
        return self.capped

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
        """How many of ``nodes`` more of ``fleet`` may be launched beside ``launched``: see `Allowance`."""
        found = next((each for each in self.spec.fleets if each.name == fleet), None)
        if found is None:
            return Grant(0, f"there is no fleet {fleet}")
        usd = self.usd_per_node(found, time_limit_s)
        grants = (
            Grant(nodes),
            *([Grant(0, self.closed)] if self.closed else []),
            *self._fleet(found, launched.get(fleet, 0)),
            *self._all(sum(launched.values())),
            *self._price(found, launched),
            *self._budget(found, usd, launched, launched_usd),
        )
        least = min(grants, key=lambda grant: grant.nodes)
        return replace(least, nodes=max(0, least.nodes), usd_per_node=usd)

    def with_launched(self, launched: Mapping[str, int], launched_usd: float) -> Limits:
        """What is left when so many are launched."""
        present = Counter(self.present)
        present.update(launched)
        prices = fleet_prices(self.spec)
        return replace(
            self,
            present=present,
            usd_per_hour=self.usd_per_hour + sum(prices[fleet] * n for fleet, n in launched.items()),
            projected_usd=self.projected_usd + launched_usd,
        )

    def usd_per_node(self, fleet: Fleet, time_limit_s: int | None) -> float:
        """What a new node could cost of this month: until it is up, for its job, and idle behind it."""
        beside = timedelta(seconds=self.spec.scaling.boot_timeout_s + fleet.idle_timeout_s)
        lasting = None if time_limit_s is None else timedelta(seconds=time_limit_s) + beside
        return node_usd(fleet.infrastructures[0].price_usd_per_hour, lasting, self.at)

    def _fleet(self, fleet: Fleet, launched: int) -> Iterable[Grant]:
        setback = self.memory.fleet_setbacks.get(fleet.name)
        if setback is not None and setback.until > self.at:
            until = f"{setback.until:%H:%M:%S} UTC"
            yield Grant(0, f"fleet {fleet.name} backs off until {until}: {setback.text}", "setback")
        if fleet.name in self.blind:
            yield Grant(0, f"Slurm lists no slot of fleet {fleet.name}", "setback")
        here = fleet.infrastructures[0]
        taken = self.present.get(fleet.name, 0) + launched
        if here.max_nodes is not None and here.max_nodes < fleet.max_nodes:
            yield Grant(
                here.max_nodes - taken,
                f"fleet {fleet.name} may have {here.max_nodes} nodes on {here.name} (its max_nodes)",
            )
        else:
            yield Grant(
                fleet.max_nodes - taken, f"fleet {fleet.name} may have {fleet.max_nodes} nodes (max_nodes)"
            )

    def _all(self, launched: int) -> Iterable[Grant]:
        most = self.spec.limits.max_nodes
        if most is not None:
            taken = sum(self.present.values()) + launched
            yield Grant(most - taken, f"all fleets together may have {most} nodes (limits.max_nodes)")

    def _price(self, fleet: Fleet, launched: Mapping[str, int]) -> Iterable[Grant]:
        most, price = self.spec.limits.price_usd_per_hour, fleet.infrastructures[0].price_usd_per_hour
        if most is not None and price > 0:
            prices = fleet_prices(self.spec)
            taken = self.usd_per_hour + sum(prices.get(name, 0) * n for name, n in launched.items())
            yield Grant(
                _times(most - taken, price),
                f"all machines together may cost {most:g} USD an hour (limits.price_usd_per_hour): they cost "
                f"{taken:.2f}, and a node of {fleet.name} {price:g}",
            )

    def _budget(
        self, fleet: Fleet, usd: float, launched: Mapping[str, int], launched_usd: float | None
    ) -> Iterable[Grant]:
        most = self.spec.limits.budget_usd_per_month
        if most is None or usd <= 0:
            return
        if launched_usd is None:
            prices = fleet_prices(self.spec)
            launched_usd = sum(
                node_usd(prices.get(name, 0), None, self.at) * n for name, n in launched.items()
            )
        taken = self.projected_usd + launched_usd
        yield Grant(
            _times(most - taken, usd),
            f"the month may cost {most:g} USD (limits.budget_usd_per_month): {taken:.2f} are spent or bound, and a node "
            f"of {fleet.name} could add {usd:.2f}",
        )


def limits(
    spec: ClusterSpec, at: datetime, memory: Memory, ledger: Ledger, books: Books, caps: Mapping[str, int]
) -> Limits:
    """What is left beside all that is there. ``caps``: by account, how many nodes its jobs may have."""
    present = Counter(entry.fleet for entry in ledger.entries.values() if has_machine(entry))
    used = Counter[str]()
    for jobs in ledger.running.values():
        used.update({job.account for job in jobs})
    capped = {account: max(0, most - used[account]) for account, most in sorted(caps.items())}
    return Limits(spec, at, memory, present, books.usd_per_hour, books.projected_usd, capped, ledger.blind)


def _times(left: float, each: float) -> int:
    return max(0, int((left + _DUST) / each))
