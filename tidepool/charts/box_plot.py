"""Conversions and launches as box plots: a panel for each direction or infrastructure, a box for each phase. As SVG and as PNG.

What a box shows is told in `tidepool.charts.boxes`. The same times give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidepool.charts import DrawingError, figure, write_drawing
from tidepool.charts.boxes import Panel, draw_boxes
from tidepool.conversion.report import PHASES, THESIS, Row, said_way
from tidepool.infrastructures.boot_times import LAUNCH_PHASES
from tidepool.scaling import launches

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Okabe's and Ito's, which people with any kind of colour vision tell apart: no two neighbours have one.
_COLOURS: Final = {
    "asked": "#999999",
    "holding": "#e69f00",
    "emptying": "#f0e442",
    "leaving": "#d55e00",
    "imaging": "#56b4e9",
    "joining": "#009e73",
    "restoring": "#cc79a7",
    "making": "#e69f00",
    "image": "#f0e442",
    "firmware": "#d55e00",
    "loader": "#cc79a7",
    "kernel": "#56b4e9",
    "initrd": "#f0e442",
    "units": "#009e73",
    "slurmd": "#e69f00",
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
    panels = []
    for way in sorted({row.direction for row in done}):
        of_it = [row for row in done if row.direction == way]
        times = [(phase, [row.phases[phase] for row in of_it if phase in row.phases]) for phase in PHASES]
        whole = ("total", [row.total_s for row in of_it])
        panels.append(_panel_of(f"{said_way(way)}, {len(of_it)} conversions", [*times, whole]))
    write_drawing(lambda: _figure(panels, title, f"{THESIS}."), paths)


def write_launch_plots(rows: Sequence[launches.Row], *paths: Path, title: str = "") -> None:
    """Draw launches, and write the drawing to each of ``paths``, as `write_box_plots` does with conversions.

    Raises:
        DrawingError: there is nothing to draw, the suffix is another, or the file cannot be written.
    """
    if not rows:
        raise DrawingError("there is nothing to draw yet: no launch has come up")
    panels = []
    for infrastructure in sorted({row.record.infrastructure for row in rows}):
        of_it = [row for row in rows if row.record.infrastructure == infrastructure]
        times = [(phase, launches.times_of(of_it, phase)) for phase in (*LAUNCH_PHASES, "total")]
        panels.append(_panel_of(f"{infrastructure}, {len(of_it)} launches", times))
    write_drawing(lambda: _figure(panels, title, ""), paths)


def _panel_of(title: str, times: Sequence[tuple[str, Sequence[float]]]) -> Panel:
    return Panel(title, [(phase, found) for phase, found in times if found])


def _figure(found: Sequence[Panel], title: str, note: str) -> Figure:
    drawing = figure((1.0 + 5.4 * len(found), 4.6), title)
    panels: Any = drawing.subplots(1, len(found), squeeze=False, sharey=True)
    for axes, each in zip(panels[0], found, strict=True):
        draw_boxes(axes, each, _COLOURS)
        axes.set_xlabel("phase, with its median")
    panels[0][0].set_ylabel("seconds")
    panels[0][0].set_ylim(bottom=0)
    if note:
        drawing.supxlabel(note, fontsize=8, x=0.01, ha="left", wrap=True)
    return drawing
