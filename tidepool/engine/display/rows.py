"""One resource's line in a display: what is being done with it, since when, and what was said about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidepool.engine import urn as urns
from tidepool.engine.display import difference, markup, words
from tidepool.engine.display.difference import Change, Changes
from tidepool.engine.display.settings import Settings, visible
from tidepool.engine.events import Diagnostic, Op, Severity, StepMetadata
from tidepool.engine.resource import ResourceState

_NO_STEP_OF_ITS_OWN = frozenset({Op.SAME, Op.REMOVE_PENDING_REPLACE})
_HALVES = frozenset({Op.CREATE_REPLACEMENT, Op.DELETE_REPLACED})

#: What a summary of messages calls those of a severity, in its order.
COUNTED: tuple[tuple[tuple[Severity, ...], str, str], ...] = (
    (("error",), "error", markup.RED),
    (("warning",), "warning", markup.YELLOW),
    (("info", "info#err"), "message", markup.MAGENTA),
    (("debug",), "debug", markup.RESET),
)


@dataclass(slots=True, eq=False)
class Row:
    """The state of a resource's line.

    ``urn`` is empty for the stack before its own resource is known; ``order`` says when the resource was first
    heard of. ``hidden`` rows are not drawn unless
    something below them is. Times are those of the display's clock, in seconds.
    """

    urn: str
    order: int = 0
    parent: str = ""
    step: StepMetadata | None = None
    hidden: bool = True
    failed: bool = False
    finished: set[Op] = field(default_factory=set)
    replacement: StepMetadata | None = None
    started: float | None = None
    ended: float | None = None
    diagnostics: dict[int, list[Diagnostic]] = field(default_factory=dict)
    counts: dict[Severity, int] = field(default_factory=dict)
    last: Diagnostic | None = None
    last_error: Diagnostic | None = None
    #: What :func:`changed_keys` found, and for which step: live rows are drawn many times.
    keys_found: tuple[StepMetadata, str] | None = None

    @property
    def op(self) -> Op:
        return Op.SAME if self.step is None else self.step.op

    @property
    def is_root(self) -> bool:
        return not self.urn or words.is_root(self.urn)

    @property
    def errors(self) -> int:
        return self.counts.get("error", 0)

    def is_done(self, all_done: bool) -> bool:
        """Return whether nothing more happens to it; the stack is done when all is."""
        if self.failed or all_done:
            return True
        return not self.is_root and self.op in self.finished

    def interrupted(self, all_done: bool) -> bool:
        """Return whether the operation ended before this step did."""
        state = None if self.step is None else self.step.new or self.step.old
        if not all_done or self.failed or self.errors or state is None or not state.custom:
            return False
        return self.op not in _NO_STEP_OF_ITS_OWN and self.op not in self.finished

    def begin(self, step: StepMetadata, now: float) -> None:
        self.started, self.ended = now, None
        self.take(step)

    def finish(self, step: StepMetadata, now: float) -> None:
        """A step ended, or outputs came."""
        self.ended = now
        self.take(step)
        self.finished.add(step.op)
        if step.op is Op.REPLACE:
            self.replacement = step

    def take(self, step: StepMetadata) -> None:
        self.step = step
        state = step.new or step.old
        if state is not None:
            self.parent = state.parent

    def diagnose(self, event: Diagnostic) -> None:
        self.last = event
        if event.severity == "error":
            self.last_error = event
        if not event.ephemeral:
            self.diagnostics.setdefault(event.stream_id, []).append(event)
            self.counts[event.severity] = self.counts.get(event.severity, 0) + 1


def columns(row: Row, settings: Settings, *, all_done: bool, now: float, info: str, op: Op) -> list[str]:
    """A row's cells, marked up: sign, type and name (or URN), status, information.

    ``op`` is the operation to show, which may be another one than the row's own (see :class:`.board.Board`).
    """
    done = row.is_done(all_done)
    urn = urn_of(row, settings)
    sign = words.colored_sign(op, done) + markup.RESET
    cells = (
        [words.printable(urn)] if settings.show_urns else [type_cell(urn), words.printable(urns.name_of(urn))]
    )
    return [sign, *cells, status(row, settings, op, all_done, now), info]


def urn_of(row: Row, settings: Settings) -> str:
    """A row's URN; of the stack's own row also before its resource is known."""
    name = f"{settings.project}-{settings.stack}"
    return row.urn or urns.make(settings.stack, settings.project, "", urns.ROOT_STACK_TYPE, name)


def type_cell(urn: str) -> str:
    """A resource's type as people write it."""
    return words.display_type(urns.type_of(urn))


def status(row: Row, settings: Settings, op: Op, all_done: bool, now: float) -> str:
    """Return the state of a step: "creating (3s)", "created (0.52s)", "**updating failed**"."""
    done = row.is_done(all_done)
    failed = row.failed or row.errors > 0
    retained = words.retained(row.step) if row.step is not None else ""
    if row.interrupted(all_done):
        text = f"{markup.YELLOW}{words.under_way(op)} (interrupted){markup.RESET}"
    elif done and settings.is_preview:
        text = words.color(op) + words.planned(row.op, complete=True) + markup.RESET
    elif done:
        text = words.done(op, failed) + _took(row, op)
        text = f"{markup.RED}**{text}**{markup.RESET}" if failed else words.color(op) + text + markup.RESET
    elif row.urn and row.is_root and op is Op.SAME:
        return "running" + retained
    elif settings.is_preview:
        text = markup.BOLD + words.color(op) + words.planned(row.op, complete=False) + markup.RESET
    else:
        text = markup.BOLD + words.color(op) + words.under_way(op) + _takes(row, op, now) + markup.RESET
    return text + retained


def changed_keys(row: Row, settings: Settings) -> str:
    """Return the properties that change: "[diff: +tags~size]"; "" where none do."""
    step = row.step
    if step is not None and step.op in _HALVES and row.replacement is not None:
        step = row.replacement  # it knows why
    if step is None or step.old is None or step.new is None:
        return ""
    if row.keys_found is None or row.keys_found[0] is not step:
        row.keys_found = (step, _changed_keys(step, settings))
    return row.keys_found[1]


def _changed_keys(step: StepMetadata, settings: Settings) -> str:
    assert step.old is not None
    assert step.new is not None
    changes: Changes[str] | None = None
    if step.op is not Op.SAME:
        if step.detailed_diff is not None:
            changes, _ = difference.of_detailed_diff(step, False, lambda p: visible(p, settings.show_secrets))
        else:
            show = settings.show_secrets
            changes = difference.of_objects(visible(step.old.inputs, show), visible(step.new.inputs, show))
    for name, value in _METADATA:
        if value(step.old) != value(step.new):
            changes = changes if changes is not None else Changes()
            changes.updates[name] = Change(value(step.old), value(step.new))
    if changes is None:
        return ""
    text = "diff: "
    for op, keys in ((Op.CREATE, changes.adds), (Op.DELETE, changes.deletes), (Op.UPDATE, changes.updates)):
        shown = sorted(k for k in keys if not step.diffs or k in step.diffs)
        if shown:
            text += words.color(op) + words.sign(op).strip() + ",".join(shown) + markup.RESET
    return f"[{text}]"


def message_counts(row: Row) -> list[str]:
    """Count the messages of each kind: "1 error", "2 messages"."""
    texts = []
    for severities, word, color in COUNTED:
        count = sum(row.counts.get(s, 0) for s in severities)
        if count:
            texts.append(f"{count} {color}{words.plural(count, word)}{markup.RESET}")
    return texts


def message(event: Diagnostic) -> str:
    """A diagnostic's text with its prefix, without blanks at its end."""
    return (markup.prefix(event.severity) + event.message).rstrip()


def first_line(text: str) -> str:
    """The first line of ``text``."""
    return text.partition("\n")[0]


_METADATA: tuple[tuple[str, Callable[[ResourceState], object]], ...] = (
    ("provider", lambda s: s.provider),
    ("protect", lambda s: s.protect),
    (f"{markup.RED}taint{markup.RESET}", lambda s: s.taint),
)


def _took(row: Row, op: Op) -> str:
    if op is Op.SAME or row.started is None or row.ended is None:
        return ""
    seconds = row.ended - row.started
    return f" ({seconds:.2f}s)" if seconds < 1 else f" ({int(seconds)}s)"


def _takes(row: Row, op: Op, now: float) -> str:
    return "" if op is Op.SAME or row.started is None else f" ({int(now - row.started)}s)"
