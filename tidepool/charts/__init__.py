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
_SETTINGS: Final[Any] = {
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


def figure(size: tuple[float, float], title: str) -> Figure:
    """Return an empty drawing of that size in inches."""
    from matplotlib.figure import Figure

    made = Figure(figsize=size, layout="constrained", facecolor="white")
    if title:
        made.suptitle(title, fontsize=12, fontweight="bold", x=0.01, ha="left")
    return made


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

    with matplotlib.rc_context(_SETTINGS):
        figure = draw()
        for path in paths:
            kind = path.suffix.lower()[1:]
            # Without the date, and without the version of what drew it.
            unsaid = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
            try:
                figure.savefig(path, format=kind, dpi=160, metadata=unsaid)
            except OSError as error:
                raise DrawingError(f"{path} cannot be written: {error.strerror or error}") from error
