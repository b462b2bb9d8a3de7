"""Text below the rows when an operation has ended: diagnostics, outputs, counts of what changed, duration."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tidepool.engine import urn as urns
from tidepool.engine.display import markup, step_text, words
from tidepool.engine.display.board import Board
from tidepool.engine.display.rows import Row, message, type_cell
from tidepool.engine.display.settings import Settings
from tidepool.engine.events import Diagnostic, Op, Prelude, Summary


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
    urn = row.urn or urns.make(
        settings.stack, settings.project, "", urns.ROOT_STACK_TYPE, f"{settings.project}-{settings.stack}"
    )
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


def cancelling(count: int) -> str:
    """Return the notice while an interrupted operation ends; ``count`` steps are still under way."""
    return (
        f"^C received; cancelling: waiting for {count} {words.plural(count, 'operation')} to end. "
        "Interrupt again to end at once"
    )
