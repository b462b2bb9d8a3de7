"""`report --launches`: how long launches of nodes took by infrastructure and phase, from the scaler's journal."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from tidepool.cli import show
from tidepool.cli.errors import NOT_THERE, Failure
from tidepool.cli.show import document
from tidepool.cli.stack import Stack


def report_launches(
    stack: Stack,
    begin: datetime | None,
    csv: Path | None,
    svg: Path | None,
    png: Path | None,
    *,
    as_json: bool,
) -> None:
    """Show quantiles of all launches that the journal has, or of those of the month that begins at ``begin``; write and draw all.

    Raises:
        Failure: there is no journal, or a file cannot be written.
        DrawingError: there is nothing to draw.
    """
    stack.require_root()
    from tidepool.cli.explain.record import Source
    from tidepool.scaling.decide.budget import month_end
    from tidepool.scaling.launches import quantiles, rows, write_table

    with Source(stack) as source:
        if source.journal is None:
            raise Failure("no scaler has launched a node of this stack", code=NOT_THERE)
        found = rows(
            each for each in source.journal.launches(begin) if begin is None or each.since < month_end(begin)
        )
    if csv is not None:
        try:
            with csv.open("w", encoding="utf-8", newline="") as stream:
                write_table(found, stream)
        except OSError as error:
            raise Failure(f"{csv} cannot be written: {error.strerror or error}") from error
    if drawn := [path for path in (svg, png) if path is not None]:
        # Late: it takes most of a second.
        from tidepool.charts.box_plot import write_launch_plots

        write_launch_plots(found, *drawn, title=f"Launches of stack {stack.name}")
    table = quantiles(found)
    if as_json:
        show.emit([document(each) for each in table])
        return
    lines = [
        (
            q.infrastructure,
            q.phase,
            q.count,
            *(f"{value:.2f} s" for value in (q.p50, q.p90, q.p99, q.longest)),
        )
        for q in table
    ]
    columns = ["infrastructure", "phase", "#launches", "#p50", "#p90", "#p99", "#longest"]
    show.show(show.table(f"{len(found)} launches that came up", columns, lines))
