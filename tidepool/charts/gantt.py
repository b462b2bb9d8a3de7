"""Gantt charts: a row for each processor, a bar for each process on it, over one time for all panels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidepool.charts import FAINT, plain, stacked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.path import Path

#: Bars that are nearer to each other than this part of the whole time are drawn as one: they could not be told apart.
_NEAR: Final = 1 / 2000
_ROW_INCHES: Final = 0.17
_BAR: Final = 0.76


@dataclass(frozen=True, slots=True)
class Bar:
    """A span of a row, counted from 0 at the top, in seconds; its kind gives the colour."""

    row: int
    begins_s: float
    ends_s: float
    kind: str


@dataclass(frozen=True, slots=True)
class Gantt:
    """One panel: the names of its rows, and their bars."""

    title: str
    rows: Sequence[str]
    bars: Sequence[Bar]


def gantt_figure(panels: Sequence[Gantt], kinds: Mapping[str, str], title: str = "") -> Figure:
    """Return ``panels`` below each other on one scale of time. ``kinds`` gives the colour of each, those below first."""
    from matplotlib.patches import Patch

    heights = [max(2, len(panel.rows)) * _ROW_INCHES for panel in panels]
    longest = max((len(name) for panel in panels for name in panel.rows), default=0)
    drawing, grid = stacked((10.0, 0.55), heights, title, left=0.2 + 0.065 * longest)
    span_s = max((bar.ends_s for panel in panels for bar in panel.bars), default=0.0) or 1.0
    for axes, panel in zip(grid, panels, strict=True):
        _panel(axes, panel, kinds, span_s)
    grid[-1].set_xlabel("seconds since the run's beginning")
    used = {bar.kind for panel in panels for bar in panel.bars}
    drawing.legend(
        handles=[Patch(color=colour, label=kind) for kind, colour in kinds.items() if kind in used],
        loc="upper right",
        ncols=len(kinds),
        frameon=False,
        fontsize=8,
    )
    return drawing


def _panel(axes: Axes, panel: Gantt, kinds: Mapping[str, str], span_s: float) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    for kind, colour in kinds.items():
        if rectangles := [*_rectangles(panel.bars, kind, span_s)]:
            # One path of all: as an element for each, a page of thousands of processes would be as many times longer.
            axes.add_patch(PathPatch(Path.make_compound_path(*rectangles), facecolor=colour, linewidth=0))
    axes.set_title(panel.title, loc="left", fontsize=9, fontweight="bold")
    axes.set_xlim(0, span_s)
    axes.set_ylim(max(1, len(panel.rows)) - 0.5, -0.5)
    axes.set_yticks(range(len(panel.rows)), panel.rows, fontsize=7)
    plain(axes)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=FAINT, linewidth=0.6)


def _rectangles(bars: Sequence[Bar], kind: str, span_s: float) -> Iterator[Path]:
    from matplotlib.path import Path

    for row, begins_s, ends_s in merged(bars, kind, span_s * _NEAR):
        left, right = begins_s, max(ends_s, begins_s + span_s * _NEAR)
        top, bottom = row - _BAR / 2, row + _BAR / 2
        yield Path([(left, top), (right, top), (right, bottom), (left, bottom), (left, top)], closed=True)


def merged(bars: Sequence[Bar], kind: str, near_s: float) -> Iterator[tuple[int, float, float]]:
    """Yield row, begin and end of the bars of a kind; several that lie within ``near_s`` are one, so that it is bounded how many are drawn."""
    row, begins_s, ends_s = -1, 0.0, 0.0
    for bar in sorted((bar for bar in bars if bar.kind == kind), key=lambda bar: (bar.row, bar.begins_s)):
        if bar.row == row and bar.ends_s - begins_s <= near_s:
            ends_s = max(ends_s, bar.ends_s)
            continue
        if row >= 0:
            yield row, begins_s, ends_s
        row, begins_s, ends_s = bar.row, bar.begins_s, bar.ends_s
    if row >= 0:
        yield row, begins_s, ends_s
