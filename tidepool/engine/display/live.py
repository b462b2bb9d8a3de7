"""The display on a terminal: rows that follow what happens, and at the end what is worth keeping."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO, Final, TypeAlias

from tidepool.engine.display import live_screen, markup, sections
from tidepool.engine.display.board import Board
from tidepool.engine.display.frame import Frame, crop
from tidepool.engine.display.settings import Settings
from tidepool.engine.display.summary_text import configuration
from tidepool.engine.events import Event, Prelude, Stdout

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
        table = live_screen.table_of_changes(board, self._unicode)
        rows = [crop(line, width - 1) for line in live_screen.draw_table(table, self._settings, width)]
        try:
            self._print_above([*rows, "", *sections.ending(board)])
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
        lines = live_screen.moment(
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
