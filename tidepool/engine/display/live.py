"""The display on a terminal: rows that follow what happens, and at the end those that changed something.

A picture's cost depends on the size of the screen, never on how many resources there are: rows that are under
way and failed ones come first, then those that ended last, and a count stands for the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import IO, Final, TypeAlias

from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType, Segment, SegmentLines
from rich.style import Style

from tidepool.engine.display import markup, rows
from tidepool.engine.display.board import Board, cancelling_notice, configuration, ending
from tidepool.engine.display.rows import Row
from tidepool.engine.display.settings import Settings
from tidepool.engine.events import Event, Prelude, Stdout

#: The terminal's width and height, in cells.
Size: TypeAlias = Callable[[], tuple[int, int]]
#: A line, or a cell of a table, with its colours.
Segments: TypeAlias = list[Segment]

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
        self._stdout = stdout
        self._settings = settings
        self._board = Board(settings, clock)
        self._clock = clock
        self._size = size or (lambda: _terminal_size(stdout))
        self._unicode = "utf" in (getattr(stdout, "encoding", None) or "").lower()
        self._terminal = _Terminal(
            file=stdout,
            color_system="256" if settings.color else None,
            force_terminal=True,
            force_interactive=True,
            no_color=False,  # the settings have it already
        )
        self._live = Live(
            console=self._terminal, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._widths: list[int] = []
        self._drawn: float | None = None
        self._cancelling = False
        #: How often the rows were drawn.
        self.drawings = 0

    def event(self, event: Event) -> None:
        """Take ``event`` in, and draw when it is time to."""
        self._begin()
        match event:
            case Prelude():
                if self._settings.show_config:
                    self._print_above(configuration(event))
            case Stdout():
                self._print_above(event.message.removesuffix("\n"))
            case _:
                self._board.event(event)
        self.tick()

    def tick(self) -> None:
        due = self._drawn is None or self._clock() - self._drawn >= FRAME_S
        if due and self._live.is_started and not self._settings.suppress_progress:
            self._draw()

    def cancelling(self) -> None:
        self._cancelling = True
        if self._live.is_started:
            self._draw()

    def close(self) -> None:
        """Replace the rows by those that changed something, diagnostics, outputs and summary."""
        self._begin()
        self._board.end()
        self._fit()
        try:
            table = table_of_changes(self._board, self._unicode)
            self._live.update(SegmentLines(draw_table(table, self._settings), new_lines=True))
        finally:
            self._live.stop()
        for line in ("", *ending(self._board)):
            self._stdout.write(markup.render(line, self._settings.color) + "\n")
        self._stdout.flush()

    def _begin(self) -> None:
        if not self._live.is_started:
            self._live.start()
            self._print_above(self._settings.headline)

    def _draw(self) -> None:
        self._fit()
        lines = moment(
            self._board,
            height=self._terminal.height,
            beat=self.drawings,
            unicode=self._unicode,
            cancelling=self._cancelling,
        )
        self._widths = [min(Segment.get_line_length(line), self._terminal.width) for line in lines]
        self._drawn = self._clock()
        self.drawings += 1
        self._live.update(SegmentLines(lines, new_lines=True), refresh=True)

    def _print_above(self, text: str) -> None:
        self._fit()
        self._terminal.out(markup.render(text, self._settings.color), highlight=False)

    def _fit(self) -> None:
        """Take the terminal's size, and clear what a narrower one has wrapped: rich counts a line as one."""
        self._terminal.size = width, _ = self._size()
        wrapped = sum((w - 1) // width for w in self._widths if w)
        if wrapped:
            self._widths = []
            above = [(ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)] * wrapped
            self._terminal.control(
                Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2), *above)
            )


class _Terminal(Console):
    def on_broken_pipe(self) -> None:
        """Leave the process alone, which rich would end: the operation goes on without its display."""
        raise BrokenPipeError("nobody reads it")


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


#: A tree's branches: above another one, the last one, and one that passes by.
LINES: Final = "├─ ", "└─ ", "│  "
ASCII_LINES: Final = "|- ", "`- ", "|  "


def moment(board: Board, *, height: int, beat: int, unicode: bool, cancelling: bool) -> list[Segments]:
    """The lines of a screen ``height`` cells high; ``beat`` turns the spinners."""
    notices = []
    if cancelling:
        notices.append(f"{markup.YELLOW}{cancelling_notice(board.operations_under_way())}{markup.RESET}")
    # One line each for the header, the count of the rest, and the cursor. One more is left as it is: some
    # terminals (tmux) keep what they erase when all of their screen is erased.
    chosen = choose(board, max(1, height - 4 - len(notices)))
    frames = _SPINNER if unicode else _ASCII_SPINNER
    table = _table(chosen, board, unicode, f"{frames[beat % len(frames)]} ")
    below = [*_rest(board, chosen), *notices]
    return draw_table(table, board.settings) + [segments(line) for line in below]


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


def tree(chosen: Sequence[Row], board: Board, unicode: bool) -> Iterator[tuple[Row, str]]:
    """The rows, parents above their children, each with its branch."""
    middle, last, through = LINES if unicode else ASCII_LINES
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
        yield row, branch
        inner = sorted(children.get(row.urn, ()), key=lambda r: r.order)
        for child in reversed(inner):
            if child is inner[-1]:
                waiting.append((child, below + last, below + " " * len(last)))
            else:
                waiting.append((child, below + middle, below + through))


def table_of_changes(board: Board, unicode: bool) -> list[list[str]]:
    """The cells of all rows that changed, for the end: what stays on the terminal."""
    chosen: dict[str, Row] = {board.root.urn: board.root}
    for row in board.rows.values():
        if not row.hidden:
            chosen.update((r.urn, r) for r in _with_parents(row, board, chosen))
    return _table(list(chosen.values()), board, unicode, "")


def draw_table(table: list[list[str]], settings: Settings) -> list[Segments]:
    """A header and the rows of ``table``, in columns. Cells are marked up."""
    header = ["  ", "URN"] if settings.show_urns else ["  ", "Type", "Name"]
    header += ["Plan" if settings.is_preview else "Status", "Info"]
    if not any(row[-1] for row in table):
        header[-1] = ""
    headed = [f"{markup.UNDERLINE}{markup.BRIGHT_BLUE}{h}{markup.RESET}" if h.strip() else h for h in header]
    drawn = [[segments(cell) for cell in row] for row in (headed, *table)]
    widths = [max(map(Segment.get_line_length, column)) for column in zip(*drawn, strict=True)]
    if not settings.show_urns:
        # Status and information take what is left.
        widths[1:3] = min(widths[1], _WIDEST_TYPE), min(widths[2], _WIDEST_NAME)
    lines = []
    for cells in drawn:
        line = [Segment(" ")]
        while not cells[-1]:
            cells.pop()  # nothing need be blank at a line's end
        for cell, width in zip(cells[:-1], widths, strict=False):
            line += [*Segment.adjust_line_length(cell, width), Segment("  ")]
        lines.append(line + Segment.adjust_line_length(cells[-1], widths[len(cells) - 1], pad=False))
    return lines


def segments(text: str) -> Segments:
    """Return marked-up ``text`` as rich has it."""
    directives, found = "", []
    for piece in markup.PIECES.split(text):
        if piece.startswith("<{%"):
            directives = "" if piece == markup.RESET else directives + piece
        elif piece:
            found.append(Segment(piece, _style(directives)))
    return found


@lru_cache
def _style(directives: str) -> Style:
    decoder = AnsiDecoder()
    decoder.decode_line(markup.render(directives, color=True))
    return decoder.style


def _table(chosen: list[Row], board: Board, unicode: bool, spinner: str) -> list[list[str]]:
    return [_cells(row, branch, board, spinner) for row, branch in tree(chosen, board, unicode)]


def _cells(row: Row, branch: str, board: Board, spinner: str) -> list[str]:
    settings = board.settings
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
    result[1] = branch + result[1]
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


def _rest(board: Board, chosen: list[Row]) -> Iterator[str]:
    """Count what has no row on the screen, in a line."""
    shown = {row.urn for row in chosen}
    counts = (
        (len(board.failed) - sum(urn in board.failed for urn in shown), "more failed"),
        (len(board.running) - sum(urn in board.running for urn in shown), "more under way"),
        (len(board.done) - sum(urn in board.done for urn in shown), "more done"),
        (len(board.unchanged), "unchanged"),
    )
    texts = [f"{count} {what}" for count, what in counts if count > 0]
    if texts:
        yield f"     {markup.BRIGHT_BLACK}... and {', '.join(texts)}{markup.RESET}"
