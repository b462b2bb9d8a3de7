"""Levels over time: how much of something is in use, a panel for each name, each repeat as a line and their median as an area."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from tidepool.charts import INK, plain, stacked

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Levels:
    """The repeats of one name: of each its levels in steps of one length, all of them beginning at 0."""

    name: str
    repeats: Sequence[Sequence[float]]


def levels_figure(
    panels: Sequence[Levels],
    step_s: float,
    most: float,
    unit: str,
    colours: Mapping[str, str],
    title: str = "",
) -> Figure:
    """Return ``panels`` below each other on the same scales. ``most`` is what there is of it, and drawn as a line."""
    from matplotlib.ticker import MaxNLocator

    drawing, grid = stacked((10.0, 0.3), [1.0] * len(panels), title, left=0.55)
    longest = max((len(levels) for panel in panels for levels in panel.repeats), default=0)
    edges = [at * step_s for at in range(longest + 1)]
    for axes, panel in zip(grid, panels, strict=True):
        colour = colours[panel.name]
        filled = [[*levels, *([0.0] * (longest - len(levels)))] for levels in panel.repeats]
        middle = [median(at) for at in zip(*filled, strict=True)]
        axes.stairs(middle, edges, fill=True, color=colour, alpha=0.55, linewidth=0)
        for levels in filled:
            axes.stairs(levels, edges, baseline=None, color=colour, alpha=0.8, linewidth=0.6)
        axes.axhline(most, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
        axes.set_ylim(0, most * 1.08)
        axes.set_title(panel.name, loc="left", fontsize=9, fontweight="bold")
        plain(axes)
    grid[0].set_xlim(0, max(edges[-1], 1e-9))
    grid[-1].set_xlabel("seconds since the run's beginning")
    drawing.supylabel(unit, fontsize=9, x=0.005)
    return drawing
