"""Answers as the CLI writes them, in JSON and tables; and the one question, for a confirmation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from tidepool.engine import json_text
from tidepool.engine.errors import NotConfirmed
from tidepool.engine.request import World


def json_document(value: Any) -> str:
    """``value`` as JSON over several lines, with a line break at its end."""
    text = json.dumps(json_text.go_numbers(value), indent=2, ensure_ascii=False)
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029") + "\n"


def json_line(value: Any) -> str:
    """``value`` as JSON on one line, keys sorted."""
    text = json_text.dumps_sorted(value)
    for escaped, plain in (("\\u0026", "&"), ("\\u003c", "<"), ("\\u003e", ">")):
        text = text.replace(escaped, plain)
    return text


def output_text(value: Any) -> str:
    """A stack output for a person: text as it is, everything else as JSON on one line."""
    return value if isinstance(value, str) else json_line(value)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], prefix: str = "") -> str:
    """A table with a line break at its end. A cell may have several lines."""
    lines: list[Sequence[str]] = [headers]
    for row in rows:
        cells = [cell.split("\n") for cell in row]
        height = max((len(c) for c in cells), default=0)
        lines += [[c[i] if i < len(c) else "" for c in cells] for i in range(height)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headers))]
    return "".join(
        prefix
        + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        + "\n"
        for line in lines
    )


def time_text(moment: datetime) -> str:
    """``moment`` as the CLI writes times in JSON: UTC, with milliseconds."""
    utc = moment.astimezone(UTC)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03d}Z"


def parse_time(text: str) -> datetime:
    """The time that an RFC 3339 text says; nanoseconds are cut off to microseconds."""
    head, dot, tail = text.partition(".")
    if dot:
        digits = len(tail) - len(tail.lstrip("0123456789"))
        text = f"{head}.{tail[: min(digits, 6)].ljust(6, '0')}{tail[digits:]}"
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def ago(moment: datetime, now: datetime) -> str:
    """Say in one unit how long ago ``moment`` was."""
    seconds = int((now - moment).total_seconds())
    for name, size in _UNITS:
        if seconds >= size:
            count = seconds // size
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "now"


_DAY = 86_400
_UNITS = (
    ("year", 365 * _DAY),
    ("month", 30 * _DAY),
    ("week", 7 * _DAY),
    ("day", _DAY),
    ("hour", 3_600),
    ("minute", 60),
    ("second", 1),
)


def confirm(world: World, question: str, expected: str) -> None:
    """Let a person confirm by typing ``expected``.

    Raises:
        NotConfirmed: when nobody can be asked, or the answer is another one.
    """
    if not world.interactive:
        raise NotConfirmed("non-interactive mode requires --yes flag")
    world.stdout.write(
        f"{question}\nPlease confirm that this is what you'd like to do by typing `{expected}`: "
    )
    world.stdout.flush()
    if world.input.readline().strip() != expected:
        raise NotConfirmed("confirmation declined")
