"""The scaler in a line, for `status`. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from tidepool.cli.scaler.words import number
from tidepool.scaling.phase import Phase

if TYPE_CHECKING:
    from tidepool.cli.scaler.health import Health
    from tidepool.cli.scaler.record import Record


@dataclass(frozen=True, slots=True)
class Summary:
    """``wish`` and ``there`` count nodes of all fleets; None where nobody has decided yet."""

    state: Literal["runs", "paused", "late", "stopped", "never"]
    words: str
    wish: int | None
    there: int | None
    is_well: bool


#: Where there is no journal.
NOBODY: Final = Summary(
    "never", "no daemon has run for this stack yet; `tidepool scale` starts it", None, None, is_well=False
)


def summary(record: Record) -> Summary:
    """What ``record`` comes to."""
    from tidepool.cli.scaler.health import health

    well, decision = health(record), record.decision
    wish = sum(map(len, decision.desired.values())) if decision else None
    there = (
        sum(view.phase not in (Phase.ABSENT, Phase.LAUNCHING) for view in decision.nodes.values())
        if decision
        else None
    )
    return Summary(
        "paused" if well.paused and well.state == "runs" else well.state,
        _words(well, wish, there),
        wish,
        there,
        well.is_well,
    )


def _words(well: Health, wish: int | None, there: int | None) -> str:
    parts = [well.words, *well.trouble]
    if well.paused:
        parts.append(well.paused)
    if wish is not None and there is not None:
        parts.append(f"{number(wish, 'node')} wished, {there:,} there")
    if well.remedy:
        parts.append(well.remedy)
    return "; ".join(parts)
