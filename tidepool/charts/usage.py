"""The chart of a report: a bar for each account, user, fleet or month, what jobs cost and what idle machines did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidepool.charts import FAINT, DrawingError, figure, plain, write_drawing
from tidepool.scaling.report import By, Row, label
from tidepool.scaling.usage import SECOND_US

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Okabe's and Ito's, which people with any kind of colour vision tell apart.
_JOBS: Final = "#0072b2"
_IDLE: Final = "#e69f00"
_MOST_BARS: Final = 40


def write_usage_chart(rows: Sequence[Row], by: By, *paths: Path, title: str = "") -> None:
    """Draw ``rows``, and write the chart to each of ``paths``: SVG or PNG. In US dollars; without prices, in machine-hours.

    Raises:
        DrawingError: there is nothing to draw, the suffix is another, or the file cannot be written.
    """
    if not rows:
        raise DrawingError("there is nothing to draw: nothing was used in that time")
    write_drawing(lambda: _figure(rows, by, title), paths)


def _figure(rows: Sequence[Row], by: By, title: str) -> Figure:
    is_priced = any(row.micro_usd or row.idle_micro_usd for row in rows)
    unit = 1_000_000 if is_priced else 3600 * SECOND_US
    bars = [
        (
            label(row, by),
            (row.micro_usd if is_priced else row.machine_us) / unit,
            (row.idle_micro_usd if is_priced else row.idle_us) / unit,
        )
        for row in rows
    ]
    if by != "month":
        bars.sort(key=lambda bar: -(bar[1] + bar[2]))
    bars = bars[:_MOST_BARS]
    drawing = figure((7.0, 1.4 + 0.28 * len(bars)), title)
    axes: Any = drawing.subplots()
    places = range(len(bars))
    axes.barh(places, [bar[1] for bar in bars], color=_JOBS, label="jobs")
    axes.barh(places, [bar[2] for bar in bars], left=[bar[1] for bar in bars], color=_IDLE, label="idle")
    axes.set_yticks(places, [bar[0] for bar in bars])
    axes.invert_yaxis()
    plain(axes)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=FAINT, linewidth=0.6)
    axes.set_xlabel("US$" if is_priced else "hours of machines")
    axes.legend(frameon=False, loc="lower right")
    return drawing
