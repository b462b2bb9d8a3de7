"""The end of an operation's text: counts of what changed, and how long it took."""

from __future__ import annotations

import math

from tidepool.engine.display import markup, words
from tidepool.engine.events import Op, Prelude, Summary

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
