"""The chart of simulated nodes: jobs a second above, seconds to start below, by nodes, a column for each length of the queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tidepool.charts import DrawingError, write_drawing
from tidepool.charts.curves import CurvePanel, Spot, curves_figure
from tidepool.lab.scale.summary import Point
from tidepool.lab.statistics.intervals import Interval

#: Okabe's and Ito's, which people with any kind of colour vision tell apart.
_COLOURS: Final = {
    "slurm": "#0072b2",
    "slurm-defaults": "#56b4e9",
    "kubernetes": "#d55e00",
    "kubernetes-defaults": "#e69f00",
    "volcano": "#009e73",
}


def write_chart(points: Sequence[Point], *paths: Path, title: str = "") -> None:
    """Draw the points, and write the chart to each of ``paths``: SVG or PNG.

    Raises:
        DrawingError: there is nothing to draw, the suffix is another, or a file cannot be written.
    """
    if not points:
        raise DrawingError("there is nothing to draw: nothing was measured")
    queues = sorted({each.pending for each in points})
    rows = (
        [_panel(points, queue, "jobs/s to started", lambda each: each.started_per_s) for queue in queues],
        [_panel(points, queue, "seconds to start", lambda each: each.wait_s) for queue in queues],
    )
    write_drawing(lambda: curves_figure(rows, "simulated nodes", _COLOURS, title), paths)


def _panel(points: Sequence[Point], queue: int, unit: str, value: Callable[[Point], Interval]) -> CurvePanel:
    names = dict.fromkeys(each.scheduler for each in points)
    curves = {
        name: [
            _spot(each.nodes, value(each))
            for each in points
            if each.scheduler == name and each.pending == queue
        ]
        for name in names
    }
    return CurvePanel(f"{queue:,} pending", unit, curves)


def _spot(nodes: int, interval: Interval) -> Spot:
    middle = interval.median
    low = middle if interval.low is None else interval.low
    high = middle if interval.high is None else interval.high
    return Spot(nodes, middle, low, high)
