"""`pool` and `convert`: the machines of pools, how long their conversions took, and their moves between Slurm and Kubernetes."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidepool.cli import errors, show
from tidepool.cli.errors import NOT_THERE, USAGE, Failure
from tidepool.cli.options import Span, json_option, pool_machine_names, pool_names, stack_options
from tidepool.cli.stack import Stack

if TYPE_CHECKING:
    from tidepool.cluster.roles import AtDeadline, Role


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
    from tidepool.cli.explain.lines import give
    from tidepool.cli.pools.view import observe_pools, pools_lines

    view = observe_pools(stack, pool)
    give(view, pools_lines(view), as_json=as_json)
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
) -> None:
    """Show how long conversions took: by direction and phase, p50, p90, p99 and the longest."""
    stack.require_root()
    from tidepool.cli.pools import read_conversions
    from tidepool.cli.show import document
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
        return
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


@click.command("convert")
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True, shell_complete=pool_machine_names)
@click.option(
    "--to", "to", type=click.Choice(["slurm", "kubernetes"]), help="The role that they are to have."
)
@click.option("--force", is_flag=True, help="Requeue jobs and kill pods at once, and tell their owners.")
@click.option("--cancel", is_flag=True, help="Have those on their way go back to what they were.")
@click.option(
    "--deadline",
    "deadline_s",
    type=Span(),
    metavar="TIME",
    help="How long to wait for jobs and pods to end: 90s, 10m, 2h.  [default: the pool's]",
)
@click.option(
    "--at-deadline",
    type=click.Choice(["stop", "force"]),
    help="What comes then: give it up, or go on by force.  [default: the pool's]",
)
@click.option("-r", "--reason", help='Why, for all who look.  [default: "by USER with tidepool"]')
@click.option(
    "--no-wait", is_flag=True, help="Begin it, and end at once; `tidepool pool show` says how far it is."
)
@json_option
@stack_options
def convert_verb(
    stack: Stack,
    nodes: tuple[str, ...],
    to: Role | None,
    force: bool,
    cancel: bool,
    deadline_s: float | None,
    at_deadline: AtDeadline | None,
    reason: str | None,
    no_wait: bool,
    as_json: bool,
) -> int:
    """Move machines of converged pools between Slurm and Kubernetes, in place.

    NODE is a machine of a pool or a hostlist of some, such as shared-[1-4]. All that speaks against it is told at once,
    and then nothing is changed. Ctrl-C stops the watching only: the conversion goes on, until --cancel.
    """
    if cancel and (to or force or deadline_s or at_deadline):
        raise click.UsageError(
            "--cancel goes with no other order: it has the machines go back to what they were"
        )
    if not cancel and to is None:
        raise click.UsageError("say --to slurm or --to kubernetes, or --cancel")
    if force and (deadline_s or at_deadline):
        raise click.UsageError("--force waits for nothing: it goes with neither --deadline nor --at-deadline")
    stack.require_root()
    stack.prepare()
    from tidepool.cli.pools.driver import driver
    from tidepool.cluster.hostlist import expand

    wanted = list(dict.fromkeys(name for word in nodes for name in expand(word)))
    if not wanted:
        raise Failure("there is no node in the hostlist", code=USAGE)
    # First of all: it imports the engine while the request is looked at.
    beside = driver(stack)
    try:
        from tidepool.cli.pools.converting import Terms, cancelled, converted

        if to is None:
            return cancelled(stack, wanted, beside, no_wait=no_wait, as_json=as_json)
        why = reason or f"by {stack.context.who} with tidepool"
        terms = Terms(to, why, force, deadline_s, at_deadline)
        return converted(stack, wanted, terms, beside, no_wait=no_wait, as_json=as_json)
    finally:
        beside.leave()
