"""The contract of limits on launches: limits, prices and budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission to launch so many of the nodes that were asked for; where they are fewer, why, in words."""

    nodes: int
    reason: str = ""
    standing: Literal["limit", "setback"] = "limit"
    #: What each of them could cost of this month, in US dollars: until the end of the job, and idle behind it.
    usd_per_node: float = 0


class Allowance(Protocol):
    """Limits beside all that is there already. It answers and remembers nothing: the asker counts."""

    def more(
        self,
        fleet: str,
        nodes: int,
        launched: Mapping[str, int],
        *,
        time_limit_s: int | None,
        account: str,
        launched_usd: float | None = None,
    ) -> Grant:
        """Return how many of ``nodes`` more of ``fleet`` may be launched, beside those ``launched`` (by fleet) just now.

        They are for jobs of ``account`` that may run ``time_limit_s`` (None: without end). Granting fewer to more
        ``launched`` nodes, never more, is what the asker counts on. ``launched_usd`` is the sum of
        `Grant.usd_per_node` over those launched just now; None: not counted, and the most is assumed, which is what
        they could cost until the end of the month.
        """
        ...

    @property
    def capped_accounts(self) -> Mapping[str, int]:
        """The accounts that have a cap, and how many nodes more each may have for the jobs of it that wait."""
        ...
