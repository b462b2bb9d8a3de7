"""The display where there is no terminal: one line for each thing that happens, a summary at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO

from tidepool.engine.display import markup, rows, sections
from tidepool.engine.display.board import Board
from tidepool.engine.display.rows import Row
from tidepool.engine.display.sections import cancelling, configuration
from tidepool.engine.display.settings import Settings
from tidepool.engine.events import Event, Prelude, Stdout


class PlainDisplay:
    """Writes lines to ``stdout`` as the Pulumi CLI does there.

    ``clock`` gives seconds, from any beginning. :meth:`tick`, called about once a second, writes a dot where
    nothing else was written, so that whoever watches the output sees that it goes on.
    """

    def __init__(self, stdout: IO[str], settings: Settings, clock: Callable[[], float]) -> None:
        self._stdout = stdout
        self._settings = settings
        self._board = Board(settings, clock)
        self._begun = False
        self._dots = False

    def event(self, event: Event) -> None:
        """Show ``event``."""
        self._begin()
        match event:
            case Prelude():
                self._line(configuration(event) if self._settings.show_config else "")
            case Stdout():
                self._line(event.message)
            case _:
                touched = self._board.event(event)
                if touched is not None and touched.news and not touched.row.hidden:
                    self._row(touched.row)

    def tick(self) -> None:
        """Show that something is still under way."""
        if self._settings.suppress_progress or not self._begun:
            return
        if not self._dots:
            self._write(f"{markup.YELLOW}@ {self._settings.label.lower()}...{markup.RESET}")
            self._dots = True
        self._write(f"{markup.YELLOW}.{markup.RESET}")
        self._stdout.flush()

    def cancelling(self) -> None:
        """Tell that the person's wish to end was heard."""
        self._line(cancelling(self._board.operations_under_way()))
        self._stdout.flush()

    def close(self) -> None:
        """Write the rows that did not end, diagnostics, outputs and summary."""
        self._begin()
        board = self._board
        unfinished = [row for row in board.rows.values() if not row.is_done(all_done=False)]
        board.end()
        for row in unfinished:
            if not row.hidden:
                self._row(row)
        for line in sections.ending(board):
            self._line(line)
        self._stdout.flush()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            headline = f"{self._settings.label} ({self._settings.stack}):"
            self._line(f"{markup.HEADLINE}{headline}{markup.RESET}")

    def _row(self, row: Row) -> None:
        board = self._board
        pieces = [rows.changed_keys(row, self._settings)]
        if board.all_done:
            pieces += rows.message_counts(row)
        elif row.last is not None:
            pieces.append(rows.message(row.last))
        info = rows.first_line("; ".join(piece for piece in pieces if piece))
        cells = rows.columns(
            row,
            self._settings,
            all_done=board.all_done,
            now=board.now(),
            info=info,
            op=board.shown_op(row, steps_of_replacements=True),
        )
        self._line(" " + " ".join(cells))
        self._stdout.flush()

    def _line(self, text: str) -> None:
        if self._dots:
            self._dots = False
            self._stdout.write("\n")
        self._write(text + "\n")

    def _write(self, text: str) -> None:
        self._stdout.write(markup.render(text, self._settings.color))
