"""Asks slurmdbd beside the daemon's turns what accounts have used, and has Slurm hold those whose budget is spent.

A month of 100,000 jobs is 20 s of sacct, the last hours 0.2 s: the last hours are asked for each time, and beside them once a day
all of the month, a day each time. Where that fails, what is known is counted on, and it goes on from where it was with shorter
spans. What is held is what slurmctld says, and is made what it should be whenever that differs. Of accounts without a budget any more that is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple

from tidepool.clients.slurm.contract import SlurmError
from tidepool.clients.slurm.usage import HOLDING_LIMIT, AccountRecords, held_accounts
from tidepool.cluster.accounts import ROOT_ACCOUNT
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.shape import Shape
from tidepool.cluster.slurm_conf import fleets_and_pools
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.decide.account_budgets import once_held
from tidepool.scaling.memory import Memory
from tidepool.scaling.observe.source import PollInterval, backoff_s
from tidepool.scaling.usage import LONGEST_SPAN, AccountUsage, counted, goes_on, uncounted

#: While something is going on, and while nothing is.
_LOOKS: Final = {True: PollInterval(0.05, 3, 120), False: PollInterval(0.02, 15, 300)}
#: After a failure; after several in a row it is longer.
_AGAIN_S: Final = 10.0
_AGAIN_MOST_S: Final = 60.0
#: So often the spans are halved for that: to 45 minutes.
_HALVED: Final = 5
#: For so long the first answer is waited for: without it nothing is known. Shorter than a lease.
_FIRST_S: Final = 8.0


OpenRecords = Callable[[Mapping[str, Any], str], AccountRecords]
"""Gives the records of a cluster, by the connection of its controller and its name."""


@dataclass(frozen=True, slots=True)
class _Look:
    #: None where nothing is known of the month yet.
    usage: AccountUsage | None
    #: By account that Slurm knows, whether it is held.
    held: Mapping[str, bool]
    #: What of the month was counted anew so far; None where that is done.
    anew: AccountUsage | None = None
    #: Why that does not go on.
    failure: str = ""


class Held(NamedTuple):
    """Accounts that are held from now on, and that are no longer; and those without a budget any more that are not held."""

    held: tuple[str, ...] = ()
    freed: tuple[str, ...] = ()
    let_go: tuple[str, ...] = ()


class AccountWatch:
    """The newest look at what accounts have used. ``wake`` is called by whatever thread has ended one."""

    def __init__(
        self,
        open_records: OpenRecords,
        beside: Executor,
        monotonic_s: Callable[[], float],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._open = open_records
        self._beside = beside
        self._monotonic_s = monotonic_s
        self._wake = wake
        self._records: AccountRecords | None = None
        self._where: tuple[Mapping[str, Any], str] | None = None
        self._look: Future[_Look] | None = None
        self._began_s = float("-inf")
        self._cost_s = 0.0
        self._seen: _Look | None = None
        self._anew: AccountUsage | None = None
        self._failures = 0
        self._hold_after_s = float("-inf")
        #: Why slurmdbd cannot be asked, in words; empty where it can.
        self.failure = ""

    def latest(
        self,
        controller: Mapping[str, Any],
        spec: ClusterSpec,
        at: datetime,
        memory: Memory,
        *,
        is_active: bool,
    ) -> AccountUsage | None:
        """Return what was counted last; None: nothing yet. Another count begins where one is due, from what ``memory`` has."""
        if not any(account.budget for account in spec.accounts) and not once_held(spec, memory.budgets):
            self.close()
            self.failure = ""
            return None
        if (where := (controller, spec.name)) != self._where:
            self.close()
            self._where, self._look, self._seen, self._began_s = where, None, None, float("-inf")
            self._anew, self._failures = None, 0
            self._records = self._open(*where)
        self._collect()
        if self._look is None and self._monotonic_s() >= self._due_s(is_active):
            self._began_s = self._monotonic_s()
            before = self._seen.usage if self._seen else memory.usage
            shapes = {each.name: each.shape for each in fleets_and_pools(spec)}
            span = LONGEST_SPAN / 2 ** min(self._failures, _HALVED)
            self._look = self._beside.submit(self._looked, before, self._anew, at, shapes, span)
            if before is None and not self.failure:
                wait([self._look], _FIRST_S)
            self._look.add_done_callback(lambda _: self._wake())
            self._collect()
        return self._seen.usage if self._seen else None

    def hold(self, spec: ClusterSpec, spent: Collection[str], former: Collection[str] = ()) -> Held:
        """Have Slurm begin no job of the accounts that are ``spent``, and of the others with a budget as the spec says.

        Of ``former``, which had a budget, as well. Nothing is done before they were looked at.
        """
        if self._seen is None or self._records is None or self._monotonic_s() < self._hold_after_s:
            return Held()
        limits = {each.name: each.limits.get(HOLDING_LIMIT) for each in spec.accounts}
        own = {each.name: limits[each.name] for each in spec.accounts if each.budget}
        own |= {name: limits.get(name) for name in former}
        there = self._seen.held
        held = tuple(name for name in own if name in spent and there.get(name) is False)
        freed = tuple(
            name for name, limit in own.items() if name not in spent and there.get(name) and limit != "0"
        )
        try:
            if held:
                self._records.set_holding_limit(held, "0")
            for limit in sorted({own[name] or "-1" for name in freed}):
                self._records.set_holding_limit(
                    [each for each in freed if (own[each] or "-1") == limit], limit
                )
        except (SlurmError, OSError) as error:
            self.failure = f"accounts cannot be held or let go: {error}"
            self._hold_after_s = self._monotonic_s() + _AGAIN_S
            return Held()
        if held or freed:
            now = {**there, **dict.fromkeys(held, True), **dict.fromkeys(freed, False)}
            self._seen = replace(self._seen, held=now)
            # A look that began before would say otherwise.
            self._look = None
        return Held(held, freed, tuple(name for name in former if name in freed or not there.get(name)))

    def close(self) -> None:
        records, self._records, self._where = self._records, None, None
        if records is not None:
            records.close()

    def _due_s(self, is_active: bool) -> float:
        if self.failure:
            return self._began_s + backoff_s(self._failures, _AGAIN_S, _AGAIN_MOST_S)
        return self._began_s + (_LOOKS[is_active].interval_s(self._cost_s) if self._seen else 0.0)

    def _collect(self) -> None:
        look = self._look
        if look is None or not look.done():
            return
        self._look = None
        self._cost_s = self._monotonic_s() - self._began_s
        try:
            found = look.result()
        except (SlurmError, OSError) as error:
            failure = str(error)
        else:
            self._anew, failure = found.anew, found.failure
            if found.usage is not None:
                self._seen = found
        self._failures = self._failures + 1 if failure else 0
        self.failure = f"slurmdbd cannot be asked what accounts have used: {failure}" if failure else ""

    def _looked(
        self,
        known: AccountUsage | None,
        anew: AccountUsage | None,
        at: datetime,
        shapes: Mapping[str, Shape],
        span: timedelta,
    ) -> _Look:
        """Count on from what is ``known``; and once a day all of the month from what was counted ``anew`` of it, a span each time."""
        records = self._records
        assert records is not None, "nothing was opened yet"
        # First, for it is quick, and nothing that was counted is lost where it fails.
        limits = records.limits()
        count = partial(counted, at=at, job_times=records.job_times, shapes=shapes, span=span)
        usage = known if goes_on(known, at) else None
        while usage is not None and usage.until < at:
            usage = count(usage)
        failure = ""
        if usage is None or usage.whole.date() != at.date():
            if anew is None or anew.month != f"{at:%Y-%m}" or anew.settled_until > at:
                anew = uncounted(at)
            try:
                anew = count(anew)
                # Where nothing else is known, all of it is waited for.
                while usage is None and anew.until < at:
                    anew = count(anew)
            except (SlurmError, OSError) as error:
                failure = str(error)
            if anew.until == at:
                usage, anew = anew, None
        parents = {
            each.account: each.parent for each in limits if each.parent and each.parent != ROOT_ACCOUNT
        }
        usage = usage and replace(usage, parents=FrozenDict(parents))
        return _Look(usage, held_accounts(limits), anew, failure)
