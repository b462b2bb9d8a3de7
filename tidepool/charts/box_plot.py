"""Conversions as box plots, a panel for each direction and a box for each phase. As SVG and as PNG.

A box holds the middle half of the conversions, its line is the median, whiskers reach to what is within 1.5 boxes of it,
and circles are the others. The same conversions give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidepool.charts import INK, DrawingError, figure, plain, write_drawing
from tidepool.conversion.report import PHASES, THESIS, Row, quantile, said_way

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Okabe's and Ito's, which people with any kind of colour vision tell apart.
_COLOURS: Final = {
    "asked": "#999999",
    "holding": "#e69f00",
    "emptying": "#f0e442",
    "leaving": "#d55e00",
    "joining": "#009e73",
    "restoring": "#cc79a7",
    "total": "#0072b2",
}


def write_box_plots(rows: Sequence[Row], *paths: Path, title: str = "") -> None:
    """Draw the conversions that are ``done``, and write the drawing to each of ``paths``: SVG or PNG, by their suffixes.

    Raises:
        DrawingError: there is nothing to draw, the suffix is another, or the file cannot be written.
    """
    done = [row for row in rows if row.conversion.phase == "done"]
    if not done:
        raise DrawingError("there is nothing to draw yet: no conversion has arrived")
    write_drawing(lambda: _figure(done, title), paths)


def _figure(done: Sequence[Row], title: str) -> Figure:
    ways = sorted({row.direction for row in done})
    drawing = figure((1.0 + 5.4 * len(ways), 4.6), title)
    panels: Any = drawing.subplots(1, len(ways), squeeze=False, sharey=True)
    for axes, way in zip(panels[0], ways, strict=True):
        _panel(axes, way, [row for row in done if row.direction == way])
    panels[0][0].set_ylabel("seconds")
    panels[0][0].set_ylim(bottom=0)
    drawing.supxlabel(f"{THESIS}.", fontsize=8, x=0.01, ha="left", wrap=True)
    return drawing


def _panel(axes: Axes, way: str, rows: Sequence[Row]) -> None:
    columns: list[tuple[str, list[float]]] = [
        (phase, times)
        for phase in PHASES
        if (times := [row.phases[phase] for row in rows if phase in row.phases])
    ]
    columns.append(("total", [row.total_s for row in rows]))
    drawn = axes.boxplot(
        [times for _, times in columns],
        tick_labels=[name for name, _ in columns],
        patch_artist=True,
        widths=0.6,
        medianprops={"color": INK, "linewidth": 1.4},
        whiskerprops={"color": INK, "linewidth": 0.8},
        capprops={"color": INK, "linewidth": 0.8},
        flierprops={"marker": "o", "markersize": 3, "markerfacecolor": "none", "markeredgecolor": INK},
    )
    for box, (name, _) in zip(drawn["boxes"], columns, strict=True):
        box.set(facecolor=_COLOURS[name], edgecolor=INK, linewidth=0.8)
    for place, (_, times) in enumerate(columns, 1):
        axes.annotate(
            f"{quantile(sorted(times), 0.5):.2f}",
            (place, max(times)),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    axes.set_title(f"{said_way(way)}, {len(rows)} conversions", loc="left", fontsize=10, fontweight="bold")
    axes.set_xlabel("phase, with its median")
    plain(axes)
