"""The chart of a cluster that breathes: jobs waiting and running, nodes by phase, over time. As SVG and as PNG.

Several series are drawn side by side on the same scales, so that they can be compared. The same series give the same
bytes. Colours are Okabe's and Ito's, which people with any kind of colour vision tell apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidepool.charts import DrawingError, figure, plain, write_drawing
from tidepool.scaling.decision import Phase
from tidepool.scaling.ports import Sample

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Beyond these a point is narrower than a pixel: then the highest of each few is drawn.
_MOST_POINTS: Final = 800
_WAITING: Final = "#d55e00"
_RUNNING: Final = "#0072b2"
_COST: Final = "#5b5b5b"
#: From the bottom to the top: what works, what is paid for without working, what is amiss.
_LAYERS: Final[tuple[tuple[str, str, tuple[Phase, ...]], ...]] = (
    ("busy", "#0072b2", (Phase.BUSY,)),
    ("idle", "#56b4e9", (Phase.IDLE,)),
    ("launching", "#009e73", (Phase.LAUNCHING,)),
    ("draining", "#e69f00", (Phase.DRAINING, Phase.DRAINED)),
    ("leaving", "#f0e442", (Phase.LEAVING,)),
    ("somebody's", "#cc79a7", (Phase.HELD,)),
    ("ill", "#d55e00", (Phase.ILL, Phase.STRAY)),
    ("unknown", "#999999", (Phase.UNKNOWN,)),
)
#: The longest span in seconds for which a unit is taken, its seconds, its name.
_UNITS: Final = ((600.0, 1.0, "seconds"), (3 * 3600.0, 60.0, "minutes"), (3 * 86400.0, 3600.0, "hours"))
_DAYS: Final = (86400.0, "days")


@dataclass(frozen=True, slots=True)
class Series:
    """The samples of one cluster, the oldest first, and its name in the chart; each sample holds until the next."""

    name: str
    samples: Sequence[Sample]


def write_chart(series: Sequence[Series], *paths: Path, title: str = "") -> None:
    """Draw ``series`` side by side, and write the chart to each of ``paths``: SVG or PNG, by their suffixes.

    Raises:
        DrawingError: there is nothing to draw, the suffix is another, or the file cannot be written.
    """
    if not series or not all(each.samples for each in series):
        raise DrawingError("there is nothing to draw yet: no look at the cluster is recorded")
    write_drawing(lambda: _figure(series, title), paths)


def _figure(series: Sequence[Series], title: str) -> Figure:
    drawn = [_Points(each.samples) for each in series]
    costs = any(any(points.usd_per_hour) for points in drawn)
    heights = [3.0, 3.0, 1.6][: 2 + costs]
    drawing = figure((3.0 + 6.0 * len(series), 1.6 + sum(heights)), title)
    grid: Any = drawing.subplots(
        len(heights),
        len(series),
        squeeze=False,
        sharey="row",
        sharex=True,
        gridspec_kw={"height_ratios": heights},
    )
    span_s = max(points.seconds[-1] for points in drawn)
    unit_s, unit = next(((s, name) for most, s, name in _UNITS if span_s <= most), _DAYS)
    for column, (each, points) in enumerate(zip(series, drawn, strict=True)):
        axes = grid[:, column]
        elapsed = [second / unit_s for second in points.seconds]
        _jobs(axes[0], elapsed, points)
        _nodes(axes[1], elapsed, points)
        if costs:
            axes[2].step(elapsed, points.usd_per_hour, where="post", color=_COST, linewidth=1.2)
        axes[0].set_title(each.name, loc="left", fontsize=10, fontweight="bold")
        axes[-1].set_xlabel(f"{unit} since {each.samples[0].at:%Y-%m-%d %H:%M:%S} UTC")
        for axis in axes:
            _settle(axis)
            axis.set_xlim(0, max(span_s / unit_s, 1e-9))
    names = ("jobs", "nodes", "US$ an hour")
    for row, name in zip(grid, names, strict=False):
        row[0].set_ylabel(name)
        # Now that all columns are drawn, which share it.
        row[0].set_ylim(bottom=0)
    shown = [
        (name, colour)
        for place, (name, colour, _) in enumerate(_LAYERS)
        if any(any(points.layers[place][2]) for points in drawn)
    ]
    _legend(grid[0, -1], [("waiting", _WAITING), ("running", _RUNNING)])
    _legend(grid[1, -1], shown[::-1])
    return drawing


class _Points:
    """The samples as columns, no more of them than can be seen."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        begin = samples[0].at
        step = -(-len(samples) // _MOST_POINTS)
        groups = [samples[first : first + step] for first in range(0, len(samples), step)]
        self.seconds = [(group[0].at - begin).total_seconds() for group in groups]
        self.waiting = [max(sample.jobs_pending for sample in group) for group in groups]
        self.running = [max(sample.jobs_running for sample in group) for group in groups]
        self.usd_per_hour = [max(sample.usd_per_hour for sample in group) for group in groups]
        # Of nodes one sample is taken, the fullest: the highest of each phase would be more nodes than there were.
        fullest = [max(group, key=lambda sample: sum(sample.nodes.values())) for group in groups]
        self.layers = [
            (name, colour, [sum(sample.nodes.get(phase, 0) for phase in phases) for sample in fullest])
            for name, colour, phases in _LAYERS
        ]
        # The last sample is where it ends.
        end_s = (samples[-1].at - begin).total_seconds()
        if step > 1 and end_s > self.seconds[-1]:
            self.seconds.append(end_s)
            for column in (self.waiting, self.running, *(layer[2] for layer in self.layers)):
                column.append(column[-1])
            self.usd_per_hour.append(self.usd_per_hour[-1])


def _jobs(axes: Axes, elapsed: Sequence[float], points: _Points) -> None:
    for colour, counts in ((_WAITING, points.waiting), (_RUNNING, points.running)):
        axes.fill_between(elapsed, counts, step="post", color=colour, alpha=0.12, linewidth=0)
        axes.step(elapsed, counts, where="post", color=colour, linewidth=1.4)


def _nodes(axes: Axes, elapsed: Sequence[float], points: _Points) -> None:
    bottom = [0] * len(elapsed)
    for _, colour, counts in points.layers:
        if any(counts):
            top = [below + count for below, count in zip(bottom, counts, strict=True)]
            axes.fill_between(elapsed, bottom, top, step="post", color=colour, linewidth=0)
            bottom = top


def _settle(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    plain(axes)
    axes.margins(x=0)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, min_n_ticks=2, integer=True))


def _legend(axes: Axes, entries: Sequence[tuple[str, str]]) -> None:
    from matplotlib.patches import Patch

    if entries:
        axes.legend(
            handles=[Patch(color=colour, label=name) for name, colour in entries],
            loc="upper left",
            bbox_to_anchor=(1.01, 1.0),
            frameon=False,
            borderaxespad=0,
        )
