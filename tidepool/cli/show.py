"""Output of verbs: tables for people on standard output, the same as JSON, and messages on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

import click

#: So wide that nothing is cut off where no person looks.
_NO_TERMINAL_COLUMNS: Final = 4000


def emit(value: object) -> None:
    """A JSON document on standard output."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=_plain))


def say(text: str = "") -> None:
    """A line on standard output."""
    click.echo(text)


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
        made.add_row(*(Text(str(text), style) for text, style in cells))
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
