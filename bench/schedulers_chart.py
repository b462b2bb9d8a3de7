"""A chart of a campaign that was run twice, beside its page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from bench.schedulers_values import schedulers_of, values_of, workloads_of
from tidepool.charts import FAINT, PALETTE, figure, plain, write_drawing
from tidepool.lab.statistics.figures import Figures
from tidepool.lab.statistics.measure import measure_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What is drawn: a panel each. All are positive, and lie orders of magnitude apart.
DRAWN: Final = ("submit_to_start_seconds", "makespan_seconds", "scheduler_cpu_seconds")
#: Between the rows of two schedulers, in rows of workloads.
_APART: Final = 0.15


def write_chart(runs: Sequence[Figures], path: Path) -> None:
    """Draw both runs: repeats as dots, medians of the first run filled and of the second hollow.

    Raises:
        DrawingError: the file cannot be written, or its suffix is neither .svg nor .png.
    """
    write_drawing(lambda: _figure(runs), [path])


def _figure(runs: Sequence[Figures]) -> Figure:
    from matplotlib.ticker import LogLocator, NullLocator

    schedulers, workloads = schedulers_of(runs[0]), workloads_of(runs[0])
    drawing = figure((3.6 * len(DRAWN) + 1.2, 0.75 * len(workloads) + 1.4), "")
    panels: Any = drawing.subplots(1, len(DRAWN), squeeze=False, sharey=True)
    for axes, measure in zip(panels[0], DRAWN, strict=True):
        values = [values_of(each, measure) for each in runs]
        for at, scheduler in enumerate(schedulers):
            below = (at - (len(schedulers) - 1) / 2) * _APART
            for row, workload in enumerate(workloads):
                own = [each.get((scheduler, workload), []) for each in values]
                _draw(axes, own, row + below, PALETTE[at], scheduler if row == 0 else "")
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(NullLocator())
        known = measure_of(measure)
        axes.set_xlabel(f"{known.label}, {known.unit}")
        axes.set_yticks(range(len(workloads)), workloads)
        plain(axes)
        axes.grid(axis="x", color=FAINT, linewidth=0.6)
    panels[0][0].invert_yaxis()
    drawing.legend(
        *panels[0][0].get_legend_handles_labels(),
        loc="outside upper left",
        ncols=len(schedulers),
        frameon=False,
    )
    return drawing


def _draw(axes: Any, runs: Sequence[Sequence[float]], y: float, colour: str, label: str) -> None:
    for values, face in zip(runs, (colour, "white"), strict=True):
        if values:
            axes.plot(values, [y] * len(values), ".", color=colour, alpha=0.4, markersize=3)
            axes.plot(
                [median(values)],
                [y],
                "o",
                color=colour,
                markerfacecolor=face,
                markersize=5,
                label=label if face == colour else "",
            )
