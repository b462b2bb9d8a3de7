"""How many nodes more there may be: limits, prices and budget, asked by whoever would launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Grant:
    """How many of the nodes that were asked for may be launched; where they are fewer, why, in words."""

    nodes: int
    reason: str = ""
    standing: Literal["limit", "setback"] = "limit"


class Allowance(Protocol):
    """What limits allow beside all that is there already. It answers and remembers nothing: the asker counts."""

    def more(
        self, fleet: str, nodes: int, launched: Mapping[str, int], *, time_limit_s: int | None, account: str
    ) -> Grant:
        """How many of ``nodes`` more of ``fleet`` may be launched, beside those ``launched`` (by fleet) just now.

        They are for jobs of ``account`` that may run ``time_limit_s`` (None: without end). Granting fewer to more
        ``launched`` nodes, never more, is what the asker counts on.
        """
        ...

    @property
    def capped_accounts(self) -> Mapping[str, int]:
        """The accounts that have a cap, and how many nodes more each may have for the jobs of it that wait."""
        ...
