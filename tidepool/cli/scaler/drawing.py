"""Lines of cells as rich draws them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidepool.cli.scaler.bar import ASCII, UNICODE, Glyphs
from tidepool.cli.scaler.frame import Line


def drawn(lines: Iterable[Line]) -> Any:
    """The lines, one below the other, for a console or `Live`."""
    from rich.console import Group
    from rich.text import Text

    # As text with styles, so that what people and Slurm write is never taken for markup.
    made = [Text.assemble(*line, no_wrap=True, overflow="crop") for line in lines]
    return Group(*made)


def glyphs_for(encoding: str | None) -> Glyphs:
    """What a stream of that encoding can show."""
    return UNICODE if (encoding or "ascii").lower().replace("-", "").startswith("utf") else ASCII
