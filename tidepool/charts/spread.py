"""The chart of a sweep: a panel for each measure, in it each run as a dot, by what was varied, and the medians."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from tidepool.charts import INK, DrawingError, figure, plain, write_drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Okabe's and Ito's, which people with any kind of colour vision tell apart.
_RUN: Final = "#0072b2"
_NONE: Final = "#d55e00"
_LONG_LABEL: Final = 8


@dataclass(frozen=True, slots=True)
class Panel:
    """A measure: its name with the unit, and its values by point; one without any has no run that succeeded."""

    title: str
    values: Mapping[str, Sequence[float]]


def write_spread_chart(panels: Sequence[Panel], varied: str, *paths: Path, title: str = "") -> None:
    """Draw ``panels``, and write the chart to each of ``paths``: SVG or PNG. ``varied`` says what points differ in.

    Raises:
        DrawingError: there is nothing to draw, the suffix is another, or the file cannot be written.
    """
    if not any(values for panel in panels for values in panel.values.values()):
        raise DrawingError("there is nothing to draw: no run has succeeded")
    write_drawing(lambda: _figure(panels, varied, title), paths)


def _figure(panels: Sequence[Panel], varied: str, title: str) -> Figure:
    points = max(len(panel.values) for panel in panels)
    drawing = figure(((1.0 + max(2.6, 0.6 * points)) * len(panels), 3.8), title)
    grid: Any = drawing.subplots(1, len(panels), squeeze=False)
    for axes, panel in zip(grid[0], panels, strict=True):
        _panel(axes, panel)
    drawing.supxlabel(varied, fontsize=9)
    return drawing


def _panel(axes: Axes, panel: Panel) -> None:
    labels = [*panel.values]
    middles = [(at, median(values)) for at, values in enumerate(panel.values.values()) if values]
    axes.plot(
        [at for at, _ in middles], [value for _, value in middles], color=_RUN, linewidth=1.0, alpha=0.5
    )
    for at, values in enumerate(panel.values.values()):
        axes.plot([at] * len(values), values, "o", color=_RUN, markersize=4, markerfacecolor="none")
        if not values:
            axes.annotate("none", (at, 0), ha="center", va="bottom", color=_NONE, fontsize=8)
    axes.plot(
        [at for at, _ in middles],
        [value for _, value in middles],
        "_",
        color=INK,
        markersize=14,
        markeredgewidth=1.6,
    )
    axes.set_title(panel.title, loc="left", fontsize=10, fontweight="bold")
    turned = 30 if any(len(label) > _LONG_LABEL for label in labels) else 0
    axes.set_xticks(range(len(labels)), labels, rotation=turned, ha="right" if turned else "center")
    axes.set_xlim(-0.5, len(labels) - 0.5)
    axes.set_ylim(bottom=0)
    plain(axes)
