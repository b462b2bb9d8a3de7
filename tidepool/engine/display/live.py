"""The display on a terminal: rows that follow what happens, and at the end those that changed something.

A picture's cost depends on the size of the screen, never on how many resources there are: rows that are under
way and failed ones come first, then those that ended last, and a count stands for the rest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import IO, Final, TypeAlias

from tidepool.engine.display import markup, rows
from tidepool.engine.display.board import Board, cancelling_notice, configuration, ending
from tidepool.engine.display.rows import Row
from tidepool.engine.display.settings import Settings
from tidepool.engine.events import Event, Prelude, Stdout

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


#: The terminal's width and height, in cells.
Size: TypeAlias = Callable[[], tuple[int, int]]

#: Between two drawings at least: more often than that nobody sees.
FRAME_S: Final = 0.1


class LiveDisplay:
    """Draws on ``stdout``, at most ten times a second.

    ``clock`` gives seconds, from any beginning. :meth:`tick`, called several times a second, keeps
    spinners and elapsed times moving while there are no events.
    """

    def __init__(
        self, stdout: IO[str], settings: Settings, clock: Callable[[], float], size: Size | None = None
    ) -> None:
        self._settings = settings
        self._board = Board(settings, clock)
        self._frame = Frame(stdout, settings.color)
        self._clock = clock
        self._size = size or (lambda: _terminal_size(stdout))
        self._unicode = "utf" in (getattr(stdout, "encoding", None) or "").lower()
        self._drawn: float | None = None
        self._begun = False
        self._cancelling = False
        #: How often the rows were drawn.
        self.drawings = 0

    def event(self, event: Event) -> None:
        """Take ``event`` in, and draw when it is time to."""
        self._begin()
        match event:
            case Prelude():
                if self._settings.show_config:
                    self._print_above(configuration(event).split("\n"))
            case Stdout():
                self._print_above(event.message.removesuffix("\n").split("\n"))
            case _:
                self._board.event(event)
        self.tick()

    def tick(self) -> None:
        """Draw when it is time to."""
        now = self._clock()
        due = self._drawn is None or now - self._drawn >= FRAME_S
        if due and self._begun and not self._settings.suppress_progress:
            self._draw(now)

    def cancelling(self) -> None:
        """Tell that the person's wish to end was heard."""
        self._cancelling = True
        if self._begun:
            self._draw(self._clock())

    def close(self) -> None:
        """Replace the rows by those that changed something, diagnostics, outputs and summary."""
        self._begin()
        board = self._board
        board.end()
        width, _ = self._size()
        table = table_of_changes(board, self._unicode)
        rows = [crop(line, width - 1) for line in draw_table(table, self._settings, width)]
        try:
            self._print_above([*rows, "", *ending(board)])
        finally:
            self._frame.end()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._print_above(
                [f"{markup.HEADLINE}{self._settings.label} ({self._settings.stack}):{markup.RESET}"]
            )

    def _draw(self, now: float) -> None:
        width, height = self._size()
        lines = moment(
            self._board,
            width=width,
            height=height,
            beat=self.drawings,
            unicode=self._unicode,
            cancelling=self._cancelling,
        )
        self._drawn = now
        self.drawings += 1
        self._frame.draw(lines, width)

    def _print_above(self, lines: list[str]) -> None:
        self._frame.print_above(lines, self._size()[0])


def _terminal_size(stdout: IO[str]) -> tuple[int, int]:
    """Asked anew for every drawing, so that a resized terminal needs no signal."""
    try:
        size = os.get_terminal_size(stdout.fileno())
    except OSError:
        return 80, 24
    return size.columns or 80, size.lines or 24


_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ASCII_SPINNER: Final = "|/-\\"
# Of the screen, at most this part for failures: what is under way is worth seeing too.
_FAILED_SHARE: Final = 2
_WIDEST_TYPE: Final = 48
_WIDEST_NAME: Final = 40


@dataclass(frozen=True, slots=True)
class Branches:
    """The characters that a tree is drawn with."""

    middle: str
    last: str
    through: str

    @property
    def below_last(self) -> str:
        """The blanks below the last branch."""
        return " " * len(self.last)


LINES: Final = Branches("├─ ", "└─ ", "│  ")
ASCII_LINES: Final = Branches("|- ", "`- ", "|  ")


@dataclass(frozen=True, slots=True)
class Line:
    """A row with its place in the tree, drawn as ``branch``."""

    row: Row
    branch: str


def moment(board: Board, *, width: int, height: int, beat: int, unicode: bool, cancelling: bool) -> list[str]:
    """The lines of a screen of ``width`` by ``height`` cells, marked up; ``beat`` turns the spinners."""
    notices = _notices(board, cancelling)
    # One line each for the header, the count of the rest, and the cursor. One more is left as it is: some
    # terminals (tmux) keep what they erase when all of their screen is erased.
    chosen = choose(board, max(1, height - 4 - len(notices)))
    frames = _SPINNER if unicode else _ASCII_SPINNER
    spinner = frames[beat % len(frames)]
    lines = list(tree(chosen, board, LINES if unicode else ASCII_LINES))
    table = [_cells(line, board, f"{spinner} ") for line in lines]
    drawn = draw_table(table, board.settings, width)
    rest = _rest(board, chosen)
    return drawn + ([rest] if rest else []) + notices


def choose(board: Board, room: int) -> list[Row]:
    """At most ``room`` rows, with their parents, those that matter most."""
    chosen: dict[str, Row] = {board.root.urn: board.root}
    failed = islice(reversed(board.failed.values()), max(1, room // _FAILED_SHARE))
    candidates = chain(failed, board.running.values(), reversed(board.done.values()), board.failed.values())
    for row in islice(candidates, 3 * room):
        if len(chosen) >= room:
            break
        line = list(_with_parents(row, board, chosen))
        if len(chosen) + len(line) <= room:
            chosen.update((r.urn, r) for r in line)
    return list(chosen.values())


def tree(chosen: Sequence[Row], board: Board, branches: Branches) -> Iterator[Line]:
    """The rows, parents above their children, each child with its branch."""
    root = board.root
    known = {row.urn for row in chosen}
    children: dict[str, list[Row]] = {}
    for row in chosen:
        if row is not root:
            parent = row.parent if row.parent in known else root.urn
            children.setdefault(parent, []).append(row)
    # A stack instead of recursion: nothing limits how deep a program nests.
    waiting: list[tuple[Row, str, str]] = [(root, "", "")]
    while waiting:
        row, branch, below = waiting.pop()
        yield Line(row, branch)
        inner = sorted(children.get(row.urn, ()), key=lambda r: r.order)
        for child in reversed(inner):
            if child is inner[-1]:
                waiting.append((child, below + branches.last, below + branches.below_last))
            else:
                waiting.append((child, below + branches.middle, below + branches.through))


def table_of_changes(board: Board, unicode: bool) -> list[list[str]]:
    """The cells of all rows that changed, for the end: what stays on the terminal."""
    chosen: dict[str, Row] = {board.root.urn: board.root}
    for row in board.rows.values():
        if not row.hidden:
            chosen.update((r.urn, r) for r in _with_parents(row, board, chosen))
    return [
        _cells(line, board, "")
        for line in tree(list(chosen.values()), board, LINES if unicode else ASCII_LINES)
    ]


def draw_table(table: list[list[str]], settings: Settings, width: int) -> list[str]:
    """A header and the rows of ``table``, in columns."""
    header = ["  ", "URN"] if settings.show_urns else ["  ", "Type", "Name"]
    header += ["Plan" if settings.is_preview else "Status", "Info"]
    if not any(row[-1] for row in table):
        header[-1] = ""
    widest = [2] + ([width] if settings.show_urns else [_WIDEST_TYPE, _WIDEST_NAME])
    # Status and information take what is left.
    widest += [width] * (len(header) - len(widest))
    widths = [
        min(limit, max(cells(markup.plain(row[i])) for row in [header, *table]))
        for i, limit in enumerate(widest)
    ]
    headed = [f"{markup.UNDERLINE}{markup.BRIGHT_BLUE}{h}{markup.RESET}" if h.strip() else h for h in header]
    lines = []
    for row in [headed, *table]:
        padded = [fill(cell, w) for cell, w in zip(row[:-1], widths, strict=False)]
        lines.append((" " + "  ".join([*padded, row[-1]])).rstrip())
    return lines


def _cells(line: Line, board: Board, spinner: str) -> list[str]:
    row, settings = line.row, board.settings
    pieces = [rows.changed_keys(row, settings)]
    if board.all_done:
        pieces += rows.message_counts(row)
    else:
        said = row.last_error or row.last
        if said is not None:
            pieces.append(rows.first_line(rows.message(said)).replace("\t", " "))
    op = board.shown_op(row, steps_of_replacements=False)
    info = "; ".join(piece for piece in pieces if piece)
    result = rows.columns(row, settings, all_done=board.all_done, now=board.now(), info=info, op=op)
    result[1] = line.branch + result[1]
    if result[-2] and not row.is_done(board.all_done):
        result[-2] = spinner + result[-2]
    return result


def _with_parents(row: Row, board: Board, chosen: dict[str, Row]) -> Iterator[Row]:
    """``row`` and its parents that were not ``chosen`` yet."""
    seen: set[str] = set()
    current: Row | None = row
    while current is not None and current.urn not in chosen and current.urn not in seen:
        seen.add(current.urn)
        yield current
        current = board.rows.get(current.parent) if current.parent else None


def _rest(board: Board, chosen: list[Row]) -> str:
    """Count what has no row on the screen, in a line."""
    shown = {row.urn for row in chosen}
    counts = (
        (len(board.failed) - sum(urn in board.failed for urn in shown), "more failed"),
        (len(board.running) - sum(urn in board.running for urn in shown), "more under way"),
        (len(board.done) - sum(urn in board.done for urn in shown), "more done"),
        (len(board.unchanged), "unchanged"),
    )
    texts = [f"{count} {what}" for count, what in counts if count > 0]
    return f"     {markup.BRIGHT_BLACK}... and {', '.join(texts)}{markup.RESET}" if texts else ""


def _notices(board: Board, cancelling: bool) -> list[str]:
    if not cancelling:
        return []
    return [f"{markup.YELLOW}{cancelling_notice(board.operations_under_way())}{markup.RESET}"]
