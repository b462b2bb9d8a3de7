"""Box plots: panels of boxes, each of the values of one name, with every value as a dot where there are few.

A box holds the middle half of the values, its line is the median, whiskers reach to what is within 1.5 boxes of it,
and circles are the others, where not all values are dots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from tidepool.charts import INK, figure, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Of more values than these, the box says it better than dots.
_FEW: Final = 30
#: Values that are farther apart than this are drawn by their order of magnitude.
_FAR: Final = 50.0
_MANY_LETTERS: Final = 7
#: From here on a scale says thousands and millions by letters.
_LONG_NUMBERS: Final = 10_000.0
#: In inches: a panel, what is between two across and down; of these what is to the right, and the names below; the title's.
_WIDTH: Final = 2.8
_HEIGHT: Final = 1.9
_ACROSS: Final = 0.62
_DOWN: Final = 0.85
_RIGHT: Final = 0.08
_LABELS: Final = 0.5
_TITLE: Final = 0.3


@dataclass(frozen=True, slots=True)
class Panel:
    """One measure: its title with the unit, and values by name, at least one for each."""

    title: str
    values: Sequence[tuple[str, Sequence[float]]]


def boxes_figure(
    panels: Sequence[Panel], colours: Mapping[str, str], columns: int = 3, title: str = ""
) -> Figure:
    """Return ``panels`` in rows of so many ``columns``, each by a scale of its own, its boxes in the ``colours`` of their names."""
    from matplotlib.ticker import EngFormatter

    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    top = _TITLE if title else 0.0
    width, height = columns * (_WIDTH + _ACROSS), rows * (_HEIGHT + _DOWN) + top
    drawing = figure((width, height), title, is_placed=True)
    grid: Any = drawing.subplots(rows, columns, squeeze=False)
    drawing.subplots_adjust(
        left=(_ACROSS - _RIGHT) / width,
        right=1 - _RIGHT / width,
        bottom=_LABELS / height,
        top=1 - (_DOWN - _LABELS + top) / height,
        wspace=_ACROSS / _WIDTH,
        hspace=_DOWN / _HEIGHT,
    )
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    for axes, panel in zip(grid.flat, panels, strict=False):
        draw_boxes(axes, panel, colours)
        values = [value for _, found in panel.values for value in found]
        is_far = min(values) > 0 and max(values) > _FAR * min(values)
        axes.set_yscale("log" if is_far else "linear")
        # Room for the medians, which stand above.
        axes.margins(y=0.15)
        if min(values) >= 0 and not is_far:
            axes.set_ylim(bottom=0)
        if max(map(abs, values)) >= _LONG_NUMBERS:
            axes.yaxis.set_major_formatter(EngFormatter(sep=""))
        if any(len(name) > _MANY_LETTERS for name, _ in panel.values) and len(panel.values) > 3:
            axes.tick_params(axis="x", rotation=25)
    return drawing


def draw_boxes(axes: Axes, panel: Panel, colours: Mapping[str, str]) -> None:
    """Draw ``panel``, with the median of each name above its values."""
    drawn = axes.boxplot(
        [values for _, values in panel.values],
        tick_labels=[name for name, _ in panel.values],
        patch_artist=True,
        widths=0.6,
        medianprops={"color": INK, "linewidth": 1.4},
        whiskerprops={"color": INK, "linewidth": 0.8},
        capprops={"color": INK, "linewidth": 0.8},
        # Where each value is a dot, those are.
        showfliers=any(len(values) > _FEW for _, values in panel.values),
        flierprops={"marker": "o", "markersize": 3, "markerfacecolor": "none", "markeredgecolor": INK},
    )
    for place, (box, (name, values)) in enumerate(zip(drawn["boxes"], panel.values, strict=True), 1):
        box.set(facecolor=colours[name], edgecolor=INK, linewidth=0.8)
        if len(values) <= _FEW:
            # Beside each other by their order, so that those that are alike are seen, and the same values give the same bytes.
            places = [place - 0.18 + 0.36 * (at + 0.5) / len(values) for at in range(len(values))]
            axes.plot(places, values, "o", color=INK, markersize=2, alpha=0.7, linestyle="none")
        axes.annotate(
            _written(median(values)),
            (place, max(values)),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    axes.set_title(panel.title, loc="left", fontsize=9.5, fontweight="bold")
    plain(axes)


def _written(value: float) -> str:
    """A figure with three digits that say something."""
    from matplotlib.ticker import EngFormatter

    return f"{value:.2f}" if 0.1 <= abs(value) < 1000 or value == 0 else EngFormatter(places=1, sep="")(value)
