"""The displays that write lines: one for each thing that happens, or with ``--diff`` all that a step changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO

from tidepool.engine.display import markup, rows, step_text, words
from tidepool.engine.display.board import Board, cancelling_notice, configuration, ending, summary
from tidepool.engine.display.rows import Row
from tidepool.engine.display.settings import Settings
from tidepool.engine.events import (
    Diagnostic,
    Event,
    Op,
    Prelude,
    ResourceFailed,
    ResourceOutputs,
    ResourcePre,
    Stdout,
    StepMetadata,
    Summary,
)


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
        self._begin()
        match event:
            case Prelude():
                self._line(configuration(event) if self._settings.show_config else "")
            case Stdout():
                self._line(event.message)
            case _:
                row = self._board.event(event)
                if row is not None and not row.hidden:
                    self._row(row)

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
        self._line(cancelling_notice(self._board.operations_under_way()))
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
        for line in ending(board):
            self._line(line)
        self._stdout.flush()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._line(self._settings.headline)

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


class DiffDisplay:
    """Writes steps to ``stdout`` and messages to ``stderr``, as the Pulumi CLI does."""

    def __init__(self, stdout: IO[str], stderr: IO[str], settings: Settings) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._settings = settings
        self._seen: dict[str, StepMetadata] = {}
        self._errored = 0
        self._begun = False

    def event(self, event: Event) -> None:
        self._begin()
        match event:
            case Prelude():
                if self._settings.show_config:
                    self._write(configuration(event))
            case Stdout():
                self._write(event.message)
            case Diagnostic():
                if event.severity != "debug" or self._settings.debug:
                    self._complain(f"{markup.prefix(event.severity)}{event.message}\n")
            case Summary():
                self._write(summary(event, self._errored))
            case ResourceFailed():
                self._errored += 1
            case ResourcePre():
                self._write(self._step(event))
            case ResourceOutputs():
                self._write(self._outputs(event))
            case _:
                pass

    def cancelling(self) -> None:
        self._complain("^C received; cancelling. Interrupt again to end at once\n")

    def close(self) -> None:
        self._begin()
        self._stdout.flush()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._write(f"{self._settings.headline}\n")

    def _shown(self, step: StepMetadata) -> bool:
        return step_text.has_line(step, self._settings)

    def _depth(self, step: StepMetadata) -> int:
        return step_text.depth(step, self._seen, self._shown)

    def _step(self, event: ResourcePre) -> str:
        step = event.metadata
        if words.is_internal(step):
            return ""
        self._seen[step.urn] = step
        if step.op in (Op.REFRESH, Op.IMPORT) or not self._shown(step):
            return ""  # what was found is told when it is found
        return step_text.difference_of(step, self._depth(step), self._settings, refresh=False)

    def _outputs(self, event: ResourceOutputs) -> str:
        step, settings = event.metadata, self._settings
        if not self._shown(step):
            return ""
        before = self._seen.get(step.urn)
        refresh = before is not None and before.op is Op.REFRESH
        indent = self._depth(step)
        if step.op is Op.IMPORT or (refresh and step.op is Op.UPDATE):
            return step_text.difference_of(step, indent, settings, refresh)
        outputs = step_text.outputs_of(step, indent + 1, settings, event.planning, refresh)
        text = ""
        if refresh and (step.op is not Op.REFRESH or outputs or words.is_root(step.urn)):
            text = step_text.header(step, indent, settings)
        if outputs and not settings.suppress_outputs:
            blanks = "    " * (indent + 1)
            text += f"{words.color(step.op)}{blanks}--outputs:--{markup.RESET}\n{outputs}"
        return text

    def _write(self, text: str) -> None:
        if text:
            self._stdout.write(markup.render(text, self._settings.color))
            self._stdout.flush()

    def _complain(self, text: str) -> None:
        self._stderr.write(markup.render(text, self._settings.color))
        self._stderr.flush()
