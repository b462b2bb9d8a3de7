"""Lines of cells on a terminal, as rich draws them, or as plain text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Final

from tidepool.cli import show
from tidepool.cli.scaler.bar import ASCII, UNICODE, Glyphs
from tidepool.cli.scaler.frame import Line

#: How wide a frame is that no terminal limits.
PLAIN_COLUMNS: Final = 160


def drawn(lines: Iterable[Line], *, whole: bool = False) -> Any:
    """The lines, one below the other, for a console or `Live`; those that are ``whole`` go on in the next line."""
    from rich.console import Group
    from rich.text import Text

    # As text with styles, so that what people and Slurm write is never taken for markup.
    cells = [[(_printable(cell.text), cell.style) for cell in line] for line in lines]
    return Group(
        *(Text.assemble(*line, no_wrap=not whole, overflow="fold" if whole else "crop") for line in cells)
    )


def put(lines: Iterable[Line]) -> None:
    """The lines on standard output: in color on a terminal, whole and plain elsewhere."""
    if sys.stdout.isatty():
        show.console(sys.stdout).print(drawn(lines, whole=True))
        return
    for line in lines:
        show.say("".join(_printable(cell.text) for cell in line).rstrip())


def columns() -> int:
    """How wide standard output is."""
    return int(show.console(sys.stdout).width) if sys.stdout.isatty() else PLAIN_COLUMNS


def glyphs_for(encoding: str | None) -> Glyphs:
    """What a stream of that encoding can show."""
    return UNICODE if (encoding or "ascii").lower().replace("-", "").startswith("utf") else ASCII


def _printable(text: str) -> str:
    """What people wrote may hold what moves a terminal's cursor."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
