"""`watch`: how the cluster breathes, as the scaler's journal tells it. It costs Slurm nothing."""

from __future__ import annotations

import sys
import threading
from datetime import datetime
from typing import Final

import click

from tidepool.cli import errors, show
from tidepool.cli.options import json_option, stack_options
from tidepool.cli.scaler.document import document
from tidepool.cli.scaler.drawing import drawn, glyphs_for
from tidepool.cli.scaler.frame import frame
from tidepool.cli.scaler.opening import Source
from tidepool.cli.scaler.watching import WatchView, watching
from tidepool.cli.stack import Stack

_LEAST_EVERY_S: Final = 0.2
_EVERY_S: Final = 0.5
#: Of one frame that nobody's terminal limits.
_PLAIN_COLUMNS: Final = 160


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
                _print(view)
            return errors.OK if view.health.state in ("runs", "late") else errors.NOT_THERE
        _live(source, every_s)
    return errors.OK


def _print(view: WatchView) -> None:
    from rich.console import Console

    on_terminal = sys.stdout.isatty()
    console: Console = show.console(sys.stdout, width=None if on_terminal else _PLAIN_COLUMNS)
    lines = frame(view, console.width, None, glyphs_for(sys.stdout.encoding))
    if on_terminal:
        console.print(drawn(lines))
        return
    for line in lines:
        show.say("".join(cell.text for cell in line).rstrip())


def _live(source: Source, every_s: float) -> None:
    from rich.live import Live

    console = show.console(sys.stdout)
    glyphs = glyphs_for(console.encoding)
    pause = threading.Event()
    with Live(console=console, auto_refresh=False, screen=True) as live:
        try:
            while True:
                view = watching(source.read())
                lines = frame(view, console.width, console.height, glyphs)
                live.update(drawn(lines), refresh=True)
                pause.wait(every_s)
        except KeyboardInterrupt:
            return


def now() -> datetime:
    """The time, in the zone of this machine."""
    return datetime.now().astimezone()
