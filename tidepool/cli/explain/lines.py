"""Lines of text for a person: bars of a fleet's nodes by phase, and conversions in words. Pure, but for `put`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidepool.cli import show
from tidepool.conversion.record import patience_ends
from tidepool.scaling.decision import Phase

if TYPE_CHECKING:
    from tidepool.conversion.record import Conversion, Work


class Cell(NamedTuple):
    """Some text, and rich's name of its style."""

    text: str
    style: str = ""


Line = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Glyphs:
    """A character for each phase, for slots without a node, and for what is cut off: a terminal may know ASCII only."""

    phases: Mapping[Phase, str]
    slot: str
    cut: str


#: How each phase is drawn, in the order within a bar: its style, its character, and that in ASCII.
_DRAWN: Final[Mapping[Phase, tuple[str, str, str]]] = {
    Phase.BUSY: ("green", "█", "#"),
    Phase.IDLE: ("blue", "▒", "="),
    Phase.LAUNCHING: ("cyan", "▲", "+"),
    Phase.DRAINING: ("yellow", "▼", "v"),
    Phase.DRAINED: ("yellow", "▽", "-"),
    Phase.LEAVING: ("yellow", "▽", "-"),
    Phase.SUSPENDED: ("dim", "z", "z"),
    Phase.HELD: ("magenta", "H", "H"),
    Phase.ILL: ("red", "!", "!"),
    Phase.STRAY: ("red", "!", "!"),
    Phase.UNKNOWN: ("dim", "?", "?"),
}
UNICODE: Final = Glyphs({phase: glyph for phase, (_, glyph, _) in _DRAWN.items()}, "·", "…")
ASCII: Final = Glyphs({phase: glyph for phase, (_, _, glyph) in _DRAWN.items()}, ".", "~")


def bar(phases: Mapping[Phase, int], most: int, width: int, glyphs: Glyphs) -> list[tuple[str, str]]:
    """Pieces of text with their styles, ``width`` characters together.

    ``most`` nodes fill it. Of a phase that has any node there is at least one character, as long as there is room.
    """
    there = [(phase, phases.get(phase, 0)) for phase in _DRAWN if phases.get(phase, 0) > 0]
    scale = min(1.0, width / max(most, sum(count for _, count in there), 1))
    pieces, left = [], width
    for place, (phase, count) in enumerate(there):
        # Room is kept for one character of each that follows.
        length = min(max(1, round(count * scale)), max(left - (len(there) - place - 1), 0))
        pieces.append((glyphs.phases[phase] * length, _DRAWN[phase][0]))
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


def give(view: object, lines: Iterable[Line], *, as_json: bool) -> None:
    """Show ``lines`` on standard output, or the ``view`` that they are made of as JSON."""
    if as_json:
        show.emit(show.document(view))
    else:
        put(lines)


def columns() -> int:
    """Return the width of standard output in columns."""
    return int(show.console(sys.stdout).width) if sys.stdout.isatty() else PLAIN_COLUMNS


def glyphs_for(encoding: str | None) -> Glyphs:
    """Return the glyphs that a stream of that encoding can show."""
    return UNICODE if (encoding or "ascii").lower().replace("-", "").startswith("utf") else ASCII


def _printable(text: str) -> str:
    """Replace the characters that move a terminal's cursor: people's own texts may hold some."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


_AT_DEADLINE: Final = {
    "stop": "then it is given up, and the machine stays what it was",
    "force": "then jobs are requeued and pods killed",
}
_PHASES: Final = {
    "asked": "is ordered, and nobody has begun yet",
    "holding": "lets nothing new come",
    "emptying": "waits for its work to end",
    "leaving": "leaves its role",
    "imaging": "is made anew from the image of its new role, and boots",
    "joining": "takes its new role",
    "restoring": "goes back to what it was",
    "done": "is done",
    "stopped": "was given up",
    "failed": "failed: the machine has no role",
}


#: How a conversion may have ended, with rich's and click's style for it.
ENDINGS: Final = {"done": "green", "stopped": "yellow", "failed": "red"}


def moment(at: datetime, now: datetime) -> str:
    """A time with its date and its year, in the zone of ``now``: ``2026-11-22 14:00:00``."""
    return at.astimezone(now.tzinfo).strftime("%Y-%m-%d %H:%M:%S")


def deadline(conversion: Conversion) -> datetime | None:
    """Return when a conversion that waits for work waits no longer; None for one that does not wait."""
    if conversion.order.is_forced or conversion.phase not in ("asked", "holding", "emptying"):
        return None
    return patience_ends(conversion)


def way(conversion: Conversion) -> str:
    """``slurm -> kubernetes``."""
    return f"{conversion.leaves or 'no role'} -> {conversion.order.to}"


def holds(conversion: Conversion) -> Iterator[str]:
    """Yield a line for each job and pod that it waits for; where there is none, its own text."""
    waited = [work for work in conversion.work if work.fate == "runs"]
    for work in waited:
        yield work_words(work)
    if conversion.text and not waited:
        yield conversion.text


def work_words(work: Work) -> str:
    """``pod default/web-0 of ReplicaSet/web: budget web allows no eviction``."""
    owner = f" of {work.owner}" if work.owner else ""
    fate = "" if work.fate == "runs" else f" was {work.fate}" if work.fate != "ended" else " ended"
    return f"{work.title}{owner}{fate}" + (f": {work.text}" if work.text else "")


def what_comes(conversion: Conversion, now: datetime) -> str:
    """``until 2026-11-22 14:00:00; then it is given up, ...``: of one that waits."""
    until = deadline(conversion)
    if until is None:
        return ""
    return f"until {moment(until, now)}; {_AT_DEADLINE[conversion.order.at_deadline]}"


def phase_words(conversion: Conversion) -> str:
    """``waits for its work to end``."""
    if conversion.cancel_by and conversion.is_under_way:
        return f"is cancelled by {conversion.cancel_by}: {_PHASES[conversion.phase]}"
    return _PHASES[conversion.phase]


def phases(conversion: Conversion) -> dict[str, float]:
    """Return the seconds of each phase that it went through, in order, without the present one."""
    marks = sorted(
        ((at, name) for name, at in conversion.began.items() if "/" not in name), key=lambda mark: mark[0]
    )
    ends = [at for at, _ in marks[1:]] + [conversion.ended]
    return {
        name: round((end - at).total_seconds(), 3)
        for (at, name), end in zip(marks, ends, strict=True)
        if end is not None and name not in ENDINGS
    }


def took_s(conversion: Conversion) -> float | None:
    """Return the seconds from the order to the end."""
    return None if conversion.ended is None else (conversion.ended - conversion.order.at).total_seconds()
