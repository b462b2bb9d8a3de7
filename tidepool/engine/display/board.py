"""All rows of an operation, kept up to date by its events, and the text below them when it has ended.

The plain and the live display draw them. Which events make a row appear follows Pulumi's
``pkg/backend/display/progress.go``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from tidepool.engine import urn as urns
from tidepool.engine.display import markup, step_text, words
from tidepool.engine.display.rows import Row, message, type_cell, urn_of
from tidepool.engine.display.settings import Settings
from tidepool.engine.display.step_text import is_shown
from tidepool.engine.events import (
    Diagnostic,
    Event,
    Op,
    Prelude,
    ResourceFailed,
    ResourceOutputs,
    ResourcePre,
    StepMetadata,
    Summary,
)

_REPLACING = frozenset({Op.CREATE_REPLACEMENT, Op.DELETE_REPLACED, Op.DISCARD_REPLACED})


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
        return self._clock()

    def event(self, event: Event) -> Row | None:
        """Take ``event`` in; gives the row that it changed, None where a log of lines would only repeat itself."""
        match event:
            case Diagnostic():
                return self._diagnose(event)
            case ResourcePre() | ResourceOutputs() | ResourceFailed():
                return self._step(event)
            case Summary():
                self.summary = event
        return None

    def end(self) -> None:
        self.all_done = True

    def shown_op(self, row: Row, steps_of_replacements: bool) -> Op:
        """The operation to show for a row: a replacement's steps, or the replacement as one thing."""
        if steps_of_replacements or self.failed or row.op not in _REPLACING:
            return row.op
        return Op.REPLACE if self.settings.is_preview or self.all_done else row.op

    def errored(self) -> int:
        return sum(1 for row in self.rows.values() if row.errors)

    def operations_under_way(self) -> int:
        """Count the providers at work; components only wait for what is in them."""
        states = (row.step.new or row.step.old for row in self.running.values() if row.step is not None)
        return sum(1 for state in states if state is not None and state.custom)

    def _diagnose(self, event: Diagnostic) -> Row | None:
        if event.severity == "debug" and not self.settings.debug:
            return None
        if not event.message.strip():
            return None
        row = self._row(event.urn or self._root)
        row.diagnose(event)
        row.hidden = False
        return row

    def _step(self, event: ResourcePre | ResourceOutputs | ResourceFailed) -> Row | None:
        step = event.metadata
        if words.is_internal(step):
            return None
        if not self.settings.show_reads and step.op in (Op.READ, Op.READ_DISCARD, Op.READ_REPLACEMENT):
            return self._read(step)
        row = self._row(step.urn)
        before = row.op
        if row.is_root or is_shown(step, self.settings, steps_of_replacements=True):
            row.hidden = False
        is_news = True
        match event:
            case ResourcePre():
                row.begin(step, self._clock())
                row.finished.discard(step.op)
            case ResourceOutputs():
                row.finish(step, self._clock())
                is_news = self._is_news(event, before)
                if row.is_root:
                    self.outputs_step = step
            case ResourceFailed():
                row.failed = True
        self._file(row)
        return row if is_news else None

    def _is_news(self, event: ResourceOutputs, before: Op) -> bool:
        if before is Op.REFRESH:
            return True
        state = event.metadata.new or event.metadata.old
        changed = state is None or (state.custom and event.metadata.op is not Op.SAME)
        return changed and not self.settings.is_preview

    def _read(self, step: StepMetadata) -> Row | None:
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


def ending(board: Board) -> Iterator[str]:
    """All lines below the rows, marked up, without newlines at their ends."""
    yield from diagnostics(board)
    yield from outputs(board)
    if board.summary is not None:
        yield from summary(board.summary, board.errored()).split("\n")


def diagnostics(board: Board) -> Iterator[str]:
    """The "Diagnostics:" section, by resource."""
    first = True
    for row in board.rows.values():
        blocks = [list(_block(stream, said)) for stream, said in row.diagnostics.items()]
        blocks = [block for block in blocks if block]
        if not blocks:
            continue
        if first:
            yield f"{markup.HEADLINE}Diagnostics:{markup.RESET}"
            first = False
        yield f"  {markup.BRIGHT_BLUE}{_heading(row, board.settings)}:{markup.RESET}"
        for block in blocks:
            for line in block:
                yield f"    {line}"
            yield ""


def outputs(board: Board) -> Iterator[str]:
    """The "Outputs:" section: the stack's outputs, and how they changed."""
    step, settings = board.outputs_step, board.settings
    if settings.suppress_outputs or step is None:
        return
    text = step_text.outputs_of(step, 1, settings, settings.is_preview, refresh=False)
    if text:
        yield f"{markup.HEADLINE}Outputs:{markup.RESET}"
        yield from text.split("\n")


def _block(stream: int, said: list[Diagnostic]) -> Iterator[str]:
    """The lines of one stream of messages: the messages of stream 0 are separate, others are pieces of one text."""
    if stream:
        pieces = [m.message if m.message.endswith("\n") else m.message + "\n" for m in said]
        texts = [(markup.prefix(said[0].severity) + "".join(pieces)).rstrip()]
    else:
        texts = [message(m) for m in said]
    for text in texts:
        if markup.plain(text).strip():
            for line in text.split("\n"):
                yield line.rstrip()


def _heading(row: Row, settings: Settings) -> str:
    urn = urn_of(row, settings)
    if settings.show_urns:
        return words.printable(urn)
    return f"{type_cell(urn)} ({words.printable(urns.name_of(urn))})"


_NO_CHANGE = frozenset({Op.SAME, Op.READ, Op.READ_DISCARD, Op.READ_REPLACEMENT})


def summary(event: Summary, errored: int) -> str:
    """The "Resources:" and "Duration:" sections; ``errored`` counts resources with errors."""
    lines = [f"{markup.HEADLINE}Resources:{markup.RESET}\n"]
    counts = [
        (op, event.resource_changes[op])
        for op in words.SUMMARY_ORDER
        if op not in _NO_CHANGE and event.resource_changes.get(op, 0) > 0
    ]
    lines += [
        f"    {words.colored_sign(op)}{count} {words.counted(op, event.is_preview)}{markup.RESET}\n"
        for op, count in counts
    ]
    pieces = []
    if len(counts) >= 2:
        total = sum(count for _, count in counts)
        pieces.append(f"{markup.BOLD}{total} {words.plural(total, 'change')}{markup.RESET}")
    if unchanged := event.resource_changes.get(Op.SAME, 0):
        pieces.append(f"{unchanged} unchanged")
    if pieces:
        lines.append(f"    {'. '.join(pieces)}\n")
    if errored:
        lines.append(f"    {markup.RED}{errored} errored{markup.RESET}\n")
    if not event.is_preview:
        seconds = math.ceil(event.duration_s)
        lines.append(f"\n{markup.HEADLINE}Duration:{markup.RESET} {words.duration(seconds)}\n")
    return "".join(lines)


def configuration(event: Prelude) -> str:
    """The "Configuration:" section."""
    lines = [f"{markup.RESET}Configuration:{markup.RESET}\n"]
    lines += [f"    {key}: {value}\n" for key, value in sorted(event.config.items())]
    return "".join(lines)


def cancelling_notice(count: int) -> str:
    """Return the notice while an interrupted operation ends; ``count`` steps are still under way."""
    return (
        f"^C received; cancelling: waiting for {count} {words.plural(count, 'operation')} to end. "
        "Interrupt again to end at once"
    )
