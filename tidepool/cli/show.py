"""Output of verbs: tables, times, money and names for people on standard output, the same as JSON, messages on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final

import click

#: So wide that nothing is cut off where no person looks.
_NO_TERMINAL_COLUMNS: Final = 4000


def emit(value: object) -> None:
    """A JSON document on standard output. Of names that are not UTF-8, bytes are escaped as lone surrogates, which JSON can have."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=_plain)
    click.echo(text.encode("utf-8", "backslashreplace").decode())


def say(text: str = "") -> None:
    """A line on standard output."""
    click.echo(readable(text))


def readable(text: str) -> str:
    """Return text in which bytes of names that are not UTF-8 are escaped."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def tell(text: str) -> None:
    """A line for the person on standard error."""
    click.echo(text, err=True)


def warn(text: str) -> None:
    """A warning on standard error."""
    click.echo(f"{click.style('warning:', fg='yellow')} {text}", err=True)


def tell_failure(what: str, remedy: str) -> None:
    """Show an error and its remedy on standard error."""
    click.echo(f"{click.style('error:', fg='red', bold=True)} {what}", err=True)
    if remedy:
        click.echo(f"  {click.style('remedy:', bold=True)} {remedy}", err=True)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Any:
    """A table for `show`. Columns of numbers, named with a leading ``#``, are flush right.

    A cell is text, or a pair of text and a style (``("DOWN", "red")``).
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        made.add_column(column.removeprefix("#"), justify="right" if column.startswith("#") else "left")
    for row in rows:
        cells = (cell if isinstance(cell, tuple) else (cell, "") for cell in row)
        # As text, so that what people and Slurm write is never taken for markup.
        made.add_row(*(Text(readable(str(text)), style) for text, style in cells))
    return made


def show(*renderables: Any) -> None:
    """Tables on standard output: in color on a terminal, whole and plain elsewhere."""
    on_terminal = sys.stdout.isatty()
    terminal = console(sys.stdout, width=None if on_terminal else _NO_TERMINAL_COLUMNS)
    for renderable in renderables:
        if on_terminal:
            terminal.print(renderable)
            continue
        with terminal.capture() as captured:
            terminal.print(renderable)
        for line in captured.get().splitlines():
            click.echo(line.rstrip())


def console(stream: Any, width: int | None = None) -> Any:
    """A terminal of rich's that writes to ``stream``."""
    from rich.console import Console

    return Console(file=stream, width=width, highlight=False, soft_wrap=False)


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple | set | frozenset) else str(value)


_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400
#: Below so many seconds, tenths are told.
_TENTHS_BELOW_S: Final = 10
_CENT: Final = 0.01


def span(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``3 min 4 s``, ``2 h 5 min``, ``3 d 4 h``. What is negative is no time at all."""
    seconds = max(seconds, 0.0)
    if seconds < _TENTHS_BELOW_S - 0.05:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit_s, unit, part_s, part in ((_DAY_S, "d", _HOUR_S, "h"), (_HOUR_S, "h", _MINUTE_S, "min")):
        if whole >= unit_s:
            return _two(whole // unit_s, unit, whole % unit_s // part_s, part)
    return _two(whole // _MINUTE_S, "min", whole % _MINUTE_S, "s") if whole >= _MINUTE_S else f"{whole} s"


def between(begun: datetime, ended: datetime) -> str:
    """Return the time from one to the other, as `span`."""
    return span((ended - begun).total_seconds())


def ago(at: datetime, now: datetime) -> str:
    """``12 s ago``."""
    return f"{between(at, now)} ago"


def clock(at: datetime, now: datetime) -> str:
    """A time of day in the zone of ``now``, with the day where that is another: ``20:14:03``, ``Nov 20 20:14:03``."""
    local = at.astimezone(now.tzinfo)
    return local.strftime("%H:%M:%S" if local.date() == now.date() else "%b %d %H:%M:%S")


def usd(amount: float) -> str:
    """``$12.40``; of less than a cent, the first two digits: ``$0.0042``."""
    if 0 < abs(amount) < _CENT:
        return f"${amount:.2g}" if abs(amount) >= 1e-4 else "less than $0.0001"
    return f"${amount:,.2f}"


def number(count: int, thing: str) -> str:
    """``1 node``, ``12 nodes``."""
    return f"{count:,} {thing if count == 1 else thing + 's'}"


def hosts(names: Iterable[str]) -> str:
    """A hostlist; names that are none, as they are."""
    # Late, as below: `tidepool --help` has no use for it.
    from tidepool.cluster.hostlist import HostlistError, fold

    listed = list(names)
    try:
        return fold(listed)
    except HostlistError:
        return ",".join(sorted(set(listed)))


def _two(first: int, unit: str, second: int, part: str) -> str:
    return f"{first} {unit} {second} {part}" if second else f"{first} {unit}"


def first(names: Sequence[object], most: int) -> str:
    """``a, b and 3 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def document(view: object) -> Any:
    """``view`` with all in it as JSON has it."""
    from tidepool.cluster.hostlist import HostSet

    if is_dataclass(view) and not isinstance(view, type):
        return {_camel(each.name): document(getattr(view, each.name)) for each in fields(view)}
    if isinstance(view, Mapping):
        return {str(document(key)): document(value) for key, value in view.items()}
    if isinstance(view, datetime):
        return view.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(view, HostSet):
        return str(view)
    if isinstance(view, Enum):
        return view.value
    if isinstance(view, tuple | list | set | frozenset):
        return [document(each) for each in view]
    return view


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
