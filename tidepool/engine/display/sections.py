"""Text below the rows when an operation has ended: diagnostics, outputs, summary."""

from __future__ import annotations

from collections.abc import Iterator

from tidepool.engine import urn as urns
from tidepool.engine.display import markup, step_text, words
from tidepool.engine.display.board import Board
from tidepool.engine.display.event_json import prefix
from tidepool.engine.display.rows import Row, message, type_cell
from tidepool.engine.display.settings import Settings
from tidepool.engine.display.summary_text import summary
from tidepool.engine.events import Diagnostic


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
        texts = [(prefix(said[0].severity) + "".join(pieces)).rstrip()]
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
