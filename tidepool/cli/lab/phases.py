"""`lab phases`: how long machines took to be ready, by phase, for every infrastructure that ran and for conversions."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tidepool.cli import show
from tidepool.cli.errors import NOT_THERE, Failure
from tidepool.cli.options import json_option, stack_options
from tidepool.cli.stack import Stack, has_journal, stacks_with_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidepool.lab.phases import Provisioning

_MOST: Final = 100_000


@click.command("phases")
@click.option(
    "--of",
    "names",
    multiple=True,
    metavar="STACK",
    help="Of this stack; may be repeated.  [default: all of the project]",
)
@click.option(
    "--csv", type=click.Path(dir_okay=False, path_type=Path), help="Write each of them with its phases."
)
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Write box plots by phase.")
@click.option("--png", type=click.Path(dir_okay=False, path_type=Path), help="The same, as PNG.")
@json_option
@stack_options
def phases_verb(
    stack: Stack, names: tuple[str, ...], csv: Path | None, svg: Path | None, png: Path | None, as_json: bool
) -> None:
    """Show how long machines took to be ready: image, kernel, services and join, of launches and of conversions.

    It is what the journals of the project's stacks have: of launches the last 14 days, of conversions all.
    """
    stack.require_root()
    from tidepool.charts import write_drawing
    from tidepool.charts.boxes import boxes_figure
    from tidepool.cli.show import document
    from tidepool.lab.phases import COLOURS, WANTED, panels, quantiles, write_table

    stacks = [replace(stack, name=name) for name in names or stacks_with_files(stack.project)]
    found = [one for each in stacks for one in _provisionings(each)]
    if not found:
        where = ", ".join(each.name for each in stacks) or "none"
        raise Failure(
            f"no machine was launched or converted yet in the stacks that were looked at: {where}",
            code=NOT_THERE,
        )
    if csv is not None:
        with csv.open("w", encoding="utf-8", newline="") as stream:
            write_table(found, stream)
    if drawn := [path for path in (svg, png) if path is not None]:
        write_drawing(
            lambda: boxes_figure(
                panels(found), COLOURS, columns=2, title="Until a machine is ready, seconds"
            ),
            drawn,
        )
    table = quantiles(found)
    if as_json:
        show.emit([document(each) for each in table])
        return
    lines = [
        (q.group, q.phase, q.count, *(f"{value:.2f} s" for value in (q.p50, q.p90, q.p99, q.longest)))
        for q in table
    ]
    show.show(
        show.table(
            f"{len(found)} machines that were made ready",
            ["of", "phase", "#", "#p50", "#p90", "#p99", "#longest"],
            lines,
        )
    )
    few = [f"{q.group} ({q.count})" for q in table if q.phase == "total" and q.count < WANTED]
    if few:
        show.say(f"Fewer than {WANTED} samples, so p99 is not to be believed: {', '.join(few)}.")


def _provisionings(stack: Stack) -> Iterator[Provisioning]:
    """Yield those that the journals of a stack have; none where there is no journal."""
    from tidepool.cli.explain.record import Source
    from tidepool.cli.pools import read_conversions
    from tidepool.conversion import report as conversions
    from tidepool.lab.phases import of_conversions, of_launches
    from tidepool.scaling import launches

    if has_journal(stack):
        with Source(stack) as source:
            if source.journal is not None:
                yield from of_launches(stack.name, launches.rows(source.journal.launches(None)))
    journal = read_conversions(stack)
    if journal is not None:
        with closing(journal):
            rows = conversions.rows(journal.conversions(limit=_MOST))
        yield from of_conversions(stack.name, rows, _infrastructures(stack))


def _infrastructures(stack: Stack) -> Callable[[str], str]:
    """Say of a pool's name where its machines are, by the stack's file; of a pool that it has no more, nothing."""
    from tidepool.cli.stack_spec import described_spec

    pools = {}
    if stack.file.exists():
        spec = described_spec(stack)
        pools = {each.name: str(spec.pool_infrastructure(each)) for each in spec.pools}
    return lambda pool: pools.get(pool, "")
