"""Curves over sizes, on logarithmic scales: panels in rows and columns, in each a line for each name through its medians, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidepool.charts import figure, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Spot:
    """A value at a size, and where it lies; without an interval both ends are the value."""

    size: int
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class CurvePanel:
    """Curves by name, each in the order of its sizes."""

    title: str
    unit: str
    curves: Mapping[str, Sequence[Spot]]


def curves_figure(
    rows: Sequence[Sequence[CurvePanel]], sizes: str, colours: Mapping[str, str], title: str = ""
) -> Figure:
    """Return ``rows`` of panels, as many in each; those of a row have one scale. ``sizes`` says what sizes are of."""
    drawing = figure((1.2 + 3.1 * len(rows[0]), 0.9 + 2.6 * len(rows)), title)
    grid: Any = drawing.subplots(len(rows), len(rows[0]), squeeze=False, sharex=True, sharey="row")
    for axes_row, row in zip(grid, rows, strict=True):
        for axes, panel in zip(axes_row, row, strict=True):
            _panel(axes, panel, colours)
        axes_row[0].set_ylabel(row[0].unit)
    drawing.supxlabel(sizes, fontsize=9)
    handles, labels = grid[0][0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside upper right", ncols=max(len(labels), 1), frameon=False)
    return drawing


def _panel(axes: Axes, panel: CurvePanel, colours: Mapping[str, str]) -> None:
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    seen = sorted({spot.size for spots in panel.curves.values() for spot in spots})
    for name, spots in panel.curves.items():
        sizes = [spot.size for spot in spots]
        axes.fill_between(
            sizes,
            [spot.low for spot in spots],
            [spot.high for spot in spots],
            color=colours[name],
            alpha=0.15,
            linewidth=0,
        )
        axes.plot(
            sizes,
            [spot.value for spot in spots],
            "o-",
            color=colours[name],
            label=name,
            markersize=4,
            linewidth=1.2,
        )
    axes.set_xticks(seen, [f"{size:,}" for size in seen])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.minorticks_off()
    axes.set_title(panel.title, loc="left", fontsize=9, fontweight="bold")
    plain(axes)
