"""`pool`: what the machines of pools are, and how long their conversions took."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from tidepool.cli import errors, show
from tidepool.cli.errors import NOT_THERE, Failure
from tidepool.cli.options import Span, json_option, pool_names, stack_options
from tidepool.cli.stack import Stack

#: As many as are kept.
_MOST = 100_000


@click.group("pool")
def pool_verb() -> None:
    """Show converged pools: their machines, and how long conversions took."""


@pool_verb.command("show")
@click.argument("pool", required=False, shell_complete=pool_names)
@json_option
@stack_options
def show_verb(stack: Stack, pool: str | None, as_json: bool) -> int:
    """Show each machine's role, how Slurm and Kubernetes have it, what runs there, and what is under way.

    The exit code is 3 where one of the two does not answer.
    """
    stack.require_root()
    from tidepool.cli.explain.lines import put
    from tidepool.cli.formats import document
    from tidepool.cli.pools.observe import observe_pools
    from tidepool.cli.pools.view import pools_lines

    view = observe_pools(stack, pool)
    if as_json:
        show.emit(document(view))
    else:
        put(pools_lines(view))
    return errors.NOT_THERE if view.trouble else errors.OK


@pool_verb.command("report")
@click.option("--since", "since_s", type=Span(), metavar="TIME", help="Only of that long: 90s, 10m, 2h, 1d.")
@click.option("--csv", type=click.Path(dir_okay=False, path_type=Path), help="Write all phases as a table.")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Write box plots by phase.")
@click.option("--png", type=click.Path(dir_okay=False, path_type=Path), help="The same, as PNG.")
@json_option
@stack_options
def report_verb(
    stack: Stack, since_s: float | None, csv: Path | None, svg: Path | None, png: Path | None, as_json: bool
) -> int:
    """Show how long conversions took: by direction and phase, p50, p90, p99 and the longest."""
    stack.require_root()
    from tidepool.cli.formats import document
    from tidepool.cli.pools.model import read_conversions
    from tidepool.conversion.report import THESIS, quantiles, rows, said_way, write_table

    journal = read_conversions(stack)
    if journal is None:
        raise Failure("no machine of this stack was ever converted", code=NOT_THERE)
    since = None if since_s is None else datetime.now(UTC) - timedelta(seconds=since_s)
    with closing(journal):
        found = rows(journal.conversions(since=since, limit=_MOST))
    if csv is not None:
        with csv.open("w", encoding="utf-8", newline="") as stream:
            write_table(found, stream)
    if drawn := [path for path in (svg, png) if path is not None]:
        # Late: it takes most of a second.
        from tidepool.charts.box_plot import write_box_plots

        write_box_plots(found, *drawn, title=f"Conversions of stack {stack.name}")
    table = quantiles(found)
    if as_json:
        show.emit([document(each) for each in table])
        return errors.OK
    lines = [
        (
            said_way(q.direction),
            q.phase,
            q.count,
            *(f"{value:.2f} s" for value in (q.p50, q.p90, q.p99, q.longest)),
        )
        for q in table
    ]
    columns = ["direction", "phase", "#conversions", "#p50", "#p90", "#p99", "#longest"]
    show.show(show.table(f"{len(found)} conversions that ended", columns, lines))
    show.say(f"{THESIS}.")
    return errors.OK
