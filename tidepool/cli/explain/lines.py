"""A fleet's nodes as a bar: a glyph for each node, or for so many of them. Pure."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tidepool.cli import show
from tidepool.scaling.decision import Phase


class Cell(NamedTuple):
    """Some text, and rich's name of its style."""

    text: str
    style: str = ""


Line = tuple[Cell, ...]


_STYLES: Final[Mapping[Phase, str]] = {
    Phase.BUSY: "green",
    Phase.IDLE: "blue",
    Phase.LAUNCHING: "cyan",
    Phase.DRAINING: "yellow",
    Phase.DRAINED: "yellow",
    Phase.LEAVING: "yellow",
    Phase.HELD: "magenta",
    Phase.ILL: "red",
    Phase.STRAY: "red",
    Phase.UNKNOWN: "dim",
}


@dataclass(frozen=True, slots=True)
class Glyphs:
    """A character for each phase, for slots without a node, and for what is cut off: a terminal may know ASCII only."""

    phases: Mapping[Phase, str]
    slot: str
    cut: str


UNICODE: Final = Glyphs(
    {
        Phase.BUSY: "█",
        Phase.IDLE: "▒",
        Phase.LAUNCHING: "▲",
        Phase.DRAINING: "▼",
        Phase.DRAINED: "▽",
        Phase.LEAVING: "▽",
        Phase.HELD: "H",
        Phase.ILL: "!",
        Phase.STRAY: "!",
        Phase.UNKNOWN: "?",
    },
    "·",
    "…",
)
ASCII: Final = Glyphs(
    {
        **UNICODE.phases,
        Phase.BUSY: "#",
        Phase.IDLE: "=",
        Phase.LAUNCHING: "+",
        Phase.DRAINING: "v",
        Phase.DRAINED: "-",
        Phase.LEAVING: "-",
    },
    ".",
    "~",
)


def bar(phases: Mapping[Phase, int], most: int, width: int, glyphs: Glyphs) -> list[tuple[str, str]]:
    """Pieces of text with their styles, ``width`` characters together.

    ``most`` nodes fill it. Of a phase that has any node there is at least one character, as long as there is room.
    """
    there = [(phase, phases.get(phase, 0)) for phase in _STYLES if phases.get(phase, 0) > 0]
    scale = min(1.0, width / max(most, sum(count for _, count in there), 1))
    pieces, left = [], width
    for place, (phase, count) in enumerate(there):
        # Room is kept for one character of each that follows.
        length = min(max(1, round(count * scale)), max(left - (len(there) - place - 1), 0))
        pieces.append((glyphs.phases[phase] * length, _STYLES[phase]))
        left -= length
    slots = min(left, max(round((most - sum(count for _, count in there)) * scale), 0))
    pieces.append((glyphs.slot * slots, "dim"))
    pieces.append((" " * (left - slots), ""))
    return [piece for piece in pieces if piece[0]]


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
    """Return the width of standard output in columns."""
    return int(show.console(sys.stdout).width) if sys.stdout.isatty() else PLAIN_COLUMNS


def glyphs_for(encoding: str | None) -> Glyphs:
    """Return the glyphs that a stream of that encoding can show."""
    return UNICODE if (encoding or "ascii").lower().replace("-", "").startswith("utf") else ASCII


def _printable(text: str) -> str:
    """Replace the characters that move a terminal's cursor: people's own texts may hold some."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
