"""Charts: drawings of matplotlib, written as SVG and as PNG, all in one hand. The same drawing gives the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FORMATS: Final = (".svg", ".png")
INK: Final = "#2b2b2b"
FAINT: Final = "#d9d9d9"
#: Okabe's and Ito's, which people with any kind of colour vision tell apart; neighbours differ in lightness as well.
PALETTE: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999")
#: In inches: between panels that are stacked, where titles are; below them, where the scale is; to the right.
_PANEL_GAP: Final = 0.32
_BELOW: Final = 0.5
_RIGHT: Final = 0.15
SETTINGS: Final[Any] = {
    "svg.hashsalt": "tidepool",
    "svg.fonttype": "path",
    "font.family": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


class DrawingError(Exception):
    """A drawing cannot be made or written. The text is for a person."""


def figure(size: tuple[float, float], title: str, *, is_placed: bool = False) -> Figure:
    """Return an empty drawing of that size in inches. Its panels have the place that they need, or ``is_placed``: the caller places them.

    To find out what they need, all texts are measured three times: most of the time that a drawing of many panels takes.
    """
    from matplotlib.figure import Figure

    made = Figure(figsize=size, layout=None if is_placed else "constrained", facecolor="white")
    if title:
        made.suptitle(title, fontsize=12, fontweight="bold", x=0.01, ha="left")
    return made


def stacked(
    size: tuple[float, float], heights: Sequence[float], title: str, left: float
) -> tuple[Figure, Sequence[Axes]]:
    """Return a drawing with panels below each other on one scale across, of these ``heights`` in inches, and room for their titles.

    ``size`` is its width, and what is above the first panel; ``left`` the room for labels. All in inches.
    """
    width, top = size
    whole = top + sum(heights) + _PANEL_GAP * (len(heights) - 1) + _BELOW
    made = figure((width, whole), title, is_placed=True)
    axes: list[Axes] = []
    bottom = whole - top
    for height in heights:
        bottom -= height
        place = (left / width, bottom / whole, (width - left - _RIGHT) / width, height / whole)
        axes.append(made.add_axes(place, sharex=axes[0] if axes else None))
        bottom -= _PANEL_GAP
    for each in axes[:-1]:
        each.tick_params(labelbottom=False)
    return made, axes


def plain(axes: Axes) -> None:
    """Leave nothing of a panel's frame but faint lines behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)


def write_drawing(draw: Callable[[], Figure], paths: Sequence[Path]) -> None:
    """Draw, and write it to each of ``paths`` in the format of its suffix.

    Raises:
        DrawingError: a file cannot be written, or its suffix is of another format.
    """
    if wrong := [path for path in paths if path.suffix.lower() not in _FORMATS]:
        raise DrawingError(
            f"{wrong[0]}: drawings are written as {' or '.join(_FORMATS)}; give it one of these suffixes"
        )
    import matplotlib

    with matplotlib.rc_context(SETTINGS):
        figure = draw()
        for path in paths:
            kind = path.suffix.lower()[1:]
            # Without the date, and without the version of what drew it.
            unsaid = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
            try:
                figure.savefig(path, format=kind, dpi=160, metadata=unsaid)
            except OSError as error:
                raise DrawingError(f"{path} cannot be written: {error.strerror or error}") from error
