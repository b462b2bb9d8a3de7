"""All rows of an operation, kept up to date by its events: what both the plain and the live display draw.

Which events make a row appear follows Pulumi's ``pkg/backend/display/progress.go``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidepool.engine import urn as urns
from tidepool.engine.display import words
from tidepool.engine.display.rows import Row, type_cell
from tidepool.engine.display.settings import Settings
from tidepool.engine.display.step_text import is_shown
from tidepool.engine.events import (
    Diagnostic,
    Event,
    Op,
    ResourceFailed,
    ResourceOutputs,
    ResourcePre,
    StepMetadata,
    Summary,
)

_REPLACING = frozenset({Op.CREATE_REPLACEMENT, Op.DELETE_REPLACED, Op.DISCARD_REPLACED})


@dataclass(frozen=True, slots=True)
class Touched:
    """The row that an event changed. ``news`` is false where a log of lines would only repeat itself."""

    row: Row
    news: bool = True


class Board:
    """The rows by URN, in the order in which their resources were first heard of."""

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self.settings = settings
        self.rows: dict[str, Row] = {}
        #: Rows with a step under way.
        self.running: dict[str, Row] = {}
        #: Rows whose step failed.
        self.failed: dict[str, Row] = {}
        #: Rows whose step succeeded and changed something, the last one to end last.
        self.done: dict[str, Row] = {}
        #: URNs of resources that were found unchanged.
        self.unchanged: set[str] = set()
        self.all_done = False
        self.summary: Summary | None = None
        #: The stack's own step once its outputs are known: what the "Outputs" section draws.
        self.outputs_step: StepMetadata | None = None
        self._root = ""
        self._clock = clock

    @property
    def root(self) -> Row:
        """The stack's row; there is always one."""
        return self._row(self._root)

    def now(self) -> float:
        """The clock's time."""
        return self._clock()

    def event(self, event: Event) -> Touched | None:
        """Take ``event`` in; tells which row it changed."""
        match event:
            case Diagnostic():
                return self._diagnose(event)
            case ResourcePre() | ResourceOutputs() | ResourceFailed():
                return self._step(event)
            case Summary():
                self.summary = event
        return None

    def end(self) -> None:
        """No more events follow."""
        self.all_done = True

    def shown_op(self, row: Row, steps_of_replacements: bool) -> Op:
        """The operation to show for a row: a replacement's steps, or the replacement as one thing."""
        if steps_of_replacements or self.failed or row.op not in _REPLACING:
            return row.op
        return Op.REPLACE if self.settings.is_preview or self.all_done else row.op

    def errored(self) -> int:
        """Count the resources that have errors."""
        return sum(1 for row in self.rows.values() if row.errors)

    def operations_under_way(self) -> int:
        """Count the providers at work; components only wait for what is in them."""
        states = (row.step.new or row.step.old for row in self.running.values() if row.step is not None)
        return sum(1 for state in states if state is not None and state.custom)

    def _diagnose(self, event: Diagnostic) -> Touched | None:
        if event.severity == "debug" and not self.settings.debug:
            return None
        if not event.message.strip():
            return None
        row = self._row(event.urn or self._root)
        row.diagnose(event)
        row.hidden = False
        return Touched(row)

    def _step(self, event: ResourcePre | ResourceOutputs | ResourceFailed) -> Touched | None:
        step = event.metadata
        if words.is_internal(step):
            return None
        if not self.settings.show_reads and step.op in (Op.READ, Op.READ_DISCARD, Op.READ_REPLACEMENT):
            return self._read(step)
        row = self._row(step.urn)
        before = row.op
        if row.is_root or is_shown(step, self.settings, steps_of_replacements=True):
            row.hidden = False
        touched = Touched(row)
        match event:
            case ResourcePre():
                row.begin(step, self._clock())
                row.finished.discard(step.op)
            case ResourceOutputs():
                row.finish(step, self._clock())
                touched = Touched(row, self._is_news(event, before))
                if row.is_root:
                    self.outputs_step = step
            case ResourceFailed():
                row.failed = True
        self._file(row)
        return touched

    def _is_news(self, event: ResourceOutputs, before: Op) -> bool:
        if before is Op.REFRESH:
            return True
        state = event.metadata.new or event.metadata.old
        changed = state is None or (state.custom and event.metadata.op is not Op.SAME)
        return changed and not self.settings.is_preview

    def _read(self, step: StepMetadata) -> Touched | None:
        """A read changes nothing: it is only mentioned while it is the last thing that happened."""
        if step.op is not Op.READ:
            return None
        text = f"read {type_cell(step.urn)} {words.printable(urns.name_of(step.urn))}"
        return self._diagnose(Diagnostic("info", text, ephemeral=True))

    def _file(self, row: Row) -> None:
        """Keep what the live display needs to know without looking at every row."""
        if row.is_root:
            return
        if row.failed:
            self.failed[row.urn] = row
        elif not row.is_done(self.all_done):
            if not row.hidden:
                self.running[row.urn] = row
            self.done.pop(row.urn, None)
            self.unchanged.discard(row.urn)
            return
        elif row.op is Op.SAME:
            self.unchanged.add(row.urn)
        else:
            self.done[row.urn] = row
        self.running.pop(row.urn, None)

    def _row(self, urn: str) -> Row:
        if urn != self._root and words.is_root(urn):
            # What was said before the stack's resource was known is the stack's.
            self._adopt(urn)
        row = self.rows.get(urn)
        if row is None:
            row = self.rows[urn] = Row(urn, len(self.rows), hidden=urn != self._root)
        return row

    def _adopt(self, urn: str) -> None:
        row = self.rows.pop(self._root, None)
        self._root = urn
        if row is not None:
            row.urn = urn
            self.rows[urn] = row
