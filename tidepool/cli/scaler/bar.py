"""A fleet's nodes as a bar: a glyph for each node, or for so many of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidepool.scaling.phase import Phase

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
