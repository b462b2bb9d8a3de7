"""A block of lines at the end of a terminal's text that is drawn again and again in its place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import IO, Final

from tidepool.engine.display import markup

_HIDE_CURSOR: Final = "\x1b[?25l"
_SHOW_CURSOR: Final = "\x1b[?25h"
_CLEAR_LINE: Final = "\x1b[K"
_CLEAR_BELOW: Final = "\x1b[J"
_PIECE: Final = re.compile(r"(<\{%.*?%\}>)")


class Frame:
    """The block. Text that is to stay is written above it with :meth:`print_above`."""

    def __init__(self, stdout: IO[str], color: bool) -> None:
        self._stdout = stdout
        self._color = color
        self._widths: list[int] = []
        self._begun = False

    def draw(self, lines: Iterable[str], width: int) -> None:
        """Draw ``lines`` (marked up) in place of those drawn before, on a terminal ``width`` cells wide."""
        cropped = [crop(line, width - 1) for line in lines]
        text = [self._home(width)]
        if not self._begun:
            self._begun = True
            text.append(_HIDE_CURSOR)
        text += [f"{markup.render(line, self._color)}{_CLEAR_LINE}\n" for line in cropped]
        text.append(_CLEAR_BELOW)
        self._widths = [cells(markup.plain(line)) for line in cropped]
        self._stdout.write("".join(text))
        self._stdout.flush()

    def print_above(self, lines: Iterable[str], width: int) -> None:
        """Write ``lines`` where the block was, to stay; the block is gone until it is drawn again."""
        text = [self._home(width), _CLEAR_BELOW if self._widths else ""]
        text += [markup.render(line, self._color) + "\n" for line in lines]
        self._widths = []
        self._stdout.write("".join(text))
        self._stdout.flush()

    def end(self) -> None:
        """Give the cursor back."""
        if self._begun:
            self._begun = False
            self._stdout.write(_SHOW_CURSOR)
        self._stdout.flush()

    def _home(self, width: int) -> str:
        """To the block's beginning. Terminals that became narrower have wrapped its lines by now."""
        height = sum(max(1, -(-w // max(width, 1))) for w in self._widths)
        return f"\r\x1b[{height}A" if height else "\r" if self._begun else ""


def crop(text: str, width: int) -> str:
    """Marked-up ``text``, cut where it would be wider than ``width`` cells."""
    if cells(markup.plain(text)) <= width:
        return text
    left, pieces = max(width, 0), []
    for piece in _PIECE.split(text):
        if piece.startswith("<{%"):
            pieces.append(piece)
            continue
        if cells(piece) > left:
            pieces.append(_cut(piece, left))
            break
        left -= cells(piece)
        pieces.append(piece)
    return "".join(pieces) + markup.RESET


def fill(text: str, width: int) -> str:
    """Marked-up ``text``, cropped or filled up with blanks to ``width`` cells."""
    text = crop(text, width)
    return text + " " * (width - cells(markup.plain(text)))


def cells(text: str) -> int:
    """Count the terminal cells that ``text`` takes; it has no markup."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # late: only names beyond ASCII need its tables

    return cell_len(text)


def _cut(text: str, width: int) -> str:
    while cells(text) > width:
        text = text[: min(len(text) - 1, max(width, 0))] if text.isascii() else text[:-1]
    return text
