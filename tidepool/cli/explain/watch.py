"""`watch`: how the cluster breathes, as the scaler's journal tells it. It costs Slurm nothing."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import click

from tidepool.cli import errors, show
from tidepool.cli.explain.lines import columns, drawn, glyphs_for, put
from tidepool.cli.explain.record import Record, Source
from tidepool.cli.explain.watch_frame import frame
from tidepool.cli.explain.watch_view import watching
from tidepool.cli.formats import clock, document
from tidepool.cli.options import json_option, stack_options
from tidepool.cli.stack import Stack
from tidepool.scaling.ports import JournalError

_LEAST_EVERY_S: Final = 0.2
_EVERY_S: Final = 0.5
#: Of a very large cluster a look takes a while; it rests so many times as long, whatever was asked for.
_REST: Final = 3


@click.command("watch")
@click.option("--once", is_flag=True, help="One frame, and the end. So it is without a terminal.")
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=_LEAST_EVERY_S),
    default=_EVERY_S,
    show_default=True,
    metavar="SECONDS",
    help="How often to look.",
)
@json_option
@stack_options
def watch_verb(stack: Stack, once: bool, every_s: float, as_json: bool) -> int:
    """Show how the cluster breathes: queue, fleets, what is under way, cost and the last decisions, until Ctrl-C.

    All of it is the daemon's own look; Slurm is not asked. The exit code of one frame is 3 where no daemon runs.
    """
    with Source(stack) as source:
        if as_json or once or not sys.stdout.isatty():
            view = watching(source.read())
            if as_json:
                show.emit(document(view))
            else:
                put(frame(view, columns(), None, glyphs_for(sys.stdout.encoding)))
            return errors.OK if view.health.state in ("runs", "late") else errors.NOT_THERE
        live(source.read, show.console(sys.stdout), every_s, threading.Event().wait)
    return errors.OK


def live(read: Callable[[], Record], console: Any, every_s: float, wait: Callable[[float], object]) -> None:
    """Show what is read on ``console``, until Ctrl-C; look again after each ``wait`` of ``every_s`` seconds.

    What is wrong at the beginning is raised; later, the view stays, and says what is wrong.

    Raises:
        JournalError: the journal cannot be read.
        Failure: there is nothing to show.
    """
    from rich.live import Live

    glyphs = glyphs_for(console.encoding)
    view, trouble = watching(read()), ""
    with Live(console=console, auto_refresh=False, screen=True) as shown, suppress(KeyboardInterrupt):
        took_s = 0.0
        while True:
            size = console.size
            shown.update(drawn(frame(view, size.width, size.height, glyphs, trouble)), refresh=True)
            wait(max(every_s, took_s * _REST))
            began_s = time.monotonic()
            try:
                view, trouble = watching(read()), ""
            except JournalError as error:
                trouble = f"{error}; what follows is of {clock(view.now, view.now)}"
            took_s = time.monotonic() - began_s
